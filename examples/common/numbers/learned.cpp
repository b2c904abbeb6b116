// SPDX-License-Identifier: MIT
#include "examples/common/numbers/learned.hpp"

#include <cmath>

#include "examples/common/figures/head_figures.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {
namespace {

/// The mean over models of one number, with its replicates where all models have as many.
group_number mean_number(const std::vector<group_number>& seeds) {
  group_number mean{seeds.at(0).name, 0, {}, {}};
  const auto count = static_cast<double>(seeds.size());
  bool alike = true;
  for (const auto& s : seeds) {
    mean.value += s.value / count;
    alike = alike && s.without.size() == seeds[0].without.size();
  }
  if (!alike) return mean;
  mean.without.assign(seeds[0].without.size(), 0);
  for (std::size_t i = 0; i < mean.without.size(); ++i)
    for (const auto& s : seeds) mean.without[i] += (std::isnan(s.without[i]) ? s.value : s.without[i]) / count;
  return mean;
}

/// Standard deviation over models, n - 1; NaN of one.
double deviation_of(const std::vector<group_number>& seeds, double mean) {
  double sum = 0;
  for (const auto& s : seeds) sum += (s.value - mean) * (s.value - mean);
  return seeds.size() < 2 ? NAN : std::sqrt(sum / static_cast<double>(seeds.size() - 1));
}

struct printed_number {
  const char *number, *words;
};
/// learned.csv has all.
constexpr printed_number printed_numbers[] = {{"ap_overall", "AP overall"},
                                              {"ap_first_20pct", "AP first 20 %"},
                                              {"ap_last_20pct", "AP last 20 %"},
                                              {"ap_drop", "AP drop"},
                                              {"abs_r_q_pc0", "|r_q| component 0"},
                                              {"abs_r_k_pc0", "|r_k| component 0"},
                                              {"abs_r_k_a", "|r_k| axis a"},
                                              {"abs_bias_context_logits", "|bias| × context, logits"},
                                              {"abs_bias_context_in_sd", "|bias| × context, in sd"},
                                              {"separation_strength", "separation strength"},
                                              {"plane_var_fraction", "plane's variance"},
                                              {"share_positive_bias", "share of bias > 0"},
                                              {"share_position_dominated", "share position-dominated"},
                                              {"share_content_focused", "share content-focused"}};

std::string verdict_of(const learned_number& l) {
  return std::isnan(l.low) ? "cannot be said" : l.is_learned() ? "yes" : "no";
}

/// Ids of the documents; captures of the same texts have the same. Empty if the manifest lists no documents.
std::vector<std::string> document_ids_of(const analysed& a) {
  std::vector<std::string> ids;
  for (const auto& d : a.source->listed_documents()) ids.push_back(d.id);
  return ids;
}

}  // namespace

std::vector<learned_number> learned_numbers(const compared_group& model,
                                            const std::vector<const compared_group*>& untrained, bool paired) {
  require(!untrained.empty(), "what a model has learned needs an untrained model to hold it against");
  const auto own = numbers_to_compare(model);
  std::vector<std::vector<group_number>> seeds;
  for (const auto* g : untrained) {
    seeds.push_back(numbers_to_compare(*g));
    require(seeds.back().size() == own.size(), "an untrained model has other numbers than the model");
  }
  std::vector<learned_number> all;
  const auto count = static_cast<double>(seeds.size());
  for (std::size_t n = 0; n < own.size(); ++n) {
    std::vector<group_number> of_seeds;
    for (const auto& s : seeds) of_seeds.push_back(s[n]);
    const auto mean = mean_number(of_seeds);
    const auto difference = difference_of(own[n], mean, paired);
    learned_number l{.name = own[n].name, .value = own[n].value, .untrained = mean.value};
    l.learned = difference.value;
    l.document_error = difference.error;
    l.seed_error = deviation_of(of_seeds, mean.value) * std::sqrt(1 + 1 / count);
    const double half = std::hypot(half_width(difference), interval_factor(count - 1) * l.seed_error);
    l.low = l.learned - half;
    l.high = l.learned + half;
    all.push_back(std::move(l));
  }
  return all;
}

