// SPDX-License-Identifier: MIT
#include "examples/common/learned.hpp"

#include <cmath>

#include "examples/common/figures/head_figures.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/capture_set.hpp"

namespace qkgeom::examples {
namespace {

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
