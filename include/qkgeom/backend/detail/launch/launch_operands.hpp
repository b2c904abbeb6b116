// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/launch/launch.hpp"
#include "qkgeom/backend/detail/tiles/operands.hpp"
#include "qkgeom/backend/detail/tiles/pairs.hpp"

namespace qkgeom::thrust_kernels {

/// n keys of size d; `columns` of operands, a multiple of stage_k; two bf16 each or one; with what the terms need or
/// not.
struct operand_shape {
  index_t n, d, columns;
  bool split, terms;

  /// What is one number a key and distribution: the score, and with terms coordinate 1, mean . y of the others, and the
  /// cross term's.
  index_t numbers() const { return terms ? 4 : 1; }
};

/// What some distributions say of keys.
struct distribution_table {
  std::vector<tile::tile_distribution> distributions;
  std::vector<double> rows;  ///< (numbers, distributions, d): a number is the product of a key with one of these
  std::vector<double> factors,
      reflectors;  ///< (distributions, d) standard deviations, reflectors; 0 where there are none

  /// Problem `first_problem` is number 0 of the distributions.
  distribution_table(const operand_shape& shape, const std::vector<pair_problem>& problems,
                     const std::vector<distribution_place>& places, index_t first_problem)
      : rows(places.size() * static_cast<std::size_t>(shape.numbers() * shape.d)) {
    const auto d = static_cast<std::size_t>(shape.d);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto& problem = problems[places[i].problem];
      const score_distribution& distribution = distribution_at(problems, places[i]);
      distributions.push_back({distribution.tau, places[i].problem - first_problem, 0, 0});
      const auto row = [&](std::size_t number) { return rows.data() + (number * places.size() + i) * d; };
      std::copy(distribution.mean.begin(), distribution.mean.end(), row(0));
      if (shape.terms) add_term_rows(distribution, reflected_axis(problem.reflector, shape.d), row);
      for (const double v : distribution.variance) factors.push_back(std::sqrt(v));
      factors.resize((i + 1) * d);
      reflectors.insert(reflectors.end(), problem.reflector.begin(), problem.reflector.end());
      reflectors.resize((i + 1) * d);
    }
  }

 private:
  /// Rows that give what the terms need of a key: coordinate 1, mean . y of coordinates 2..d, and f . z of them, f
  /// being coordinate 1's term of a factor (none of a diagonal covariance): what coordinate 1's covariance with the
  /// others adds to v is twice the difference of that times the difference of coordinate 1.
  template <class Row>
  void add_term_rows(const score_distribution& distribution, const std::vector<double>& axis, const Row& row) {
    const std::size_t d = axis.size(),
                      rank = distribution.variance.empty() ? static_cast<std::size_t>(distribution.rank) : 0;
    double mean = 0, variance = distribution.variance.empty() ? 0.0 : distribution.variance[0];
    for (std::size_t j = 0; j < d; ++j) mean += axis[j] * distribution.mean[j];
    for (std::size_t j = 0; j < d; ++j) {
      row(1)[j] = axis[j];
      row(2)[j] = distribution.mean[j] - mean * axis[j];
    }
    for (std::size_t c = 0; c < rank; ++c) {
      double f = 0;
      for (std::size_t j = 0; j < d; ++j) f += distribution.factor[j * rank + c] * axis[j];
      for (std::size_t j = 0; j < d; ++j) row(3)[j] += f * (distribution.factor[j * rank + c] - f * axis[j]);
      variance += f * f;
    }
    distributions.back().drift_mean = static_cast<float>(mean);
    distributions.back().drift_variance = static_cast<float>(variance);
  }
};

/// The keys of some distributions as the programs read them: operands and norms (distributions, n, ...), and what else
/// is one number a key (numbers, distributions, n). Distributions that read one key head are made together.
template <class Launcher>
class tile_operands {
  using device_type = std::remove_cvref_t<decltype(std::declval<const Launcher&>().device())>;
  template <class F>
  using buffer = typename device_type::template buffer<F>;

