// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkgeom/backend/detail/pair_operands.hpp"
#include "qkgeom/backend/detail/pair_tile.hpp"
#include "qkgeom/backend/detail/thrust_fused.hpp"

namespace qkgeom::thrust_kernels {

/// n keys of size d; `columns` of operands, a multiple of stage_k; two bf16 each or one; with what the parts need or
/// not.
struct operand_shape {
  index_t n, d, columns;
  bool split, parts;
};

/// The keys of some laws as the programs read them: operands and norms (laws, n, ...), and what else is one number a
/// key (numbers, laws, n): the score, and with parts coordinate 1, mean . y of the others, and the cross term's.
template <class Engine>
class fused_operands {
  using machine_type = std::remove_cvref_t<decltype(std::declval<const Engine&>().machine())>;
  template <class F>
  using buffer = typename machine_type::template buffer<F>;

 public:
  fused_operands(const Engine& engine, const operand_shape& shape, index_t laws)
      : law_values(static_cast<std::size_t>(laws)),
        scale(engine.machine().template make<double>(laws)),
        engine_(engine),
        shape_(shape),
        laws_(laws),
        high_(engine.machine().template make<bf16>(laws * shape.n * shape.columns)),
        low_(engine.machine().template make<bf16>(shape.split ? laws * shape.n * shape.columns : 0)),
        norm_(engine.machine().template make<float>(laws * shape.n)),
        number_(engine.machine().template make<float>(numbers() * laws * shape.n)) {}

  std::vector<tile::tile_law> law_values;
  buffer<double> scale;

  tile::tile_keys keys(const std::int32_t* position, const std::int32_t* example) const {
    const auto number = [&](index_t i) { return numbers() > i ? number_.data() + i * laws_ * shape_.n : nullptr; };
    return {{high_.data(), low_.data(), shape_.n, static_cast<int>(shape_.columns)},
            norm_.data(),
            number(0),
            number(1),
            number(2),
            number(3),
            position,
            example};
  }

  /// Laws `which` of one problem, number `problem_number`, as laws first, first + 1, ...; y: its centred keys.
  void add(const pair_problem& problem, index_t problem_number, const std::vector<index_t>& which, index_t first,
           const double* y) {
    const auto& on = engine_.machine();
    const auto count = static_cast<index_t>(which.size());
    const auto [n, d, columns, split, parts] = shape_;
    const auto law = [&](index_t i) -> const score_law& {
      return problem.laws[static_cast<std::size_t>(which[static_cast<std::size_t>(i)])];
    };
    const bool diagonal = std::none_of(which.begin(), which.end(), [&](index_t l) {
      return problem.laws[static_cast<std::size_t>(l)].variance.empty();
    });
    // Under diagonal covariances all laws share the reflected keys, and differ by a factor a column.
    const index_t of_law = diagonal ? d : columns * d;
    std::vector<double> maps(static_cast<std::size_t>(count * of_law)),
        rows(static_cast<std::size_t>(numbers() * count * d));
    const auto h = parts || diagonal ? reflection(problem.reflector, d) : std::vector<double>();
    for (index_t i = 0; i < count; ++i) {
      const auto& of = law(i);
      std::vector<double> map;
      if (diagonal)
        for (const double v : of.variance) map.push_back(std::sqrt(v));
      else
        map = key_map(of, problem.reflector, d);
      std::copy(map.begin(), map.end(), maps.begin() + i * of_law);
      std::copy(of.mean.begin(), of.mean.end(), rows.begin() + i * d);
      auto& made = law_values[static_cast<std::size_t>(first + i)];
      made = {of.tau, problem_number, 0, 0};
      if (parts) add_part_rows(of, h, map, i, count, rows, made);
    }
    const auto on_maps = on.copy(maps), on_rows = on.copy(rows);
    const auto number = on.template make<double>(numbers() * count * n);
    engine_.multiply(index_t{1}, numbers() * count, n, d, matrix_batch<const double>{on_rows.data(), 0},
                     matrix_batch<const double>{y, 0}, matrix_batch<double>{number.data(), 0});
    if (diagonal) {
      const auto on_h = on.copy(h), reflected = on.template make<double>(n * d);
      engine_.multiply(index_t{1}, n, d, d, matrix_batch<const double>{y, 0},
                       matrix_batch<const double>{on_h.data(), 0}, matrix_batch<double>{reflected.data(), 0});
      split_keys(tile::scaled_keys{reflected.data(), on_maps.data(), static_cast<int>(d)}, number.data(), first, count);
    } else {
      const auto z = on.template make<double>(count * n * columns);
      engine_.multiply(count, n, columns, d, matrix_batch<const double>{y, 0},
                       matrix_batch<const double>{on_maps.data(), columns * d},
                       matrix_batch<double>{z.data(), n * columns});
      split_keys(tile::stored_keys{z.data(), n, static_cast<int>(columns)}, number.data(), first, count);
    }
  }

 private:
  index_t numbers() const { return shape_.parts ? 4 : 1; }

  template <class Keys>
  void split_keys(const Keys& z, const double* number, index_t first, index_t count) {
    const auto n = shape_.n, columns = shape_.columns;
    const int width = static_cast<int>(columns);
    engine_.launch(tile::scale_program<Keys>{z, n, width, scale.data() + first}, count);
    const tile::split_program<Keys> program{z,
                                            number,
                                            scale.data() + first,
                                            n,
                                            count,
                                            numbers(),
                                            width,
                                            high_.data() + first * n * columns,
                                            shape_.split ? low_.data() + first * n * columns : nullptr,
                                            norm_.data() + first * n,
                                            number_.data() + first * n,
                                            laws_ * n};
    engine_.launch(program, program.blocks());
  }

  /// Rows (numbers, count, d) that give what the parts need of a key: coordinate 1, mean . y of coordinates 2..d, and
  /// f . z of them, f being coordinate 1's part of a factor (none of a diagonal covariance): what coordinate 1's
  /// covariance with the others adds to v is twice the difference of that times the difference of coordinate 1.
  void add_part_rows(const score_law& law, const std::vector<double>& h, const std::vector<double>& map, index_t i,
                     index_t count, std::vector<double>& rows, tile::tile_law& made) const {
    const auto d = static_cast<std::size_t>(shape_.d);
    const auto row = [&](index_t number) { return rows.data() + (number * count + i) * shape_.d; };
    double mean = 0, variance = law.variance.empty() ? 0.0 : law.variance[0];
    for (std::size_t j = 0; j < d; ++j) mean += h[j] * law.mean[j];
    for (std::size_t j = 0; j < d; ++j) {
      row(1)[j] = h[j];
      row(2)[j] = law.mean[j] - mean * h[j];
    }
    for (std::size_t c = 0; law.variance.empty() && c < static_cast<std::size_t>(law.rank); ++c) {
      double f = 0;
      for (std::size_t j = 0; j < d; ++j) f += map[c * d + j] * h[j];
      for (std::size_t j = 0; j < d; ++j) row(3)[j] += f * (map[c * d + j] - f * h[j]);
      variance += f * f;
    }
    made.drift_mean = static_cast<float>(mean);
    made.drift_variance = static_cast<float>(variance);
  }

  const Engine& engine_;
  operand_shape shape_;
  index_t laws_;
  buffer<bf16> high_, low_;
  buffer<float> norm_, number_;
};

}  // namespace qkgeom::thrust_kernels
