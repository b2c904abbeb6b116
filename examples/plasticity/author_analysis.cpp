// SPDX-License-Identifier: MIT
#include "examples/plasticity/author_analysis.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/householder.hpp"
#include "qkgeom/plasticity/bucket_table.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/fit_report.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom::examples {

namespace detail {

std::vector<double> key_signs(const side_moments& keys) {
  std::vector<double> sum(keys.total.mean.size()), sign;
  for (const auto& b : keys.bucket)
    if (b.count > 0) sum = dense::sum(std::move(sum), b.mean);
  for (const double s : sum) sign.push_back(s < 0 ? -1.0 : 1.0);
  return sign;
}

row_moments flipped(row_moments m, const std::vector<double>& sign) {
  const std::size_t d = sign.size();
  const bool full = m.has_full_scatter();
  for (std::size_t i = 0; i < d; ++i) {
    m.mean[i] *= sign[i];
    m.xt[i] *= sign[i];
    for (std::size_t j = 0; full && j < d; ++j) m.xx[i * d + j] *= sign[i] * sign[j];
  }
  return m;
}

pair_problem author_problem(const query_model& model) {
  pair_problem problem{0, model.reflector, std::vector<score_distribution>(model.bucket.size())};
  const auto known =
      std::find_if(model.bucket.begin(), model.bucket.end(), [](const auto& b) { return b.queries >= 2; });
  if (known == model.bucket.end()) return problem;
  for (std::size_t b = 0; b < model.bucket.size(); ++b) {
    if (model.bucket[b].queries < 1) continue;
    auto& distribution = problem.distributions[b];
    distribution = admitting(model.buckets.start(static_cast<index_t>(b)), model.bucket[b].tau, {});
    auto mean = known->mean;  // one line for all buckets: a single query has a place on it
    mean[0] = model.alpha_pos + model.beta_pos * distribution.tau;
    distribution.mean = reflect(model.reflector, std::move(mean));
    for (const double v : known->variance)
      distribution.variance.push_back(v > 0 ? v : 1e-12);  // the floor of the author's tool
  }
  return problem;
}

}  // namespace detail