 public:
  /// Problem `first_problem` is number 0 of the distributions.
  tile_operands(const Launcher& launcher, const operand_shape& shape, const std::vector<pair_problem>& problems,
                const std::vector<distribution_place>& distributions, index_t first_problem)
      : launcher_(launcher),
        shape_(shape),
        problems_(problems),
        places_(distributions),
        count_(static_cast<index_t>(distributions.size())),
        table_(shape, problems, distributions, first_problem),
        distributions_(launcher.device().copy(table_.distributions)),
        rows_(launcher.device().copy(table_.rows)),
        factors_(launcher.device().copy(table_.factors)),
        reflectors_(launcher.device().copy(table_.reflectors)),
        scale_(make<double>(count_)),
        high_(make<bf16>(count_ * shape.n * shape.columns)),
        low_(make<bf16>(shape.split ? count_ * shape.n * shape.columns : 0)),
        norm_(make<float>(count_ * shape.n)),
        number_(make<float>(shape.numbers() * count_ * shape.n)) {}

  tile::tile_keys keys(const std::int32_t* position, const std::int32_t* document) const {
    const auto number = [&](index_t i) {
      return shape_.numbers() > i ? number_.data() + i * count_ * shape_.n : nullptr;
    };
    return {{high_.data(), low_.data(), shape_.n, static_cast<int>(shape_.columns)},
            norm_.data(),
            number(0),
            number(1),
            number(2),
            number(3),
            position,
            document};
  }
  const tile::tile_distribution* distributions() const { return distributions_.data(); }
  const double* scale() const { return scale_.data(); }

  /// Makes distributions [first, end), which read the key head whose centred keys are y. Under a diagonal covariance a
  /// distribution takes the reflected keys by a factor a column, else a product with a matrix of its own.
  void make(index_t first, index_t end, const double* y) {
    const auto [n, d, columns, split, terms] = shape_;
    for (index_t stop = first; first < end; first = stop) {
      while (stop < end && diagonal(stop) == diagonal(first)) ++stop;
      if (diagonal(first)) {
        split_keys(
            tile::scaled_keys{y, reflectors_.data() + first * d, factors_.data() + first * d, static_cast<int>(d)},
            first, stop, y);
        continue;
      }
      stop = std::min(stop, first + std::max<index_t>(1, (index_t{1} << 26) / std::max<index_t>(1, n * columns)));
      std::vector<double> maps((stop - first) * columns * d);
      for (index_t i = first; i < stop; ++i) {
        const auto map = key_map(distribution(i), {}, d);
        std::copy(map.begin(), map.end(), maps.begin() + (i - first) * columns * d);
      }
      const auto on_maps = launcher_.device().copy(maps);
      const auto z = make<double>((stop - first) * n * columns);
      launcher_.multiply(stop - first, n, columns, d, matrix_batch<const double>{y, 0},
                         matrix_batch<const double>{on_maps.data(), columns * d},
                         matrix_batch<double>{z.data(), n * columns});
      split_keys(tile::stored_keys{z.data(), n, static_cast<int>(columns)}, first, stop, y);
    }
  }

 private:
  template <class F>
  buffer<F> make(index_t size) const {
    return launcher_.device().template make<F>(size);
  }

  const score_distribution& distribution(index_t i) const { return distribution_at(problems_, places_[i]); }
  bool diagonal(index_t i) const { return !distribution(i).variance.empty(); }

  template <class Keys>
  void split_keys(const Keys& z, index_t first, index_t end, const double* y) {
    const auto [n, d, columns, split, terms] = shape_;
    const int width = static_cast<int>(columns);
    launcher_.launch(tile::scale_program<Keys>{z, n, width, scale_.data() + first}, end - first);
    const tile::split_program<Keys> program{z,
                                            scale_.data() + first,
                                            y,
                                            rows_.data() + first * d,
                                            n,
                                            d,
                                            end - first,
                                            shape_.numbers(),
                                            count_,
                                            width,
                                            high_.data() + first * n * columns,
                                            split ? low_.data() + first * n * columns : nullptr,
                                            norm_.data() + first * n,
                                            number_.data() + first * n};
    launcher_.launch(program, program.blocks());
  }

  const Launcher& launcher_;
  operand_shape shape_;
  const std::vector<pair_problem>& problems_;
  const std::vector<distribution_place>& places_;
  index_t count_;
  distribution_table table_;
  buffer<tile::tile_distribution> distributions_;
  buffer<double> rows_, factors_, reflectors_;
  buffer<double> scale_;
  buffer<bf16> high_, low_;
  buffer<float> norm_, number_;
};

}  // namespace qkgeom::thrust_kernels