std::vector<learned_group> learned_of(const std::vector<compared_model>& models) {
  std::vector<learned_group> all;
  for (const auto& model : models)
    for (const auto& group : model.groups) {
      std::vector<const compared_group*> untrained;
      bool paired = true;
      for (const auto& other : models) {
        if (&other == &model || !other.untrained || other.architecture != model.architecture) continue;
        if (const auto* g = other.group(group.name)) untrained.push_back(g);
        paired = paired && same_documents(model, other);
      }
      if (!untrained.empty())
        all.push_back(
            {model.label, group.name, model.untrained, untrained.size(), learned_numbers(group, untrained, paired)});
    }
  return all;
}

qkgeom::table learned_table(const std::vector<learned_group>& groups) {
  struct row {
    const learned_group* group;
    const learned_number* number;
  };
  table_columns<row> c;
  c.of(&row::group)
      .add("model", "label of the model", &learned_group::model)
      .add("seeds", "number S of untrained models that the model is held against", &learned_group::seeds)
      .add("group", group_meaning, &learned_group::group);
  c.of(&row::number)
      .add("number", "name of the number, as in differences.csv", &learned_number::name)
      .add("value", "value of the model", &learned_number::value)
      .add("untrained", "mean over the untrained models", &learned_number::untrained)
      .add("learned", "value less untrained", &learned_number::learned)
      .add("learned_document_error", "jackknife error of learned over documents", &learned_number::document_error)
      .add("learned_seed_error", "s sqrt(1 + 1/S), s the standard deviation over seeds; empty with one seed",
           &learned_number::seed_error)
      .add("low", "lower end of the 95 % interval over documents and seeds; empty with one seed", &learned_number::low)
      .add("high", "upper end of the 95 % interval over documents and seeds", &learned_number::high);
  return std::move(c).with_rows([&groups](const auto& f) {
    for (const auto& g : groups)
      for (const auto& l : g.numbers) f(row{&g, &l});
  });
}

compared_model compare_by_capture(const analysed& a, std::string label, std::string family,
                                  const std::vector<double>& token_edges) {
  auto model = compare_by(a.report, std::move(label), std::move(family), document_ids_of(a), token_edges);
  const auto& manifest = a.source->manifest();
  model.architecture = manifest.model.config_sha256;
  model.untrained = untrained_seed(manifest).has_value();
  return model;
}

void require_untrained(const std::vector<std::filesystem::path>& captures, const std::filesystem::path& model) {
  if (captures.empty()) return;
  const auto architecture = capture::open(model).manifest().model.config_sha256;
  for (const auto& path : captures) {
    const auto untrained = capture::open(path);
    require(untrained_seed(untrained.manifest()).has_value(), path.string(),
            " is not the capture of an untrained model");
    require(untrained.manifest().model.config_sha256 == architecture, path.string(),
            " is of another architecture than ", model.string());
  }
}

void print_learned(printer& out, const std::vector<learned_group>& groups) {
  std::size_t intervals = 0, outside = 0;
  for (const auto& g : groups) {
    for (const auto& l : g.numbers)
      if (g.untrained && !std::isnan(l.low)) {
        ++intervals;
        outside += l.is_learned();
      }
    if (g.group != "all" || g.untrained) continue;
    table t({"number"}, {"model", "untrained", "learned", "95 % interval", "learned?"});
    for (const auto& p : printed_numbers)
      for (const auto& l : g.numbers) {
        if (l.name != p.number) continue;
        const std::string interval =
            std::isnan(l.low) ? "-" : signed_significant(l.low) + " to " + signed_significant(l.high);
        t.row({p.words, significant(l.value), significant(l.untrained), signed_significant(l.learned), interval,
               verdict_of(l)});
      }
    out.heading("What training put into " + g.model + ": less the mean of " + counted(g.seeds, "untrained model") +
                ", all heads");
    out.print(t);
    if (g.seeds < 2) out.line("  one seed says nothing of how untrained models differ: no interval");
  }
  if (intervals > 0)
    out.line("  Each untrained model in the place of the model: " +
             percent(static_cast<double>(outside) / static_cast<double>(intervals)) + " of " +
             counted(intervals, "interval") + " leave out 0, where 5 % are expected");
}

}  // namespace qkgeom::examples
