// SPDX-License-Identifier: MIT
// Instantiates the analyses for the CPU, once for all programs.
#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "examples/common/cuda.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/common/outputs.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/progress.hpp"
#include "qkgeom/report/analyse.hpp"

namespace qkgeom::examples {
namespace {

/// Number of drawn pairs: N of "sampled:N", 0 of "all".
index_t drawn_pairs(const std::string& text) {
  constexpr std::string_view prefix = "sampled:";
  if (text == "all") return 0;
  index_t n = 0;
  const char* const end = text.data() + text.size();
  const bool named = text.compare(0, prefix.size(), prefix) == 0;
  const auto [stop, failed] = std::from_chars(text.data() + (named ? prefix.size() : 0), end, n);
  require(named && failed == std::errc() && stop == end && n >= 2,
          "--pairs must be all or sampled:N with N of 2 or more, not ", text);
  return n;
}

/// False for captures of `qkgeom-capture --sampler all --analyse`. A single file states no number of rows: true.
bool has_rows(const capture_set& source) {
  index_t rows = 0;
  bool known = true;
  for (const auto& c : source.captures()) {
    known = known && !c.manifest().shards.empty();
    for (const auto& shard : c.manifest().shards) rows += shard.rows;
  }
  return rows > 0 || !known;
}

model_report analyse_on(const arguments& a, const capture_set& source, const analysis_options& options,
                        const std::function<void(index_t)>& progress) {
  if (a.device == "cuda") return analyse_on_cuda(source, options, a.threads, progress);
  cpu_context cpu{{.threads = a.threads}};
  return analyse(cpu, source, options, progress);
}

}  // namespace

analysis_options with_arguments(analysis_options options, const arguments& a) {
  options.bucket_size = a.bucket_size;
  options.bucket_edges = a.bucket_edges;
  options.seed = a.seed;
  options.sampled_pairs = drawn_pairs(a.pairs);
  options.position = a.query_position == "mean" ? query_position::mean : query_position::middle;
  if (a.precision != "auto") options.precision = a.precision == "f64" ? pair_precision::f64 : pair_precision::f32;
  options.covariances.clear();
  options.empirical = false;
  for (const auto& name : a.covariance) {
    if (name == "empirical") options.empirical = true;
    for (const covariance_kind kind : all_covariance_kinds)
      if (name == name_of(kind)) options.covariances.push_back(kind);
  }
  require(!options.covariances.empty(), "--covariance must name a query model beside empirical, e.g. joint,empirical");
  return options;
}

captured_layer analysed::rows(index_t layer) const { return source->read_layer(layer); }

analysed analyse_capture(const arguments& a, analysis_options options) {
  options.every_token = !a.rows_only;
  auto source = capture_set::open(a.captures);
  if (!a.documents.empty()) source = source.only(a.documents);
  if (a.max_position > 0 && a.max_position < source.manifest().context_length) source = source.before(a.max_position);
  const index_t heads = source.manifest().query_heads();
  require(heads > 0, a.captures.at(0).string(), ": this capture holds no query head");
  require(has_rows(source) || (!options.plasticity && source.manifest().extra.contains("moments")),
          a.captures.at(0).string(), ": this capture holds no rows",
          source.manifest().extra.contains("analyse") ? "; qkgeom-capture --analyse left tables in their place" : "");
  progress bar("Analysing", heads, "heads");
  auto report = analyse_on(a, source, options, [&](index_t n) { bar.add(n); });
  bar.done();
  return {std::make_shared<const capture_set>(std::move(source)), std::move(report)};
}

void require_heads(const arguments& a, const std::vector<std::string>& names) {
  if (names.empty()) return;
  const auto source = capture_set::open(a.captures);
  const auto& manifest = source.manifest();
  for (const auto& name : names) {
    const auto wanted = parse_head(name);
    const index_t at = manifest.find_layer(wanted.layer);
    const auto* heads = at < 0 ? nullptr : &manifest.layers[at].query_heads;
    require(heads && std::find(heads->begin(), heads->end(), wanted.head) != heads->end(), "--head ", name,
            ": this head is not in the capture");
  }
}

std::vector<report_note> notes_on_captures(const arguments& a) {
  return notes_of(capture_set::open(a.captures), {}, {});
}

void print_notes(printer& out, const std::vector<report_note>& notes, const std::string& about) {
  for (const auto& n : notes) out.line("  note: " + (about.empty() ? "" : about + ": ") + n.text);
}

void print_capture(printer& out, const analysed& a) {
  const auto& manifest = a.source->manifest();
  const auto& report = a.report;
  std::string line = printable(manifest.model.name, 200) + " (" + printable(manifest.model.model_type) +
                     "): " + counted(report.heads.size(), "query head") + " in " +
                     counted(manifest.layers.size(), "layer") + ", head size " +
                     std::to_string(manifest.model.head_dim);
  out.heading(line);
  line = "  context of " + grouped(manifest.context_length) + " tokens";
  const std::size_t documents = a.source->listed_documents().size();
  if (documents > 0) line += ", " + counted(documents, "document");
  if (!report.heads.empty())
    line += ", " + grouped(report.heads[0].queries) + " queries and " + grouped(report.heads[0].keys) +
            " keys a head in layer " + std::to_string(report.heads[0].layer);
  out.line(line);
  if (report.moment_tokens > 0)
    out.line("  moments of every token: " + grouped(report.moment_tokens) +
             " queries a head behind PCA, rotation and query models");
  print_notes(out, report.notes);
}

}  // namespace qkgeom::examples
