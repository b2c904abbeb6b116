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

/// n keys of size d; `columns` of operands, a multiple of stage_k; two bf16 each or one; with what the parts need or
/// not.
struct operand_shape {
  index_t n, d, columns;
  bool split, parts;

  /// What is one number a key and law: the score, and with parts coordinate 1, mean . y of the others, and the cross
  /// term's.
  index_t numbers() const { return parts ? 4 : 1; }
};

/// What some laws say of keys.
struct law_table {
  std::vector<tile::tile_law> laws;
  std::vector<double> rows;                 ///< (numbers, laws, d): a number is the product of a key with one of these
  std::vector<double> factors, reflectors;  ///< (laws, d) standard deviations, reflectors; 0 where there are none

  /// Problem `first_problem` is number 0 of the laws.
  law_table(const operand_shape& shape, const std::vector<pair_problem>& problems, const std::vector<law_place>& places,
            index_t first_problem)
      : rows(places.size() * static_cast<std::size_t>(shape.numbers() * shape.d)) {
    const auto d = static_cast<std::size_t>(shape.d);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto& problem = problems[static_cast<std::size_t>(places[i].problem)];
      const score_law& law = law_at(problems, places[i]);
      laws.push_back({law.tau, places[i].problem - first_problem, 0, 0});
      const auto row = [&](std::size_t number) { return rows.data() + (number * places.size() + i) * d; };
      std::copy(law.mean.begin(), law.mean.end(), row(0));
      if (shape.parts) add_part_rows(law, reflected_axis(problem.reflector, shape.d), row);
      for (const double v : law.variance) factors.push_back(std::sqrt(v));
      factors.resize((i + 1) * d);
      reflectors.insert(reflectors.end(), problem.reflector.begin(), problem.reflector.end());
      reflectors.resize((i + 1) * d);
    }
  }

 private:
  /// Rows that give what the parts need of a key: coordinate 1, mean . y of coordinates 2..d, and f . z of them, f
  /// being coordinate 1's part of a factor (none of a diagonal covariance): what coordinate 1's covariance with the
  /// others adds to v is twice the difference of that times the difference of coordinate 1.
  template <class Row>
  void add_part_rows(const score_law& law, const std::vector<double>& axis, const Row& row) {
    const std::size_t d = axis.size(), rank = law.variance.empty() ? static_cast<std::size_t>(law.rank) : 0;
    double mean = 0, variance = law.variance.empty() ? 0.0 : law.variance[0];
    for (std::size_t j = 0; j < d; ++j) mean += axis[j] * law.mean[j];
    for (std::size_t j = 0; j < d; ++j) {
      row(1)[j] = axis[j];
      row(2)[j] = law.mean[j] - mean * axis[j];
    }
    for (std::size_t c = 0; c < rank; ++c) {
      double f = 0;
      for (std::size_t j = 0; j < d; ++j) f += law.factor[j * rank + c] * axis[j];
      for (std::size_t j = 0; j < d; ++j) row(3)[j] += f * (law.factor[j * rank + c] - f * axis[j]);
      variance += f * f;
    }
    laws.back().drift_mean = static_cast<float>(mean);
    laws.back().drift_variance = static_cast<float>(variance);
  }
};

/// The keys of some laws as the programs read them: operands and norms (laws, n, ...), and what else is one number a
/// key (numbers, laws, n). Laws that read one key head are made together.
template <class Engine>
class fused_operands {
  using machine_type = std::remove_cvref_t<decltype(std::declval<const Engine&>().machine())>;
  template <class F>
  using buffer = typename machine_type::template buffer<F>;

 public:
  /// Problem `first_problem` is number 0 of the laws.
  fused_operands(const Engine& engine, const operand_shape& shape, const std::vector<pair_problem>& problems,
                 const std::vector<law_place>& laws, index_t first_problem)
      : engine_(engine),
        shape_(shape),
        problems_(problems),
        places_(laws),
        count_(static_cast<index_t>(laws.size())),
        table_(shape, problems, laws, first_problem),
        laws_(engine.machine().copy(table_.laws)),
        rows_(engine.machine().copy(table_.rows)),
        factors_(engine.machine().copy(table_.factors)),
        reflectors_(engine.machine().copy(table_.reflectors)),
        scale_(make<double>(count_)),
        high_(make<bf16>(count_ * shape.n * shape.columns)),
        low_(make<bf16>(shape.split ? count_ * shape.n * shape.columns : 0)),
        norm_(make<float>(count_ * shape.n)),
        number_(make<float>(shape.numbers() * count_ * shape.n)) {}

  tile::tile_keys keys(const std::int32_t* position, const std::int32_t* example) const {
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
            example};
  }
  const tile::tile_law* laws() const { return laws_.data(); }
  const double* scale() const { return scale_.data(); }

  /// Makes laws [first, end), which read the key head whose centred keys are y. Under a diagonal covariance a law takes
  /// the reflected keys by a factor a column, else a product with a matrix of its own.
  void make(index_t first, index_t end, const double* y) {
    const auto [n, d, columns, split, parts] = shape_;
    for (index_t stop = first; first < end; first = stop) {
      while (stop < end && diagonal(stop) == diagonal(first)) ++stop;
      if (diagonal(first)) {
        split_keys(
            tile::scaled_keys{y, reflectors_.data() + first * d, factors_.data() + first * d, static_cast<int>(d)},
            first, stop, y);
        continue;
      }
      stop = std::min(stop, first + std::max<index_t>(1, (index_t{1} << 26) / std::max<index_t>(1, n * columns)));
      std::vector<double> maps(static_cast<std::size_t>((stop - first) * columns * d));
      for (index_t i = first; i < stop; ++i) {
        const auto map = key_map(law(i), {}, d);
        std::copy(map.begin(), map.end(), maps.begin() + (i - first) * columns * d);
      }
      const auto on_maps = engine_.machine().copy(maps);
      const auto z = make<double>((stop - first) * n * columns);
      engine_.multiply(stop - first, n, columns, d, matrix_batch<const double>{y, 0},
                       matrix_batch<const double>{on_maps.data(), columns * d},
                       matrix_batch<double>{z.data(), n * columns});
      split_keys(tile::stored_keys{z.data(), n, static_cast<int>(columns)}, first, stop, y);
    }
  }

 private:
  template <class F>
  buffer<F> make(index_t size) const {
    return engine_.machine().template make<F>(size);
  }

  const score_law& law(index_t i) const { return law_at(problems_, places_[static_cast<std::size_t>(i)]); }
  bool diagonal(index_t i) const { return !law(i).variance.empty(); }

  template <class Keys>
  void split_keys(const Keys& z, index_t first, index_t end, const double* y) {
    const auto [n, d, columns, split, parts] = shape_;
    const int width = static_cast<int>(columns);
    engine_.launch(tile::scale_program<Keys>{z, n, width, scale_.data() + first}, end - first);
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
    engine_.launch(program, program.blocks());
  }

  const Engine& engine_;
  operand_shape shape_;
  const std::vector<pair_problem>& problems_;
  const std::vector<law_place>& places_;
  index_t count_;
  law_table table_;
  buffer<tile::tile_law> laws_;
  buffer<double> rows_, factors_, reflectors_;
  buffer<double> scale_;
  buffer<bf16> high_, low_;
  buffer<float> norm_, number_;
};

}  // namespace qkgeom::thrust_kernels
