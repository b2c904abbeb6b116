// SPDX-License-Identifier: MIT
// Claims about heads, from captures of the thesis' models.
#include <algorithm>

#include "examples/common/figures/head_figures.hpp"
#include "examples/common/numbers/recovery.hpp"
#include "examples/thesis/thesis.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/capture_set.hpp"

namespace qkgeom::examples::thesis {
namespace {

const std::vector<std::string> recovering_models{"llama3.1-8b", "llama3.2-11b"};

/// The members of a list of models that are captured.
struct captured_part {
  std::vector<const captured_model*> models;
  std::size_t wanted = 0, heads = 0;
  std::string missing;  ///< the names of the others

  /// Undecided until all are captured, with the numbers over those that are; `tables` is what tables say.
  finding decide(const std::vector<double>& numbers, const std::string& tables) const {
    if (models.empty())
      return {.undecided = true,
              .note = tables + (tables.empty() ? "" : "; ") + "captures of the " + std::to_string(wanted) +
                      " models (qkgeom capture --protocol NAME), given with --captures, decide it"};
    if (!missing.empty())
      return {.undecided = true,
              .text = listed(numbers) + " over " + std::to_string(models.size()) + " of " + counted(wanted, "model"),
              .note = "not captured: " + missing};
    return {.numbers = numbers,
            .note = "over " + counted(heads, "head") + " of " + counted(models.size(), "captured model")};
  }
};

captured_part captured_of(const published& p, const std::vector<std::string>& models) {
  captured_part part{.models = {}, .wanted = models.size(), .missing = {}};
  for (const auto& name : models) {
    const captured_model* found = nullptr;
    if (p.captures)
      for (const auto& c : *p.captures)
        if (c.name == name) found = &c;
    if (found)
      part.models.push_back(found), part.heads += found->report.heads.size();
    else
      part.missing += (part.missing.empty() ? "" : ", ") + name;
  }
  return part;
}

/// A row for each head, called as its model.
named_table table_of_heads(const std::vector<const captured_model*>& models) {
  named_table t{.name = "heads", .rows = {}};
  auto& classes = t.columns["class"];
  classes.is_text = true;
  for (const auto* m : models)
    for (const auto& h : m->report.heads) {
      t.rows.push_back(m->name);
      classes.printed.push_back({std::string(name_of(h.pca.head_class))});
      for (const auto& [name, number] : {std::pair("pc0_share", h.pca.explained_variance.at(0)),
                                         {"pc1_share", h.pca.explained_variance.at(1)},
                                         {"q_linear_share", h.pca.q_linear_share},
                                         {"k_linear_share", h.pca.k_linear_share},
                                         {"r_q_pc0", h.pca.r_q.at(0)},
                                         {"r_k_pc0", h.pca.r_k.at(0)},
                                         {"r_q", h.rotation.q.r},
                                         {"r_k", h.rotation.k.r},
                                         {"residual_r", h.rotation.residual_pos_r},
                                         {"bias", h.rotation.bias.strength},
                                         {"separation", h.rotation.separation_strength}})
        t.columns[name].numbers.push_back(number);
    }
  return t;
}

}  // namespace

std::vector<captured_model> read_captures(const std::vector<std::string>& captures, const arguments& a,
                                          const published& p) {
  std::vector<captured_model> models;
  const auto names = p.texts("models.name");
  for (const auto& text : captures) {
    const auto sign = text.find('=');
    const bool named = sign != std::string::npos && !std::filesystem::exists(text);
    auto one = a;
    one.captures = {named ? text.substr(sign + 1) : text};
    std::string name = named ? text.substr(0, sign) : "";
    if (!named) {
      const auto source = capture_set::open(one.captures);
      const auto& extra = source.manifest().extra;
      if (extra.contains("study") && extra["study"].is_string()) name = extra["study"].get<std::string>();
      require(!name.empty(), "--captures ", text, ": its manifest names no study; write MODEL=", text);
    }
    require(std::find(names.begin(), names.end(), name) != names.end(), "--captures ", text, ": ", printable(name),
            " is none of the thesis' models, such as ", names.front());
    for (const auto& m : models) require(m.name != name, "--captures: the model ", name, " is there twice");
    analysis_options options;
    options.covariances = {covariance_kind::diagonal};
    options.empirical = false;
    options.plasticity = std::ranges::find(recovering_models, name) != recovering_models.end();
    models.push_back({name, analyse_capture(one, options).report});
  }
  return models;
}

finding find_in_captures(const stated_claim& claim, const published& p) {
  const auto part = captured_of(p, p.texts(claim.captures + ".name"));
  if (part.models.empty()) {
    auto found = part.decide({}, p.words(claim.note));
    if (!p.captures || p.captures->empty()) found.text = p.words(claim.cases);
    return found;
  }
  return part.decide(find_by_expression(claim, p.with(table_of_heads(part.models))).numbers, {});
}

finding recovering_layers(const published& p) {
  constexpr double stated[] = {29, 26};
  const auto part = captured_of(p, recovering_models);
  std::vector<double> counts;
  for (const auto* m : part.models)
    counts.push_back(static_cast<double>(recovery(m->report).at(0).recovering_layers()));
  auto found = part.decide(counts, "no profile by layer is published");
  if (found.undecided) return found;
  for (std::size_t i = 0; i < counts.size(); ++i)
    found.conditions.emplace_back(recovering_models[i] + " (" + significant(counts[i]) + " layers)",
                                  counts[i] == stated[i]);
  found.numbers.clear();
  return found;
}

}  // namespace qkgeom::examples::thesis
