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

/// Share of the bucket's positions that lie in the bin of distances, as the first token of their documents does.
double share_in_bin(const bucket_edges& buckets, index_t bucket, const bucket_edges& distances, index_t bin) {
  const index_t low = std::max(buckets.start(bucket), distances.start(bin)),
                high = std::min(buckets.end(bucket), distances.end(bin));
  return static_cast<double>(std::max<index_t>(0, high - low)) /
         static_cast<double>(buckets.end(bucket) - buckets.start(bucket));
}

/// Means over the buckets [range.first, range.second).
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

/// Puts the means of these cells into a row.
void fill(softmax_row& row, softmax_cells& cells, const softmax_report& report) {
  const bucket_edges& buckets = report.buckets;
  const auto means = [&](std::pair<index_t, index_t> range) { return means_of(cells, report, range); };
  for (index_t b = 0; b < buckets.count(); ++b) row.buckets.push_back(means({b, b + 1}));
  row.overall = means({0, buckets.count()});
  row.first20 = means(buckets_between(buckets, 0, 0.2));
  row.last20 = means(buckets_between(buckets, 0.8, 2));
}

/// Calls write(means, bucket, names) for the groups, then the heads; `names()` adds the columns that name the row.
template <class Write>
void for_each_softmax_row(csv_writer& csv, const softmax_report& report, const Write& write) {
  for (const auto* rows : {&report.groups, &report.heads})
    for (const auto& row : *rows)
      for (index_t b = 0; b < report.buckets.count(); ++b)
        write(row.buckets[b], b, [&] {
          if (row.group.empty())
            csv.add("head").add("").add(row.layer).add(row.q_head);
          else
            csv.add("model").add(row.group).add(std::nullopt).add(std::nullopt);
          csv.add(b).add(report.buckets.start(b)).add(report.buckets.end(b));
        });
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

void write_softmax_csv(const std::filesystem::path& path, const softmax_report& report) {
  std::vector<std::string> names{"scope", "group", "layer", "q_head", "q_bucket", "start", "end", "queries"};
  for (const index_t f : first_tokens) add_estimate_names(names, "first_" + std::to_string(f));
  add_estimate_names(names, "last_" + std::to_string(near_tokens));
  add_estimate_names(names, "entropy");
  csv_writer csv(path, names);
  for_each_softmax_row(csv, report, [&](const softmax_means& m, index_t, const auto& name) {
    name();
    csv.add(m.queries);
    for (const auto* e : {&m.first[0], &m.first[1], &m.first[2], &m.near, &m.entropy}) add_estimate(csv, *e);
    csv.end_row();
  });
  csv.commit();
}

void write_softmax_distance_csv(const std::filesystem::path& path, const softmax_report& report) {
  csv_writer csv(path, {"scope", "group", "layer", "q_head", "q_bucket", "start", "end", "distance_start",
                        "distance_end", "mass", "mass_error", "mass_rest", "mass_rest_error"});
  const auto& bins = report.distances;
  for_each_softmax_row(csv, report, [&](const softmax_means& m, index_t b, const auto& name) {
    for (index_t d = 0; d < bins.count() && bins.start(d) < report.buckets.end(b); ++d) {
      name();
      const auto& mass = m.distance[d];
      csv.add(bins.start(d)).add(bins.end(d));
      add_estimate(csv, mass);
      add_estimate(csv, m.distance_rest[d]);
      csv.end_row();
    }
  });
  csv.commit();
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

void write_loss_csv(const std::filesystem::path& path, const loss_report& report) {
  csv_writer csv(path, {"bucket", "start", "end", "documents", "tokens", "loss", "loss_error"});
  for (index_t b = 0; b < report.buckets.count(); ++b) {
    csv.row(b, report.buckets.start(b), report.buckets.end(b), report.documents[b], report.tokens[b],
            report.loss[b].value, report.loss[b].error);
  }
  csv.commit();
}

}  // namespace qkgeom
