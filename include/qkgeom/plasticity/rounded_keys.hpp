// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/cache_types.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/plasticity/keys_by_document.hpp"
#include "qkgeom/plasticity/observed_queries.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// The effects of rounded keys on the queries of one document, summed over queries.
struct rounding_sums {
  std::int32_t document = 0;  ///< number of the document
  double queries = 0;         ///< queries that may read two captured keys or more
  double flipped = 0;         ///< sum of each query's share of flipped pairs
  double weight = 0;          ///< sum of p_i p_j over pairs i < j
  double weighted = 0;        ///< sum of p_i p_j over flipped pairs
  double moved = 0;           ///< sum of |p' - p| / 2 over keys
};

/// Shares of flipped pairs among keys that are [start, end) tokens apart.
struct flips_by_distance {
  index_t start = 0, end = 0;
  double pairs = 0;   ///< pairs of two keys under a query
  estimate flipped;   ///< share of the pairs
  estimate weighted;  ///< share of the sum of p_i p_j
};

/// The effect of one cache type on the queries that read a key head (docs/mathematics.md, Rounded keys). A query flips
/// a pair of keys if it orders them differently once both are rounded; a tie only before or only after rounding counts
/// one half. p is the softmax of the query over the captured keys that it may read, p' the one over the rounded keys.
struct rounding_effect {
  cache_type type = cache_type::f32;
  estimate flipped;   ///< mean over queries of the share of pairs that are flipped
  estimate weighted;  ///< share of flipped pairs when a pair weighs p_i p_j
  estimate mass;      ///< mean over queries of 2 sum p_i p_j over flipped pairs: two draws of the softmax are flipped
  estimate moved;     ///< mean over queries of sum |p' - p| / 2
  std::vector<flips_by_distance> distances;
  std::vector<rounding_sums> documents;  ///< ascending
};

struct rounding_options {
  index_t max_queries = 16;  ///< observed queries used per bucket; drawn by `seed` if there are more
  std::uint64_t seed = 0;
  double score_scale = 0;             ///< logits per unit of q.k; 0: 1/sqrt(d)
  std::optional<double> score_cap{};  ///< c of the soft cap c tanh(x / c) of logits
};

/// Computes the effect of each cache type on each key head of a layer, (key heads, types), over all query heads that
/// read it. A query reads the captured keys of its document from its window's beginning up to its position. Errors are
/// over documents. Keys are in single precision, scores in f64. Costs O(n^2) per query, type and head of n keys of a
/// document. Throws `error` if shapes do not fit, a type does not take this head size, or keys overflow half precision.
template <context Context, class T>
std::vector<std::vector<rounding_effect>> rounding_effects(Context& ctx, const layer_view<T>& layer,
                                                           const std::vector<cache_type>& types,
                                                           const bucket_edges& edges, index_t context_length,
                                                           const rounding_options& options = {});

namespace detail {

/// The captured keys of one document by position, and the chosen queries that read them.
struct document_rows_asked {
  std::int32_t number = 0;
  std::vector<index_t> key;            ///< (n) rows of k
  std::vector<std::int32_t> position;  ///< (n) ascending
  std::vector<index_t> query;          ///< rows of q
};

/// Sums over pairs with one range of key distances.
struct pair_bin {
  double pairs = 0, flipped = 0, weight = 0, weighted = 0;
};
/// Sums of one head, cache type and document.
struct rounding_tally {
  rounding_sums sums;
  std::vector<pair_bin> bins;

  void add(const rounding_tally& o) {
    sums.queries += o.sums.queries;
    sums.flipped += o.sums.flipped;
    sums.weight += o.sums.weight;
    sums.weighted += o.sums.weighted;
    sums.moved += o.sums.moved;
    for (std::size_t b = 0; b < bins.size(); ++b) {
      bins[b].pairs += o.bins[b].pairs;
      bins[b].flipped += o.bins[b].flipped;
      bins[b].weight += o.bins[b].weight;
      bins[b].weighted += o.bins[b].weighted;
    }
  }
};

/// Returns documents with keys in ascending order, and the chosen queries of each.
template <class T>
std::vector<document_rows_asked> rows_asked(const layer_view<T>& layer, const bucket_edges& edges,
                                            const rounding_options& options) {
  const auto groups = order_keys_by_document(layer.k_position, layer.k_document, false);
  std::vector<document_rows_asked> documents(groups.document.size());
  for (std::size_t g = 0; g < documents.size(); ++g) {
    documents[g].number = groups.document[g];
    for (std::size_t i = groups.offset[g]; i < static_cast<std::size_t>(groups.offset[g + 1]); ++i) {
      documents[g].key.push_back(groups.row[i]);
      documents[g].position.push_back(groups.position[i]);
    }
  }
  observed_queries<T> choice(edges, options.max_queries, options.seed);
  choice.add_positions(layer.q_position);
  for (const index_t row : choice.take().row) {
    const auto at = std::lower_bound(groups.document.begin(), groups.document.end(), layer.q_document[row]);
    if (at != groups.document.end() && *at == layer.q_document[row])
      documents[static_cast<std::size_t>(at - groups.document.begin())].query.push_back(row);
  }
  return documents;
}

inline void softmax_of(const std::vector<double>& scores, double scale, std::optional<double> cap,
                       std::vector<double>& p) {
  p.resize(scores.size());
  double most = -HUGE_VAL, sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double x = scores[i] * scale;
    p[i] = cap ? *cap * std::tanh(x / *cap) : x;
    most = std::max(most, p[i]);
  }
  for (double& x : p) sum += x = std::exp(x - most);
  for (double& x : p) x /= sum;
}

