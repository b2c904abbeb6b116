// SPDX-License-Identifier: MIT
// Claims about heads, from captures of the thesis' models.
#include "examples/thesis/captured.hpp"

#include <algorithm>
#include <functional>

#include "examples/common/figures/head_figures.hpp"
#include "examples/common/outputs.hpp"
#include "examples/thesis/profiles.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/stats/association.hpp"
#include "examples/common/numbers/recovery.hpp"

namespace qkgeom::examples::thesis {
namespace {

const std::vector<std::string> recovering_models{"llama3.1-8b", "llama3.2-11b"};

bool recovers_in_thesis(const std::string& model) {
  return std::find(recovering_models.begin(), recovering_models.end(), model) != recovering_models.end();
}

/// The captured ones of `models`; the names of the others in `missing`.
std::vector<const captured_model*> captured_of(const published& p, const std::vector<std::string>& models,
                                               std::string& missing) {
  std::vector<const captured_model*> found;
  for (const auto& name : models) {
    const auto at = std::find_if(p.captures.begin(), p.captures.end(), [&](const auto& c) { return c.name == name; });
    if (at != p.captures.end())
      found.push_back(&*at);
    else
      missing += (missing.empty() ? "" : ", ") + name;
  }
  return found;
}

using model_list = std::vector<const captured_model*>;

/// Undecided, with the numbers over what there is, until all `models` are captured.
finding from_captures(const published& p, const std::vector<std::string>& models,
                      const std::function<std::vector<double>(const model_list&)>& compute, const std::string& tables) {
  std::string missing;
  const auto found = captured_of(p, models, missing);
  if (found.empty())
    return undecided(tables + (tables.empty() ? "" : "; ") + "captures of the " + std::to_string(models.size()) +
                     " models (qkgeom-capture --study NAME), given with --captures, decide it");
  const auto values = compute(found);
  if (!missing.empty())
    return undecided("not captured: " + missing, listed(values) + " over " + std::to_string(found.size()) + " of " +
                                                     counted(models.size(), "model"));
  std::size_t heads = 0;
  for (const auto* m : found) heads += m->report.heads.size();
  return numbers(values, "over " + counted(heads, "head") + " of " + counted(found.size(), "captured model"));
}

using head_number = std::function<double(const head_report&)>;

/// f(head) of each head of all models.
std::vector<double> of_heads(const model_list& models, const head_number& f) {
  std::vector<double> values;
  for (const auto* m : models)
    for (const auto& h : m->report.heads) values.push_back(f(h));
  return values;
}

std::vector<std::string> primary_models(const published& p) { return column(p.primary(), &model::name); }

claim_function head_mean(const char* id, const head_number& f, const char* tables = "no table by head is published") {
  return {id, [=](const published& p) {
            return from_captures(
                p, primary_models(p), [&](const model_list& m) { return std::vector{mean(of_heads(m, f))}; }, tables);
          }};
}

claim_function mean_of_each_model(const char* id, const head_number& f) {
  return {id, [=](const published& p) {
            return from_captures(
                p, primary_models(p),
                [&](const model_list& m) { return each(m, [&](const auto* one) { return mean(of_heads({one}, f)); }); },
                "no table by head is published");
          }};
}

claim_function class_share(const char* id, std::vector<head_class> classes) {
  return head_mean(id, [=](const head_report& h) {
    return std::count(classes.begin(), classes.end(), h.pca.head_class) > 0 ? 100.0 : 0.0;
  });
}

finding bias_and_separation(const published& p, const std::vector<std::string>& models) {
  return from_captures(
      p, models,
      [](const model_list& m) {
        return std::vector{associate(association::pearson,
                                     of_heads(m, [](const head_report& h) { return h.rotation.bias.strength; }),
                                     of_heads(m, [](const head_report& h) { return h.rotation.separation_strength; }))};
      },
      "no table by head is published");
}

/// Layers with a recovery, stated as 29 of 32 and 26 of 32.
finding recovering_layers(const published& p) {
  constexpr double stated[] = {29, 26};
  std::vector<double> counts;
  const auto found = from_captures(
      p, recovering_models,
      [&](const model_list& models) {
        for (const auto* m : models)
          counts.push_back(static_cast<double>(recovery(m->report).at(0).recovering_layers()));
        return counts;
      },
      "no profile by layer is published");
  if (found.undecided) return found;
  condition_list which;
  for (std::size_t i = 0; i < counts.size(); ++i)
    which.emplace_back(recovering_models[i] + " (" + significant(counts[i]) + " layers)", counts[i] == stated[i]);
  return conditions(std::move(which), found.note);
}

}  // namespace

std::vector<captured_model> read_captures(const std::vector<std::string>& captures, const arguments& a,
                                          const published& p) {
  std::vector<captured_model> models;
  const auto names = column(p.models, &model::name);
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
    options.plasticity = recovers_in_thesis(name);
    models.push_back({name, analyse_capture(one, options).report});
  }
  return models;
}

claim_functions captured_claims() {
  const auto size = [](double value) { return std::abs(value); };
  claim_functions list{
      head_mean("pc0_share", [](const head_report& h) { return h.pca.explained_variance.at(0); }),
      head_mean("pc1_share", [](const head_report& h) { return h.pca.explained_variance.at(1); }),
      mean_of_each_model("q_linear_share", [](const head_report& h) { return h.pca.q_linear_share; }),
      mean_of_each_model("k_linear_share", [](const head_report& h) { return h.pca.k_linear_share; }),
      head_mean("r_q_pc0", [=](const head_report& h) { return size(h.pca.r_q.at(0)); }),
      head_mean("r_k_pc0", [=](const head_report& h) { return size(h.pca.r_k.at(0)); }),
      class_share("class_position", {head_class::position_dominated}),
      class_share("class_q", {head_class::q_positional}),
      class_share("class_content", {head_class::content_focused}),
      class_share("class_mixed", {head_class::mixed, head_class::k_positional}),  // as the thesis counts
      head_mean("residual_r", [](const head_report& h) { return h.rotation.residual_pos_r; }),
  };
  list.push_back({"primacy_heads", [](const published& p) {
                    return from_captures(
                        p, primary_models(p),
                        [](const model_list& m) {
                          const auto bias = of_heads(m, [](const head_report& h) { return h.rotation.bias.strength; });
                          return std::vector{static_cast<double>(
                              std::count_if(bias.begin(), bias.end(), [](double b) { return b < 0; }))};
                        },
                        "99.0 % of " + significant(p.heads_analysed) + " allows 31 to 34");
                  }});
  list.push_back(
      {"bias_separation_pooled", [](const published& p) { return bias_and_separation(p, primary_models(p)); }});
  list.push_back({"bias_separation_llama",
                  [](const published& p) { return bias_and_separation(p, column(p.family("Llama"), &model::name)); }});
  list.push_back({"recovery_layers", recovering_layers});
  // Tables give the mean of 7 models.
  const auto axis = [&](const char* id, double model::*member, const head_number& f) {
    const auto from_heads =
        head_mean(id, f, "mean of the 7 models in table 1 of the note; 4 of the 11 are not published").compute;
    list.push_back({id, [=](const published& p) {
                      auto found = from_heads(p);
                      if (p.captures.empty())
                        found.text = significant(mean(column(p.scored(), member))) + " over 7 of 11 models";
                      return found;
                    }});
  };
  axis("r_k_axis", &model::r_k, [=](const head_report& h) { return size(h.rotation.k.r); });
  axis("r_q_axis", &model::r_q, [=](const head_report& h) { return size(h.rotation.q.r); });
  return list;
}

}  // namespace qkgeom::examples::thesis