namespace {

/// One head's keys as f64, coordinates times `sign`.
template <class T>
std::vector<double> flipped_rows(const matrix_view<const T>& k, const std::vector<double>& sign) {
  std::vector<double> rows;
  rows.reserve(k.rows * k.cols);
  for (index_t i = 0; i < k.rows; ++i)
    for (std::size_t c = 0; c < sign.size(); ++c) rows.push_back(sign[c] * static_cast<double>(k.row(i)[c]));
  return rows;
}

/// Cells of a head and their plain mean, with its error over documents.
void collect_cells(author_head& head, const pair_sums& sums, const bucketed_keys& keys,
                   const std::vector<score_distribution>& distributions, std::optional<index_t> window) {
  using cell = std::pair<index_t, index_t>;
  struct total {
    double sum = 0, pairs = 0;
  };
  std::map<cell, total> cells;
  std::map<std::int32_t, std::map<cell, total>> by_document;
  for (index_t j = 0; j < sums.distributions; ++j) {
    if (distributions[j].empty()) continue;
    for (index_t g = 0; g < sums.groups; ++g) {
      const index_t c = keys.bucket[g];
      if (c >= j || (window && c < j - *window)) continue;  // the tool compares the window with bucket numbers
      const auto at = sums.at(j, g);
      const auto pairs = static_cast<double>(sums.pairs[at]);
      for (auto* t : {&cells[{j, c}], &by_document[keys.groups.document[g]][{j, c}]}) {
        t->sum += sums.sum[at];
        t->pairs += pairs;
      }
    }
  }
  double sum = 0, count = 0;
  for (const auto& [at, t] : cells) {
    head.cells.push_back({at.first, at.second, static_cast<std::int64_t>(t.pairs), t.sum / t.pairs});
    if (!(t.pairs > 0)) continue;
    sum += t.sum / t.pairs;
    ++count;
  }
  std::vector<double> without;
  for (const auto& [document, mine] : by_document) {
    double rest = sum, left = count;
    for (const auto& [at, t] : mine) {
      const auto& whole = cells[at];
      if (!(t.pairs > 0)) continue;
      rest -= whole.sum / whole.pairs;
      if (whole.pairs > t.pairs)
        rest += (whole.sum - t.sum) / (whole.pairs - t.pairs);
      else
        --left;
    }
    without.push_back(rest / left);
  }
  head.overall = jackknife(sum / count, without);
}

template <class T>
std::vector<author_head> author_layer_of(cpu_context& cpu, const layer_view<T>& layer, const layer_moments& moments,
                                         const std::vector<std::vector<double>>& sign_of_key, const layer_names& names,
                                         const author_options& options) {
  const index_t n = layer.q.heads;
  std::vector<std::vector<double>> signs(n);
  std::vector<row_moments> totals(n);
  std::vector<std::vector<index_t>> readers(sign_of_key.size());
  for (index_t h = 0; h < n; ++h) {
    const index_t key = layer.key_of_query[h];
    readers[key].push_back(h);
    signs[h] = sign_of_key[key];
    totals[h] = detail::flipped(moments.q[h].total, signs[h]);
  }
  const auto keys = split_by_bucket(order_keys_by_document(layer.k_position, layer.k_document, false), moments.buckets);
  std::vector<author_head> heads(n);
  for (std::size_t key = 0; key < readers.size(); ++key) {
    std::vector<pair_problem> problems;
    for (const index_t h : readers[key]) {
      const head_moments queries{
          moments.buckets, {totals[h], moments.q[h].bucket}, {}};  // of buckets only counts and positions are read
      problems.push_back(detail::author_problem(
          fit_queries(cpu, queries, {.covariance = covariance_kind::linear_drift, .position = query_position::mean})));
    }
    if (problems.empty()) continue;
    const auto k = flipped_rows(layer.k.head(static_cast<index_t>(key)), sign_of_key[key]);
    const auto sums = cpu.gaussian_pairs(packed_tensor(k.data(), layer.k.rows, 1, layer.k.dim), keys.groups, problems,
                                         pair_request{});
    for (std::size_t i = 0; i < problems.size(); ++i)
      collect_cells(heads[readers[key][i]], sums[i], keys, problems[i].distributions, layer.window);
  }
  const auto weights = component_weights(cpu, moments);
  const auto fits =
      fit_checks(cpu, totals, layer, std::move(signs), {options.alpha, options.most_dimensions, options.seed});
  for (index_t h = 0; h < n; ++h) {
    auto& head = heads[h];
    head.layer = names.layer;
    head.q_head = names.query_heads[h];
    head.k_head = names.key_heads[layer.key_of_query[h]];
    head.queries = layer.q.rows;
    head.keys = layer.k.rows;
    head.dim = layer.q.dim;
    head.fit = fits[h];
    head.weights = weights[h];
  }
  return heads;
}

}  // namespace

author_grid author_buckets(const capture_manifest& manifest) {
  if (manifest.bucket.kind != "log2") return {query_buckets(manifest, {}), 0};
  const index_t smallest = std::max<index_t>(1, manifest.bucket.size);
  return {log2_buckets{smallest}.edges(manifest.context_length),
          static_cast<index_t>(std::bit_width(static_cast<std::uint64_t>(smallest))) - 1};
}

