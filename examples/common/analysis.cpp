// SPDX-License-Identifier: MIT
// Instantiates the analyses for the CPU, once for all programs.
#include <algorithm>
#include <string>
#include <string_view>

#include "examples/common/cuda.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/common/outputs.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/io/whole_number.hpp"
#include "qkgeom/report/analyse.hpp"

namespace qkgeom::examples {
namespace {

/// Sets the pairs that --pairs names.
void set_pairs(analysis_options& options, const std::string& text) {
  constexpr std::string_view prefix = "sampled:";
  if (text == "per_document") options.weighting = pair_weighting::documents;
  if (text == "prefix_uniform") options.weighting = pair_weighting::prefix_uniform;
  if (text == "all" || options.weighting != pair_weighting::pairs) return;
  const auto n = text.starts_with(prefix) ? whole_number<index_t>(text.substr(prefix.size())) : std::nullopt;
  require(n && *n >= 2, "--pairs must be all, per_document, prefix_uniform or sampled:N with N of 2 or more, not ",
          text);
  options.sampled_pairs = *n;
}

/// LAYER.HEAD as `option` names it. Throws `error` if the capture lacks it.
head_id head_in(const capture_manifest& manifest, const std::string& name, const char* option) {
  const auto wanted = parse_head(name, option);
  const index_t at = manifest.find_layer(wanted.layer);
  const auto* heads = at < 0 ? nullptr : &manifest.layers[at].query_heads;
  require(heads && std::find(heads->begin(), heads->end(), wanted.head) != heads->end(), option, " ", name,
          ": this head is not in the capture");
  return wanted;
}

model_report analyse_on(const arguments& a, const capture_set& source, const analysis_options& options,
                        const std::function<void(index_t)>& progress) {
  if (a.device == "cuda") return analyse_on_cuda(source, options, a.threads, progress);
  cpu_context cpu{{.threads = a.threads}};
  cpu.pool().watch(a.watch);
  return analyse(cpu, source, options, progress);
}

}  // namespace

analysis_options with_arguments(analysis_options options, const arguments& a) {
  options.bucket_size = a.bucket_size;
  options.bucket_edges = a.bucket_edges;
  options.seed = a.seed;
  set_pairs(options, a.pairs);
  options.position = a.query_position == "mean" ? query_position::mean : query_position::middle;
  if (a.precision != "auto") options.precision = a.precision == "f64" ? pair_precision::f64 : pair_precision::f32;
  options.covariances.clear();
  options.empirical = false;
  for (const auto& name : a.covariance) {
    if (name == "empirical") options.empirical = options.weighting == pair_weighting::pairs;  // else of other pairs
    for (const covariance_kind kind : all_covariance_kinds)
      if (name == name_of(kind)) options.covariances.push_back(kind);
  }
  require(!options.covariances.empty(), "--covariance must name a query model beside empirical, e.g. joint,empirical");
  return options;
}

capture_set open_captures(const arguments& a) {
  auto source = capture_set::open(a.captures);
  if (!a.documents.empty()) source = source.only(a.documents);
  if (a.max_position > 0 && a.max_position < source.manifest().context_length) source = source.before(a.max_position);
  if (!a.head_part.empty()) source = head_part(source, a.head_part);
  return source;
}

analysed analyse_capture(const arguments& a, analysis_options options) {
  return analyse_set(a, open_captures(a), std::move(options), "Analysing");
}

analysed analyse_set(const arguments& a, capture_set source, analysis_options options, const std::string& label) {
  options.every_token = !a.rows_only;
  const auto& manifest = source.manifest();
  require(manifest.query_heads() > 0, a.captures.at(0).string(), ": this capture holds no query head");
  require(has_rows(source) || (!options.plasticity && manifest.extra.contains("moments")), a.captures.at(0).string(),
          ": this capture holds no rows");
  for (const auto& h : a.heads) options.heads.push_back(head_in(manifest, h, "--heads"));
  for (const index_t layer : a.layers) {
    const index_t at = manifest.find_layer(layer);
    require(at >= 0, "--layers ", layer, ": this layer is not in the capture");
    for (const index_t h : manifest.layers[at].query_heads) options.heads.push_back({layer, h});
  }
  progress bar(label, analysed_heads(manifest, options), "heads");
  auto report = analyse_on(a, source, options, [&](index_t n) { bar.add(n); });
  bar.done();
  return {std::make_shared<const capture_set>(std::move(source)), std::move(report)};
}

void require_heads(const arguments& a, const std::vector<std::string>& names) {
  if (names.empty()) return;
  const auto source = capture_set::open(a.captures);
  for (const auto& name : names) head_in(source.manifest(), name, "--head");
}

std::vector<report_note> notes_on_captures(const arguments& a) {
  return notes_of(capture_set::open(a.captures), {}, {});
}

}  // namespace qkgeom::examples
