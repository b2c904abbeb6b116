// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "qkgeom/backend/detail/launch/launch.hpp"
#include "qkgeom/backend/detail/tiles/observed.hpp"

namespace qkgeom::thrust_kernels {

/// Rounds from[i] to f32 in to[i].
struct narrow_values {
  const double* from;
  float* to;
  QKGEOM_HD void operator()(index_t i) const { to[i] = static_cast<float>(from[i]); }
};

/// Writes rows row[0], row[1], ... of one head of q to `to` (rows, d).
template <class T>
struct gather_queries {
  const T* q;
  index_t row_stride, d;
  const index_t* row;
  float* to;
  QKGEOM_HD void operator()(index_t i) const {
    to[i] = static_cast<float>(static_cast<double>(q[row[i / d] * row_stride + i % d]));
  }
};

/// Sums over pairs under observed queries, in f32. A launch takes the query buckets and heads whose scores fit
/// `scratch` bytes: matrix products give the scores, then one program runs over all tiles.
template <class Launcher, class T, memory_space S>
class tile_observed {
  using device_type = std::remove_cvref_t<decltype(std::declval<const Launcher&>().device())>;
  template <class F>
  using buffer = typename device_type::template buffer<F>;

 public:
  tile_observed(const Launcher& launcher, std::size_t scratch, const tensor_view<const T, S>& q,
                const tensor_view<const T, S>& k, const keys_by_document& groups,
                const std::vector<empirical_problem>& problems)
      : launcher_(launcher),
        q_(q),
        problems_(problems),
        groups_(launcher.device(), groups),
        keys_(launcher.device(), k, groups_, backend::key_centre::on_grid),
        d_(k.dim),
        most_queries_(static_cast<index_t>(scratch / sizeof(float)) / std::max<index_t>(1, groups_.n)) {}

  /// Returns whether the tile programs take the rows in this precision (default: `usual_precision`).
  static bool takes(const device_type& device, const tensor_view<const T, S>& q, const tensor_view<const T, S>& k,
                    std::optional<pair_precision> precision) {
    return precision.value_or(usual_precision<T>) == pair_precision::f32 && f32_holds(device, q) &&
           f32_holds(device, k);
  }

  std::vector<pair_sums> operator()() {
    std::vector<pair_sums> results;
    for (const auto& p : problems_) results.push_back(backend::zero_sums(groups_.host, p.distributions.size()));
    if (groups_.host.groups() <= 0) return results;
    std::vector<place> some;
    index_t queries = 0;
    for (index_t p = 0; p < static_cast<index_t>(problems_.size()); ++p)
      for (index_t l = 0; l < static_cast<index_t>(of(p).distributions.size()); ++l) {
        const auto more = static_cast<index_t>(rows(p, l).size());
        if (more < 2) continue;
        require(more <= index_t{1} << 20, "empirical_pairs: at most 1048576 queries a bucket, not ", more);
        if (!some.empty() && queries + more > most_queries_) {
          run(some, queries, results);
          some.clear();
          queries = 0;
        }
        some.push_back({p, l, queries});
        queries += more;
      }
    run(some, queries, results);
    return results;
  }

 private:
  struct place {
    index_t problem, bucket, first;  ///< `first`: row in the launch's scores
  };
  const empirical_problem& of(index_t p) const { return problems_[p]; }
  const std::vector<index_t>& rows(index_t p, index_t l) const { return of(p).query_rows[l]; }
  const score_distribution& scores_of(const place& at) const { return of(at.problem).distributions[at.bucket]; }

  void run(const std::vector<place>& some, index_t queries, std::vector<pair_sums>& results) {
    const auto& device = launcher_.device();
    const index_t n = groups_.n;
    const auto score = device.template make<float>(queries * n);
    for (std::size_t begin = 0, end = 0; begin < some.size(); begin = end) {
      while (end < some.size() && some[end].problem == some[begin].problem) ++end;
      add_scores(some, begin, end, score.data() + some[begin].first * n);
    }
    groups_.require_finite();  // wins are counted in integers
    std::vector<tile::observed_bucket> buckets;
    std::vector<const tile::tile_plan*> plans;
    for (const auto& at : some) {
      buckets.push_back({score.data() + at.first * n, static_cast<index_t>(rows(at.problem, at.bucket).size())});
      plans.push_back(&plans_.of(groups_.host, scores_of(at)));
    }
    const tile_batch batch(n, plans);
    const auto on_buckets = device.copy(buckets);
    const auto sums = batch.run(launcher_, 1, [&](const tile::tile_list& list, const tile::tile_sums& to) {
      return tile::observed_tiles{list, on_buckets.data(), to};
    });
    std::size_t next = 0;
    for (const auto& at : some)
      for (const auto& range : plans_.of(groups_.host, scores_of(at)).ranges) {
        auto& r = results[at.problem];
        const auto to = r.at(at.bucket, range.group);
        r.sum[to] = sums[next++];
        r.pairs[to] = range.count * (range.count - 1) / 2;
        r.weight[to] = static_cast<double>(r.pairs[to]);
      }
  }

  /// Scores all queries of buckets some[begin], ..., some[end - 1], of one problem, against all keys of its key head.
  void add_scores(const std::vector<place>& some, std::size_t begin, std::size_t end, float* to) {
    const auto& device = launcher_.device();
    const auto& problem = of(some[begin].problem);
    std::vector<index_t> row;
    for (std::size_t i = begin; i < end; ++i) {
      const auto& more = rows(some[i].problem, some[i].bucket);
      row.insert(row.end(), more.begin(), more.end());
    }
    const auto on_row = device.copy(row);
    const auto queries = device.template make<float>(on_row.size() * d_),
               keys = device.template make<float>(groups_.n * d_);
    device.each(queries.size(), gather_queries<T>{q_.data + problem.query_head * q_.head_stride, q_.row_stride, d_,
                                                  on_row.data(), queries.data()});
    device.each(keys.size(), narrow_values{keys_(problem.key_head), keys.data()});
    launcher_.multiply(matrix_products<float>{.rows = on_row.size(),
                                              .columns = groups_.n,
                                              .depth = d_,
                                              .a = {queries.data(), 0},
                                              .b = {keys.data(), 0},
                                              .c = {to, 0}});
  }

  const Launcher& launcher_;
  tensor_view<const T, S> q_;
  const std::vector<empirical_problem>& problems_;
  device_keys<device_type> groups_;
  keys_of_heads<device_type, T, S> keys_;
  tile_plans plans_;
  index_t d_, most_queries_;
};

}  // namespace qkgeom::thrust_kernels
