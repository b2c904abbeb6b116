// SPDX-License-Identifier: MIT
#include "qkgeom/report/softmax_and_loss.hpp"

#include <algorithm>

#include "qkgeom/report/columns.hpp"

namespace qkgeom {

namespace {

/// Sums of one head, or of several, by document and bucket: queries, mass on the first tokens, entropy, mass by
/// distance.
struct softmax_cells {
  index_t buckets = 0, values = 0;
  std::vector<double> sums;  ///< (documents, buckets, values)

  static constexpr index_t entropy_at = 1 + static_cast<index_t>(first_tokens.size()), distance_at = entropy_at + 1;

  double* cell(index_t document, index_t bucket) { return sums.data() + (document * buckets + bucket) * values; }
  index_t documents() const { return static_cast<index_t>(sums.size()) / std::max<index_t>(1, buckets * values); }
};

softmax_cells cells_of_head(const softmax_sums& s, index_t head) {
  const index_t b = s.buckets.count(), bins = s.distances.count(), firsts = static_cast<index_t>(first_tokens.size());
  softmax_cells cells{b, softmax_cells::distance_at + bins, {}};
  cells.sums.resize(s.documents * b * cells.values);
  for (index_t e = 0; e < s.documents; ++e)
    for (index_t i = 0; i < b; ++i) {
      const index_t at = (e * s.heads + head) * b + i;
      double* const to = cells.cell(e, i);
      to[0] = s.count[e * b + i];
      std::copy_n(s.first.begin() + at * firsts, firsts, to + 1);
      to[softmax_cells::entropy_at] = s.entropy[at];
      std::copy_n(s.distance.begin() + at * bins, bins, to + softmax_cells::distance_at);
    }
  return cells;
}

/// Returns the share of the bucket's positions in the bin of distances, as the first token of a document lies there.
double share_in_bin(const bucket_edges& buckets, index_t bucket, const bucket_edges& distances, index_t bin) {
  const index_t low = std::max(buckets.start(bucket), distances.start(bin)),
                high = std::min(buckets.end(bucket), distances.end(bin));
  return static_cast<double>(std::max<index_t>(0, high - low)) /
         static_cast<double>(buckets.end(bucket) - buckets.start(bucket));
}

/// Computes means over the buckets [range.first, range.second).
softmax_means means_of(softmax_cells& cells, const softmax_report& report, std::pair<index_t, index_t> range) {
  const bucket_edges& distances = report.distances;
  softmax_means m;
  const index_t values = cells.values;
  constexpr index_t distance_at = softmax_cells::distance_at;
  std::vector<document_mean> means(values), rest(distances.count());
  document_mean near;
  for (index_t e = 0; e < cells.documents(); ++e) {
    std::vector<double> sums(values);
    for (index_t b = range.first; b < range.second; ++b)
      for (index_t v = 0; v < values; ++v) sums[v] += cells.cell(e, b)[v];
    double close = 0;
    for (index_t d = 0; d < distances.count() && distances.start(d) < near_tokens; ++d) close += sums[distance_at + d];
    near.add(close, sums[0]);
    for (index_t v = 1; v < values; ++v) means[v].add(sums[v], sums[0]);
    for (index_t d = 0; d < distances.count(); ++d) {
      double mass = 0, queries = 0;
      for (index_t b = std::max<index_t>(1, range.first); b < range.second; ++b) {
        const double* const cell = cells.cell(e, b);
        queries += cell[0];
        mass += cell[distance_at + d] - cell[1] * share_in_bin(report.buckets, b, distances, d);
      }
      rest[d].add(mass, queries);
    }
  }
  m.queries = near.weight();
  m.near = near.mean();
  for (std::size_t f = 0; f < first_tokens.size(); ++f) m.first[f] = means[1 + f].mean();
  m.entropy = means[softmax_cells::entropy_at].mean();
  for (index_t v = distance_at; v < values; ++v) m.distance.push_back(means[v].mean());
  for (const auto& mass : rest) m.distance_rest.push_back(mass.mean());
  return m;
}

/// Fills a row with the means of these cells.
void fill(softmax_row& row, softmax_cells& cells, const softmax_report& report) {
  const bucket_edges& buckets = report.buckets;
  const auto means = [&](std::pair<index_t, index_t> range) { return means_of(cells, report, range); };
  for (index_t b = 0; b < buckets.count(); ++b) row.buckets.push_back(means({b, b + 1}));
  row.overall = means({0, buckets.count()});
  row.first20 = means(buckets_between(buckets, 0, 0.2));
  row.last20 = means(buckets_between(buckets, 0.8, 2));
}

/// A row of softmax.csv, or with a bin of distances of softmax_distance.csv.
struct bucket_row {
  const softmax_report& report;
  const softmax_row& of;
  index_t b, distance = 0;
  bool is_head() const { return of.group.empty(); }
  const softmax_means& means() const { return of.buckets[b]; }
};

table_columns<bucket_row> softmax_columns() {
  const auto of_head = [](index_t softmax_row::*number) {
    return [number](const bucket_row& r) { return r.is_head() ? std::optional(r.of.*number) : std::nullopt; };
  };
  table_columns<bucket_row> c;
  c.add("scope", "`model`: a group of heads; `head`: a head", [](auto& r) { return r.is_head() ? "head" : "model"; });
  c.add("group", "group of heads: `all`, `rope` or `nope`; empty for a head", [](auto& r) { return r.of.group; });
  c.add("layer", "number of the layer; empty for a group", of_head(&softmax_row::layer));
  c.add("q_head", "number of the query head; empty for a group", of_head(&softmax_row::q_head));
  c.add("q_bucket", "bucket of the capture's statistics, from 0", &bucket_row::b);
  c.add("start", "first token of the bucket", [](auto& r) { return r.report.buckets.start(r.b); });
  c.add("end", "end of the bucket, excluded, tokens", [](auto& r) { return r.report.buckets.end(r.b); });
  return c;
}

/// Calls f(row) for each bucket of the groups, then of the heads.
template <class F>
void each_bucket(const softmax_report& report, const F& f) {
  for (const auto* rows : {&report.groups, &report.heads})
    for (const auto& row : *rows)
      for (index_t b = 0; b < report.buckets.count(); ++b) f(bucket_row{report, row, b});
}

}  // namespace

std::optional<softmax_report> softmax_of(const capture_set& source) {
  std::optional<softmax_report> report;
  std::array<softmax_cells, 2> kinds;  // NoPE, RoPE
  std::array<index_t, 2> heads{};
  for (const auto& layer : source.manifest().layers) {
    const auto sums = read_softmax(source, layer.layer);
    if (!sums) return std::nullopt;
    if (!report) report = softmax_report{sums->buckets, sums->distances, {}, {}};
    for (index_t h = 0; h < sums->heads; ++h) {
      auto cells = cells_of_head(*sums, h);
      softmax_row row{.layer = layer.layer, .q_head = layer.query_heads[h], .rope = layer.rope};
      fill(row, cells, *report);
      report->heads.push_back(std::move(row));
      auto& kind = kinds[layer.rope ? 1 : 0];
      ++heads[layer.rope ? 1 : 0];
      if (kind.sums.empty())
        kind = std::move(cells);
      else
        std::transform(kind.sums.begin(), kind.sums.end(), cells.sums.begin(), kind.sums.begin(), std::plus<>());
    }
  }
  if (!report) return report;
  const auto add = [&](const char* name, bool rope, index_t n, softmax_cells& cells) {
    softmax_row row{.group = name, .heads = n, .rope = rope};
    fill(row, cells, *report);
    report->groups.push_back(std::move(row));
  };
  const bool both = heads[0] > 0 && heads[1] > 0;
  auto all = kinds[heads[1] > 0 ? 1 : 0];
  for (std::size_t i = 0; both && i < all.sums.size(); ++i) all.sums[i] += kinds[0].sums[i];
  add("all", heads[1] > 0, heads[0] + heads[1], all);
  if (both) add("rope", true, heads[1], kinds[1]);
  if (both) add("nope", false, heads[0], kinds[0]);
  return report;
}

table softmax_table(const softmax_report& report) {
  auto c = softmax_columns();
  c.add("queries",
        "number of queries that the mean is over, measured or not, of all documents and the heads of a group",
        [](auto& r) { return r.means().queries; });
  for (std::size_t i = 0; i < first_tokens.size(); ++i)
    c.add("first_" + std::to_string(first_tokens[i]),
          "share of the attention on the document's tokens before position " + std::to_string(first_tokens[i]),
          [i](auto& r) { return r.means().first[i]; });
  c.add("last_" + std::to_string(near_tokens),
        "share of the attention on keys less than 64 tokens back, the query's own included",
        [](auto& r) { return r.means().near; });
  c.add("entropy", "entropy of the attention, nats; ln(t + 1) where the scores of t + 1 keys are equal",
        [](auto& r) { return r.means().entropy; });
  return std::move(c).with_rows([&report](const auto& f) { each_bucket(report, f); });
}

table softmax_distance_table(const softmax_report& report) {
  auto c = softmax_columns();
  c.add("distance_start", "least distance from query to key, tokens",
        [](auto& r) { return r.report.distances.start(r.distance); });
  c.add("distance_end", "end of the distances, excluded, tokens",
        [](auto& r) { return r.report.distances.end(r.distance); });
  c.add("mass", "share of the attention at these distances", [](auto& r) { return r.means().distance[r.distance]; });
  c.add("mass_rest", "mass without the document's first token; empty in the first bucket",
        [](auto& r) { return r.means().distance_rest[r.distance]; });
  return std::move(c).with_rows([&report](const auto& f) {
    each_bucket(report, [&](bucket_row row) {
      const auto& bins = report.distances;
      for (; row.distance < bins.count() && bins.start(row.distance) < report.buckets.end(row.b); ++row.distance)
        f(row);
    });
  });
}

std::optional<loss_report> loss_of(const capture_set& source) {
  const auto losses = read_losses(source);
  if (!losses) return std::nullopt;
  loss_report r{losses->buckets};
  const index_t buckets = r.buckets.count();
  const auto stretch = [&](std::pair<index_t, index_t> range) {
    document_mean mean;
    for (index_t e = 0; e < losses->documents; ++e) {
      double sum = 0, count = 0;
      for (index_t b = range.first; b < range.second; ++b) {
        sum += losses->sum[e * buckets + b];
        count += losses->count[e * buckets + b];
      }
      mean.add(sum, count);
    }
    return mean;
  };
  for (index_t b = 0; b < buckets; ++b) {
    const auto one = stretch({b, b + 1});
    r.loss.push_back(one.mean());
    r.tokens.push_back(one.weight());
    r.documents.push_back(one.documents());
  }
  r.all_tokens = stretch({0, buckets}).weight();
  r.overall = stretch({0, buckets}).mean();
  r.first20 = stretch(buckets_between(r.buckets, 0, 0.2)).mean();
  r.last20 = stretch(buckets_between(r.buckets, 0.8, 2)).mean();
  return r;
}

table loss_table(const loss_report& report) {
  struct row {
    const loss_report& of;
    index_t b;
  };
  table_columns<row> c;
  c.add("bucket", "bucket of the position from which a token is predicted, from 0", &row::b);
  c.add("start", "first position of the bucket", [](auto& r) { return r.of.buckets.start(r.b); });
  c.add("end", "end of the bucket, excluded, tokens", [](auto& r) { return r.of.buckets.end(r.b); });
  c.add("documents", "number of documents that have a token predicted there",
        [](auto& r) { return r.of.documents[r.b]; });
  c.add("tokens", "number of tokens predicted there", [](auto& r) { return r.of.tokens[r.b]; });
  c.add("loss", "mean of -ln p over the tokens, nats", [](auto& r) { return r.of.loss[r.b]; });
  return std::move(c).with_rows([&report](const auto& f) {
    for (index_t b = 0; b < report.buckets.count(); ++b) f(row{report, b});
  });
}

}  // namespace qkgeom