/// Returns twice the flipped pairs of a key of scores s and r with keys [0, n), and the same with each pair weighing p.
inline std::pair<double, double> flips_of(double s, double r, const double* scores, const double* rounded,
                                          const double* p, std::size_t n) {
  index_t count = 0;
  double mass[2] = {0, 0};  // two sums, so that one addition need not wait for the last
  for (std::size_t j = 0; j < n; ++j) {
    const int halves = ((s > scores[j]) != (r > rounded[j])) + ((s < scores[j]) != (r < rounded[j]));
    count += halves;
    mass[j & 1] += p[j] * halves;
  }
  return {static_cast<double>(count), mass[0] + mass[1]};
}

/// Sums one query head against its documents' keys, per type and document.
template <class T>
class head_rounding {
 public:
  head_rounding(const head_view<T>& head, const std::vector<cache_type>& types, const bucket_edges& distances,
                const rounding_options& options)
      : head_(head), types_(types), distances_(distances), options_(options) {
    scale_ = options.score_scale > 0 ? options.score_scale : 1 / std::sqrt(static_cast<double>(head.q.cols));
  }

  /// Returns the (types) sums of one document.
  std::vector<rounding_tally> operator()(const document_rows_asked& rows) {
    std::vector<rounding_tally> found(types_.size(), {{}, std::vector<pair_bin>(distances_.count())});
    if (rows.query.empty()) return found;
    read_keys(rows);
    for (const index_t q : rows.query) {
      const index_t t = head_.q_position[q];
      const auto at = [&](index_t position) {
        return static_cast<std::size_t>(std::lower_bound(rows.position.begin(), rows.position.end(), position) -
                                        rows.position.begin());
      };
      first_ = head_.window ? at(t - *head_.window + 1) : 0;
      end_ = at(t + 1);
      if (end_ < first_ + 2) continue;
      score(keys_, q, scores_);
      softmax_of(scores_, scale_, options_.score_cap, p_);
      for (std::size_t i = 0; i < types_.size(); ++i) {
        score(rounded_[i], q, rounded_scores_);
        softmax_of(rounded_scores_, scale_, options_.score_cap, rounded_p_);
        add_pairs(rows, found[i]);
      }
    }
    return found;
  }

 private:
  /// Reads the keys of the document and their rounded copies of each type, (n, d) in position order.
  void read_keys(const document_rows_asked& rows) {
    const index_t d = head_.k.cols, n = static_cast<index_t>(rows.key.size());
    keys_.resize(static_cast<std::size_t>(n * d));
    rounded_.resize(types_.size());
    for (index_t i = 0; i < n; ++i)
      for (index_t c = 0; c < d; ++c) keys_[i * d + c] = static_cast<float>(head_.k.row(rows.key[i])[c]);
    for (std::size_t t = 0; t < types_.size(); ++t) {
      rounded_[t].resize(keys_.size());
      for (index_t i = 0; i < n * d; i += d) round_as_cached(types_[t], &keys_[i], d, &rounded_[t][i]);
      require(std::all_of(rounded_[t].begin(), rounded_[t].end(), [](float x) { return std::isfinite(x); }),
              "keys rounded to ", name_of(types_[t]), " overflow: they lie beyond half precision");
    }
  }
  /// Computes q.k of the keys [first, end).
  void score(const std::vector<float>& keys, index_t q, std::vector<double>& to) const {
    const auto d = static_cast<std::size_t>(head_.k.cols);
    const T* const x = head_.q.row(q);
    to.assign(end_ - first_, 0);
    for (std::size_t i = 0; i < to.size(); ++i)
      for (std::size_t c = 0; c < d; ++c)
        to[i] += static_cast<double>(x[c]) * static_cast<double>(keys[(first_ + i) * d + c]);
  }
  void add_pairs(const document_rows_asked& rows, rounding_tally& to) const {
    const std::size_t n = scores_.size();
    std::vector<double> below(n + 1);  // prefix sums of p
    for (std::size_t i = 0; i < n; ++i) below[i + 1] = below[i] + p_[i];
    double flipped = 0, weight = 0, weighted = 0, moved = 0;
    for (std::size_t i = 0; i < n; ++i) {
      moved += 0.5 * std::abs(rounded_p_[i] - p_[i]);
      std::size_t end = i;  // end of the earlier keys whose distance is not in a bin yet
      for (index_t b = 0; b < distances_.count() && end > 0; ++b) {
        const auto from = rows.position.begin() + static_cast<std::ptrdiff_t>(first_);
        const auto begin =
            static_cast<std::size_t>(std::lower_bound(from, from + static_cast<std::ptrdiff_t>(end),
                                                      from[static_cast<std::ptrdiff_t>(i)] - distances_.end(b) + 1) -
                                     from);
        if (begin == end) continue;
        const auto [halves, mass] = flips_of(scores_[i], rounded_scores_[i], scores_.data() + begin,
                                             rounded_scores_.data() + begin, p_.data() + begin, end - begin);
        pair_bin& bin = to.bins[b];
        const double pairs = static_cast<double>(end - begin), w = p_[i] * (below[end] - below[begin]);
        bin.pairs += pairs;
        bin.flipped += 0.5 * halves;
        bin.weight += w;
        bin.weighted += 0.5 * p_[i] * mass;
        flipped += 0.5 * halves;
        weight += w;
        weighted += 0.5 * p_[i] * mass;
        end = begin;
      }
    }
    to.sums.queries += 1;
    to.sums.flipped += flipped / (0.5 * static_cast<double>(n) * static_cast<double>(n - 1));
    to.sums.weight += weight;
    to.sums.weighted += weighted;
    to.sums.moved += moved;
  }

