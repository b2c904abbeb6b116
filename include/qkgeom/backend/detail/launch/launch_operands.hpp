// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/launch/launch.hpp"
#include "qkgeom/backend/detail/tiles/operands.hpp"
#include "qkgeom/backend/detail/tiles/pair_program.hpp"

namespace qkgeom::thrust_kernels {

/// The shape of operands for n keys of size d; `columns` is a multiple of stage_k.
struct operand_shape {
  index_t n, d, columns;
  bool split;  ///< two bf16 per value instead of one
  bool terms;  ///< also the scalars of the terms

  /// Returns the number of scalars of a key under a query bucket: score, and with terms drift, content, cross term.
  index_t scalars() const { return terms ? 4 : 1; }
};

/// The query buckets of a launch, and the factors by which keys become their operands.
struct operand_rows {
  std::vector<tile::tile_bucket> buckets;
  std::vector<double> rows;                 ///< (scalars, buckets, d): a scalar is key . row
  std::vector<double> factors, reflectors;  ///< (buckets, d) standard deviations and reflectors, or 0

  /// Heatmaps are counted from problem `first_problem` on.
  operand_rows(const operand_shape& shape, const std::vector<pair_problem>& problems,
               const std::vector<bucket_place>& places, index_t first_problem)
      : rows(shape.scalars() * static_cast<index_t>(places.size()) * shape.d) {
    const auto d = shape.d, count = static_cast<index_t>(places.size());
    for (index_t i = 0; i < count; ++i) {
      const auto& problem = problems[places[i].problem];
      const score_distribution& scores = scores_at(problems, places[i]);
      buckets.push_back({scores.tau, places[i].problem - first_problem, 0, 0});
      const auto row = [&](index_t scalar) { return rows.data() + (scalar * count + i) * d; };
      std::copy(scores.mean.begin(), scores.mean.end(), row(0));
      if (shape.terms) add_term_rows(scores, drift_split(scores, problem.reflector, d), row);
      for (const double v : scores.variance) factors.push_back(std::sqrt(v));
      factors.resize((i + 1) * d);
      reflectors.insert(reflectors.end(), problem.reflector.begin(), problem.reflector.end());
      reflectors.resize((i + 1) * d);
    }
  }

 private:
  /// Adds rows of drift, content and the cross term. The covariance of coordinate 1 with the others, row(3), adds to v
  /// twice the difference of drift times the difference of key . row(3).
  template <class Row>
  void add_term_rows(const score_distribution& scores, const drift_split& split, const Row& row) {
    const auto d = static_cast<index_t>(split.axis.size());
    std::copy(split.axis.begin(), split.axis.end(), row(1));
    std::copy(split.content.begin(), split.content.end(), row(2));
    const auto rank = static_cast<index_t>(split.row.size());
    for (index_t c = 0; c < rank; ++c) {
      const double f = split.row[c];
      for (index_t j = 0; j < d; ++j) row(3)[j] += f * (scores.factor[j * rank + c] - f * split.axis[j]);
    }
    buckets.back().drift_mean = static_cast<float>(split.mean);
    buckets.back().drift_variance = static_cast<float>(split.variance);
  }
};

/// The keys under the query buckets of a launch, as the programs read them: operands (buckets, n, columns), norms
/// (buckets, n), and for each key the scalars key . row (scalars, buckets, n).
template <class Launcher>
class tile_operands {
  using device_type = std::remove_cvref_t<decltype(std::declval<const Launcher&>().device())>;
  template <class F>
  using buffer = typename device_type::template buffer<F>;

 public:
  /// Makes operands from centred keys y (heads, n, d) of the key heads from `first_head` on.
  tile_operands(const Launcher& launcher, const operand_shape& shape, const std::vector<pair_problem>& problems,
                const std::vector<bucket_place>& buckets, index_t first_problem, const double* y, index_t first_head)
      : launcher_(launcher),
        shape_(shape),
        problems_(problems),
        places_(buckets),
        count_(static_cast<index_t>(buckets.size())),
        y_(y),
        head_(heads_of(problems, buckets, first_head)),
        heads_(launcher.device().copy(head_)),
        table_(shape, problems, buckets, first_problem),
        buckets_(launcher.device().copy(table_.buckets)),
        rows_(launcher.device().copy(table_.rows)),
        factors_(launcher.device().copy(table_.factors)),
        reflectors_(launcher.device().copy(table_.reflectors)),
        scale_(make<double>(count_)),
        high_(make<bf16>(count_ * shape.n * shape.columns)),
        low_(make<bf16>(shape.split ? count_ * shape.n * shape.columns : 0)),
        norm_(make<float>(count_ * shape.n)),
        scalar_(make<float>(shape.scalars() * count_ * shape.n)) {
    for (index_t first = 0, stop = 0; first < count_; first = stop) {
      while (stop < count_ && diagonal(stop) == diagonal(first) && (diagonal(first) || head_[stop] == head_[first]))
        ++stop;
      if (diagonal(first))
        split_keys(
            tile::scaled_keys{keys_of(first), reflectors_.data() + first * shape.d, factors_.data() + first * shape.d},
            first, stop);
      else
        map_keys(first, stop);
    }
  }