template <class T>
std::vector<author_head> author_layer(cpu_context& cpu, const layer_view<T>& layer, const layer_names& names,
                                      const bucket_edges& buckets, const author_options& options) {
  const edge_buckets grid{buckets.edges()};
  const moment_options kinds{.q_bucket = scatter_kind::diagonal};
  auto moments = accumulate(cpu, layer, grid, kinds);
  std::vector<std::vector<double>> sign_of_key;
  for (const auto& k : moments.k) sign_of_key.push_back(detail::key_signs(k));
  if (options.most_tokens <= 0 || std::max(layer.q.rows, layer.k.rows) <= options.most_tokens)
    return author_layer_of(cpu, layer, moments, sign_of_key, names, options);
  const thinned_layer<T> thinned(layer, options.most_tokens, options.seed);
  moments = accumulate(cpu, thinned.view(), grid, kinds);
  return author_layer_of(cpu, thinned.view(), moments, sign_of_key, names, options);
}

template std::vector<author_head> author_layer(cpu_context&, const layer_view<double>&, const layer_names&,
                                               const bucket_edges&, const author_options&);
template std::vector<author_head> author_layer(cpu_context&, const layer_view<float>&, const layer_names&,
                                               const bucket_edges&, const author_options&);

std::vector<author_head> author_analysis(cpu_context& cpu, const capture_set& source, const bucket_edges& buckets,
                                         const author_options& options, const std::function<void(index_t)>& progress) {
  std::vector<author_head> heads;
  for (const index_t number : source.layers()) {
    const auto layer = source.read_layer(number);
    check_finite(layer);
    layer.visit([&]<class T>(const layer_view<T>& rows) {
      auto found =
          author_layer(cpu, rows, {layer.layer, layer.rope, layer.query_heads, layer.key_heads}, buckets, options);
      std::move(found.begin(), found.end(), std::back_inserter(heads));
    });
    progress(static_cast<index_t>(layer.query_heads.size()));
  }
  return heads;
}

qkgeom::table head_metrics_table(const std::vector<author_head>& heads) {
  auto c = head_columns<3, author_head>(std::identity());
  c.add("n_q_tokens", "number of queries used, at most `--max-tokens`", &author_head::queries);
  c.add("n_k_tokens", "number of keys used, at most `--max-tokens`", &author_head::keys);
  c.add("d_model", "head size", &author_head::dim);
  for (const auto& f : fit_columns())
    if (!f.name.ends_with("_ks")) c.of(&author_head::fit).add(f.name, f.meaning, f.value);
  c.add("ap_overall", "plain mean over the cells of head_bucket_plasticity.csv",
        [](auto& h) { return h.overall.value; });
  return std::move(c).with_rows(heads);
}

qkgeom::table head_bucket_plasticity_table(const std::vector<author_head>& heads, index_t first_bucket) {
  struct row {
    const author_head* head;
    const author_cell* cell;
  };
  auto c = head_columns<3, row>(&row::head);
  c.of(&row::cell)
      .add("q_bucket", "number of the query bucket in the capture's grid",
           [=](auto& x) { return first_bucket + x.q_bucket; })
      .add("k_bucket", "number of the earlier key bucket", [=](auto& x) { return first_bucket + x.k_bucket; })
      .add("ap_bucket", "mean over all pairs of keys of one document inside the key bucket", &author_cell::plasticity);
  return std::move(c).with_rows([&heads](const auto& f) {
    for (const auto& h : heads)
      for (const auto& x : h.cells) f(row{&h, &x});
  });
}

qkgeom::table head_component_weights_table(const std::vector<author_head>& heads) {
  struct row {
    const author_head* head;
    std::size_t i;
  };
  auto c = head_columns<3, row>(&row::head);
  c.add("component", "coordinate of the query, from 0", &row::i);
  c.add("component_r2", "R^2 of the coordinate's regression on position",
        [](auto& r) { return r.head->weights.r2[r.i]; });
  c.add("component_weight", "component_r2 over its sum over the head's coordinates; 1/d each if all are 0",
        [](auto& r) { return r.head->weights.weight[r.i]; });
  return std::move(c).with_rows([&heads](const auto& f) {
    for (const auto& h : heads)
      for (std::size_t i = 0; i < h.weights.r2.size(); ++i) f(row{&h, i});
  });
}

}  // namespace qkgeom::examples