  head_view<T> head_;
  const std::vector<cache_type>& types_;
  const bucket_edges& distances_;
  const rounding_options& options_;
  double scale_ = 1;
  std::vector<float> keys_;
  std::vector<std::vector<float>> rounded_;  // (types)
  std::size_t first_ = 0, end_ = 0;          // keys of the document that the query may read
  std::vector<double> scores_, rounded_scores_, p_, rounded_p_;
};

/// Returns means and errors of the sums (documents).
inline rounding_effect effect_of(cache_type type, const std::vector<rounding_tally>& documents,
                                 const bucket_edges& distances) {
  rounding_effect e;
  e.type = type;
  const auto ratio = [&](const auto& sum, const auto& weight) {
    std::vector<double> sums, weights;
    for (const auto& d : documents) sums.push_back(sum(d)), weights.push_back(weight(d));
    return ratio_of_sums(sums, weights);
  };
  const auto all = [](double rounding_sums::*x) { return [x](const rounding_tally& d) { return d.sums.*x; }; };
  for (const auto& d : documents) e.documents.push_back(d.sums);
  e.flipped = ratio(all(&rounding_sums::flipped), all(&rounding_sums::queries));
  e.weighted = ratio(all(&rounding_sums::weighted), all(&rounding_sums::weight));
  e.mass = ratio([](const rounding_tally& d) { return 2 * d.sums.weighted; }, all(&rounding_sums::queries));
  e.moved = ratio(all(&rounding_sums::moved), all(&rounding_sums::queries));
  for (index_t b = 0; b < distances.count(); ++b) {
    const auto in_bin = [b](double pair_bin::*x) { return [x, b](const rounding_tally& d) { return d.bins[b].*x; }; };
    double pairs = 0;
    for (const auto& d : documents) pairs += d.bins[b].pairs;
    if (pairs > 0)
      e.distances.push_back({distances.start(b), distances.end(b), pairs,
                             ratio(in_bin(&pair_bin::flipped), in_bin(&pair_bin::pairs)),
                             ratio(in_bin(&pair_bin::weighted), in_bin(&pair_bin::weight))});
  }
  return e;
}

}  // namespace detail

template <context Context, class T>
std::vector<std::vector<rounding_effect>> rounding_effects(Context& ctx, const layer_view<T>& layer,
                                                           const std::vector<cache_type>& types,
                                                           const bucket_edges& edges, index_t context_length,
                                                           const rounding_options& options) {
  check_shapes(layer);
  for (const cache_type t : types) require_blocks(t, layer.k.dim);
  const auto documents = detail::rows_asked(layer, edges, options);
  const auto distances = distance_edges(context_length);
  using tallies = std::vector<detail::rounding_tally>;
  std::vector<std::vector<tallies>> heads(layer.q.heads);  // (query heads, documents, types)
  ctx.for_each(layer.q.heads, [&](index_t h) {
    detail::head_rounding<T> head(layer.head(h), types, distances, options);
    for (const auto& d : documents) heads[h].push_back(head(d));
  });
  std::vector<std::vector<rounding_effect>> found(layer.k.heads);
  for (index_t k = 0; k < layer.k.heads; ++k)
    for (std::size_t t = 0; t < types.size(); ++t) {
      std::vector<detail::rounding_tally> sums(documents.size(),
                                               {{}, std::vector<detail::pair_bin>(distances.count())});
      for (std::size_t e = 0; e < documents.size(); ++e) sums[e].sums.document = documents[e].number;
      for (index_t h = 0; h < layer.q.heads; ++h)
        if (layer.key_of_query[h] == k)
          for (std::size_t e = 0; e < documents.size(); ++e) sums[e].add(heads[h][e][t]);
      found[k].push_back(detail::effect_of(types[t], sums, distances));
    }
  return found;
}

}  // namespace qkgeom