  tile::tile_keys keys(const std::int32_t* position, const std::int32_t* document) const {
    const auto scalar = [&](index_t i) {
      return shape_.scalars() > i ? scalar_.data() + i * count_ * shape_.n : nullptr;
    };
    return {.operand = {high_.data(), low_.data(), shape_.n, static_cast<int>(shape_.columns)},
            .norm = norm_.data(),
            .score = scalar(0),
            .drift = scalar(1),
            .content = scalar(2),
            .cross = scalar(3),
            .position = position,
            .document = document};
  }
  const tile::tile_bucket* buckets() const { return buckets_.data(); }
  const double* scale() const { return scale_.data(); }

 private:
  template <class F>
  buffer<F> make(index_t size) const {
    return launcher_.device().template make<F>(size);
  }

  const score_distribution& scores_of(index_t i) const { return scores_at(problems_, places_[i]); }
  bool diagonal(index_t i) const { return !scores_of(i).variance.empty(); }
  static std::vector<index_t> heads_of(const std::vector<pair_problem>& problems,
                                       const std::vector<bucket_place>& buckets, index_t first_head) {
    std::vector<index_t> heads;
    for (const auto& place : buckets) heads.push_back(problems[place.problem].key_head - first_head);
    return heads;
  }
  tile::centred_keys keys_of(index_t first) const {
    return {y_, heads_.data() + first, shape_.n, static_cast<int>(shape_.d)};
  }

  /// Multiplies the keys of one key head by the factor of each of the buckets [first, end), by a matrix product each.
  void map_keys(index_t first, index_t end) {
    const auto n = shape_.n, d = shape_.d, columns = shape_.columns;
    const index_t together = std::max<index_t>(1, (index_t{1} << 26) / std::max<index_t>(1, n * columns));
    for (index_t stop = first; first < end; first = stop) {
      stop = std::min(end, first + together);
      std::vector<double> maps((stop - first) * columns * d);
      for (index_t i = first; i < stop; ++i) {
        const auto map = key_map(scores_of(i), {}, d);
        std::copy(map.begin(), map.end(), maps.begin() + (i - first) * columns * d);
      }
      const auto on_maps = launcher_.device().copy(maps);
      const auto z = make<double>((stop - first) * n * columns);
      launcher_.multiply(matrix_products<double>{.batch = stop - first,
                                                 .rows = n,
                                                 .columns = columns,
                                                 .depth = d,
                                                 .a = {y_ + head_[first] * n * d, 0},
                                                 .b = {on_maps.data(), columns * d},
                                                 .c = {z.data(), n * columns}});
      split_keys(tile::stored_keys{z.data(), n, static_cast<int>(columns)}, first, stop);
    }
  }

  template <class Keys>
  void split_keys(const Keys& z, index_t first, index_t end) {
    const auto [n, d, columns, split, terms] = shape_;
    const int width = static_cast<int>(columns);
    launcher_.launch(tile::scale_program<Keys>{z, n, scale_.data() + first}, end - first);
    const tile::split_program<Keys> program{.z = z,
                                            .scale = scale_.data() + first,
                                            .keys = keys_of(first),
                                            .row = rows_.data() + first * d,
                                            .n = n,
                                            .buckets = end - first,
                                            .scalars = shape_.scalars(),
                                            .launch_buckets = count_,
                                            .width = width,
                                            .high = high_.data() + first * n * columns,
                                            .low = split ? low_.data() + first * n * columns : nullptr,
                                            .norm = norm_.data() + first * n,
                                            .scalar = scalar_.data() + first * n};
    launcher_.launch(program, program.blocks());
  }

  const Launcher& launcher_;
  operand_shape shape_;
  const std::vector<pair_problem>& problems_;
  const std::vector<bucket_place>& places_;
  index_t count_;
  const double* y_;
  std::vector<index_t> head_;
  buffer<index_t> heads_;
  operand_rows table_;
  buffer<tile::tile_bucket> buckets_;
  buffer<double> rows_, factors_, reflectors_;
  buffer<double> scale_;
  buffer<bf16> high_, low_;
  buffer<float> norm_, scalar_;
};

}  // namespace qkgeom::thrust_kernels
