// SPDX-License-Identifier: MIT
// The report's notes: settings, captures, definitions.
#include <algorithm>
#include <utility>

#include "examples/common/figures/gnuplot.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/report/page.hpp"
#include "qkgeom/io/capture_set.hpp"

namespace qkgeom::examples {
namespace {

using entries = std::vector<std::pair<std::string, std::string>>;

std::string list_html(const entries& list) {
  std::string s = "<dl>\n";
  for (const auto& [name, value] : list)
    if (!value.empty()) s += "<div><dt>" + html_text(name) + "</dt><dd>" + html_words(value) + "</dd></div>\n";
  return s + "</dl>\n";
}

std::string joined(const std::vector<std::string>& words) {
  std::string s;
  for (const auto& w : words) s += (s.empty() ? "" : ", ") + w;
  return s;
}

std::string buckets_words(const bucket_edges& buckets) {
  const auto& edges = buckets.edges();
  if (buckets.count() == 0) return "none";
  const index_t width = edges[1] - edges[0];
  bool equal = true;
  for (std::size_t i = 1; i + 1 < edges.size(); ++i)  // the context's end may cut the last one short
    equal &= edges[i + 1] - edges[i] == width || (i + 2 == edges.size() && edges[i + 1] - edges[i] < width);
  if (equal) return std::to_string(buckets.count()) + " of " + grouped(width) + " tokens";
  std::vector<std::string> words;
  for (const index_t e : edges) words.push_back(grouped(e));
  return "edges at " + joined(words) + " tokens";
}

entries settings_of(const analysed& a, const report_settings& s) {
  const auto& report = a.report;
  const auto& choice = s.choice;
  const bool every_token = report.moment_tokens > 0;
  return {{"Command", s.command},
          {"qkgeom", "version " + s.version},
          {"Query models", joined(choice.covariance) + "; the first is behind AP in the table of heads"},
          {"Query buckets", buckets_words(report.buckets)},
          {"Query position in its bucket", choice.query_position},
          {"Pairs of keys", choice.pairs + " (" + pairs_words(report) + ")"},
          {"Pair arithmetic", choice.precision},
          {"Seed of draws", std::to_string(choice.seed)},
          {"Moments", every_token ? "of every token, " + grouped(report.moment_tokens) + " queries per head"
                                  : std::string("of the captured rows")},
          {"Head classes", "|r| above " + significant(s.thresholds.high, 2) + " follows position, below " +
                               significant(s.thresholds.low, 2) + " does not"},
          {"Errors of PCA and rotation",
           s.refit_errors ? "from analyses without a tenth of the documents each" : "none (--refit-errors)"}};
}

std::string rope_words(const captured_rope& r) {
  std::string s = r.style + ", " + std::to_string(r.rotary_dim) + " dimensions";
  if (r.first > 0) s += " from " + std::to_string(r.first) + " on";
  if (!r.inv_freq.empty()) {
    const auto [slow, fast] = std::minmax_element(r.inv_freq.begin(), r.inv_freq.end());
    s += ", inverse frequencies " + significant(*fast) + " to " + significant(*slow) + " radians per token";
  }
  if (r.by_length) s += ", other ones in documents on the other side of " + grouped(r.by_length->context) + " tokens";
  if (r.attention_factor != 1) s += ", attention factor " + significant(r.attention_factor, 4);
  return s;
}

std::string layers_words(const capture_manifest& m) {
  std::size_t rope = 0, windowed = 0;
  for (const auto& l : m.layers) {
    rope += l.rope;
    windowed += l.window.has_value();
  }
  std::string s = std::to_string(m.layers.size()) + " of " + std::to_string(m.model.n_layers) + ": " +
                  std::to_string(rope) + " RoPE, " + std::to_string(m.layers.size() - rope) + " NoPE";
  return windowed > 0 ? s + ", " + std::to_string(windowed) + " with a window" : s;
}

/// Which tokens were kept. The manifest's rate is a probability; for log2 buckets, the expected tokens of a bucket.
std::string sampling_words(const capture_manifest& m) {
  if (m.bucket.kind == "all") return "every token";
  const double size = static_cast<double>(m.bucket.size);
  if (m.bucket.kind == "log2")
    return significant(m.rate) + " tokens of each log2 bucket, the smallest of " + grouped(m.bucket.size);
  return significant(m.rate * size) + " of the " + grouped(m.bucket.size) + " tokens of each bucket (probability " +
         significant(m.rate) + ")";
}

entries capture_of(const capture& c) {
  const auto& m = c.manifest();
  index_t documents = 0, tokens = 0, rows = 0;
  if (m.documents)
    for (const auto& e : *m.documents) {
      ++documents;
      tokens += e.tokens;
    }
  for (const auto& s : m.shards) rows += s.rows;
  entries list{{"Model", m.model.name + " (" + m.model.model_type + ")"},
               {"Shape", std::to_string(m.model.n_layers) + " layers, " + std::to_string(m.model.n_query_heads) +
                             " query heads, " + std::to_string(m.model.n_key_heads) + " key heads, head size " +
                             std::to_string(m.model.head_dim)},
               {"SHA-256 of its config", m.model.config_sha256},
               {"Family", m.family.value_or("")},
               {"Revision", m.revision.value_or("")},
               {"Written by", m.written_by},
               {"Computed in", m.compute_dtype.value_or("")},
               {"Context", grouped(m.context_length) + " tokens"},
               {"Documents", m.documents ? grouped(documents) + ", " + grouped(tokens) + " tokens together" : ""},
               {"Captured rows", rows > 0 ? grouped(rows) + " queries and keys of all layers" : ""},
               {"Sampling", sampling_words(m) + ", seed " + std::to_string(m.seed)},
               {"Layers captured", layers_words(m)},
               {"Queries and keys", m.rope_stage == "post" ? "as they enter the dot product, after the rotary embedding"
                                                           : "before the rotary embedding"},
               {"RoPE", m.rope ? rope_words(*m.rope) : ""}};
  for (const auto& [name, value] : m.extra.items()) list.emplace_back(name, value.dump());
  return list;
}

std::string documents_html(const capture_manifest& m) {
  if (!m.documents || m.documents->empty()) return {};
  const bool labelled =
      std::any_of(m.documents->begin(), m.documents->end(), [](const auto& e) { return !e.labels.is_null(); });
  std::vector<table::column> columns{{"document", table::align::left}, {"tokens"}};
  if (labelled) columns.push_back({"labels", table::align::left});
  table t(std::move(columns));
  for (const auto& e : *m.documents) {
    std::vector<std::string> cells{e.id, grouped(e.tokens)};
    if (labelled) cells.push_back(e.labels.is_null() ? "" : e.labels.dump());
    if (cells[0].empty()) cells[0] = "document " + std::to_string(e.index);
    t.row(std::move(cells));
  }
  return "<details><summary>" + counted(m.documents->size(), "document") + "</summary>\n" +
         html_table(t, "Documents of the capture") + "</details>\n";
}

/// Equations and sections are the thesis'.
const entries& definitions() {
  static const entries list{
      {"Component 0, PC0 (4.2)",
       "First principal component of a head's pooled queries and keys. r_q and r_k: correlation of the queries' and of "
       "the keys' projection with token position."},
      {"Head class (4.2.2)",
       "By r on component 0: position-dominated (queries and keys follow position), q-positional and k-positional (one "
       "side does), content-focused (neither), mixed."},
      {"Axes a and b (4.3, 4.5)",
       "a: direction of the covariance of pooled queries and keys with position. b: direction from the keys' mean to "
       "the queries', orthogonal to a. Plane variance: the share of the pooled variance along both."},
      {"Bias strength (4.6)",
       "Mean query on a times the keys' slope along a: the score that a key gains per token by position alone. "
       "Positive: "
       "later keys score higher."},
      {"Bias × context, in sd",
       "Bias strength times the context length; in sd: over the standard deviation of the score difference of two keys "
       "of one document. Both compare across context lengths, the second across models too."},
      {"Query models (4.10 to 4.12, A.2)",
       "A normal distribution of the queries of each bucket: linear drift with position in one coordinate; diagonal: "
       "variances of the others, the thesis' choice; full and joint: their covariance too; linear_drift: drift in all "
       "coordinates."},
      {"Plasticity of a pair (4.7, 4.8, 4.14)",
       "4 p (1 - p), p the probability that a query of the bucket scores key i above key j: twice the probability that "
       "two queries order the keys differently. Observed: p is a share of the captured queries, corrected by n/(n-1)."},
      {"Profile, AP_t (4.9, 4.4.5)",
       "Mean plasticity over pairs of keys of one document before a query bucket. The heatmap splits it by the "
       "distance of the two keys and of the query from their middle."},
      {"AP overall, first, last, AP_drop (4.4.5)",
       "Means of the profile over the query buckets of the whole context, its first and its last fifth, by their "
       "queries. AP_drop: first less last."},
      {"Standard error",
       "Jackknife over documents: the spread of the value with each document left out in turn, given the query model. "
       "That of a mean over heads leaves a document out of all heads at once. Fewer than three documents have none."},
      {"95 % interval",
       "The value less and plus its standard error times Student's t with as many degrees of freedom as documents, "
       "less "
       "one: 4.3 errors for three documents, 2.2 for twelve, 2 for a hundred."}};
  return list;
}

}  // namespace

std::string notes_html(const analysed& a, const report_settings& settings) {
  std::string s = "<h3>How this report was made</h3>\n" + list_html(settings_of(a, settings));
  const auto& captures = a.source->captures();
  for (const auto& c : captures) {
    s += "<h3>Capture " + html_text(c.path().string()) + "</h3>\n" + list_html(capture_of(c));
    s += documents_html(c.manifest());
  }
  return s + "<h3>Definitions</h3>\n<p>Numbers in brackets are sections and equations of the thesis.</p>\n" +
         list_html(definitions());
}

}  // namespace qkgeom::examples
