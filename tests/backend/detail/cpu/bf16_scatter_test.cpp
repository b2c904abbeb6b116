// SPDX-License-Identifier: MIT
#include "qkgeom/backend/detail/cpu/bf16_scatter.hpp"
#include "qkgeom/core/random.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

constexpr index_t columns = 48;

/// Rows (n, columns), read in another order than they stand in, their positions (tokens), and sums over them by
/// definition.
struct tested_rows {
  std::vector<bf16> values;
  std::vector<std::int32_t> position;
  std::vector<index_t> order;

  tested_rows(index_t n, const std::function<double(int row, int column, double normal)>& value_of) {
    const random_stream draws{.seed = 5, .use = draw::planted};
    for (index_t i = 0; i < n; ++i) {
      position.push_back(static_cast<std::int32_t>((i * 2000000011LL) % 2147483647LL));
      order.push_back((i * 7) % n);
      for (index_t c = 0; c < columns; ++c)
        values.push_back(
            round_to<bf16>(value_of(static_cast<int>(i), static_cast<int>(c), draws.normal(i * columns + c))));
    }
  }
  /// The same values in another type.
  template <class T>
  std::vector<T> as() const {
    return {values.begin(), values.end()};
  }
  double at(index_t i, index_t c) const { return values[order[i] * columns + c]; }
};

/// Rows (n, columns) as they are held.
template <class T>
cpu::wide_rows rows_of(const std::vector<T>& values) {
  const auto n = static_cast<index_t>(values.size()) / columns;
  return cpu::widened(tensor_view<const T>{values.data(), n, 1, columns, columns, columns}).first;
}

/// Adds all rows, as they are or as `held` by another type, tile by tile; returns how many were taken.
index_t add_all(const tested_rows& x, cpu::bf16_scatter& sums, cpu::scatter_sum& scatter, std::vector<double>& shift,
                std::vector<double>& mean, std::vector<double>& xt, std::optional<cpu::wide_rows> held = {}) {
  const cpu::wide_rows from = held ? *held : rows_of(x.values);
  const auto n = static_cast<index_t>(x.order.size());
  for (auto* v : {&shift, &mean, &xt}) v->assign(columns, 0.0);
  scatter.reset(columns);
  if (!cpu::bf16_scatter::takes(from, n) || !sums.begin(from, x.order.data(), n, shift.data())) return 0;
  index_t taken = 0;
  for (index_t rows = 1; taken < n && rows > 0; taken += rows)
    rows = sums.add(from, {x.position.data(), n}, x.position[x.order[0]], x.order.data() + taken, n - taken, scatter,
                    mean.data(), xt.data());
  return taken;
}

/// Sums of x's rows are those of the definition in long double to 1e-12 of their factors' sizes.
void expect_sums(const tested_rows& x, const char* name) {
  const auto n = static_cast<index_t>(x.order.size());
  cpu::bf16_scatter sums;
  cpu::scatter_sum scatter;
  std::vector<double> shift, mean, xt;
  ASSERT_EQ(add_all(x, sums, scatter, shift, mean, xt), n) << name;
  const auto y = [&](index_t i, index_t c) { return static_cast<long double>(x.at(i, c)) - shift[c]; };
  const auto t = [&](index_t i) { return static_cast<long double>(x.position[x.order[i]]) - x.position[x.order[0]]; };
  const auto sum = [&](const auto& term) {
    long double s = 0;
    for (index_t i = 0; i < n; ++i) s += term(i);
    return static_cast<double>(s);
  };
  std::vector<double> size(columns);
  for (index_t c = 0; c < columns; ++c) size[c] = std::sqrt(sum([&](index_t i) { return y(i, c) * y(i, c); }));
  const double time = std::sqrt(sum([&](index_t i) { return t(i) * t(i); })), rows = std::sqrt(static_cast<double>(n));
  for (index_t i = 0; i < columns; ++i) {
    EXPECT_NEAR(mean[i], sum([&](index_t r) { return y(r, i); }), 1e-12 * rows * size[i]) << name << i;
    EXPECT_NEAR(xt[i], sum([&](index_t r) { return t(r) * y(r, i); }), 1e-12 * time * size[i]) << name << i;
    for (index_t j = i; j < columns; ++j) {
      double block[1][1] = {{scatter.upper(i)[j]}};
      sums.add_rests(i, j, 1, 1, block);
      EXPECT_NEAR(block[0][0], sum([&](index_t r) { return y(r, i) * y(r, j); }), 1e-12 * size[i] * size[j])
          << name << i << ' ' << j;
    }
  }
}

TEST(bf16_scatter, sums_are_those_of_the_definition) {
  constexpr index_t n = 64 * 5 + 18;
  expect_sums({n, [](int, int, double z) { return z; }}, "noise ");
  expect_sums({n, [](int, int c, double z) { return z * std::pow(10.0, (c % 12) - 6.0) + 3.0 * (c % 5); }},
              "sizes and means ");
  expect_sums({n, [](int i, int c, double z) { return i == 100 && c == 3 ? 12.0 : z; }}, "an outlier ");
  expect_sums({n, [](int i, int c, double z) { return c < 40 ? z : i < 200 ? 0.0 : 1e5 * z; }}, "late columns ");
  expect_sums({n, [](int i, int c, double) { return (i * 7 + c) % 2 ? 255.0 : -255.0; }}, "two values ");
  expect_sums({n, [](int i, int c, double z) { return 1e-3 * z + 0.02 * i * (c % 3); }}, "drift ");
}

TEST(bf16_scatter, constants_give_exactly_zero) {
  const tested_rows x(50, [](int, int c, double) { return 0.1 * c; });
  cpu::bf16_scatter sums;
  cpu::scatter_sum scatter;
  std::vector<double> shift, mean, xt;
  ASSERT_EQ(add_all(x, sums, scatter, shift, mean, xt), 50);
  for (index_t i = 0; i < columns; ++i) {
    EXPECT_EQ(shift[i], x.at(0, i));
    EXPECT_EQ(mean[i], 0);
    EXPECT_EQ(xt[i], 0);
    for (index_t j = i; j < columns; ++j) {
      double block[1][1] = {{scatter.upper(i)[j]}};
      sums.add_rests(i, j, 1, 1, block);
      EXPECT_EQ(block[0][0], 0);
    }
  }
}

TEST(bf16_scatter, bf16_values_in_any_type_have_the_same_sums) {
  const tested_rows x(208, [](int, int c, double z) { return z * (1 + c % 3) + 0.5 * c; });
  const auto sums_of = [&](std::optional<cpu::wide_rows> held) {
    cpu::bf16_scatter sums;
    cpu::scatter_sum scatter;
    std::vector<double> shift, mean, xt, all;
    EXPECT_EQ(add_all(x, sums, scatter, shift, mean, xt, held), 208);
    for (index_t i = 0; i < columns; ++i) all.insert(all.end(), scatter.upper(i) + i, scatter.upper(i) + columns);
    for (const auto& more : {shift, mean, xt}) all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto f32 = x.as<float>();
  const auto f64 = x.as<double>();
  EXPECT_EQ(sums_of(rows_of(f32)), sums_of({}));
  EXPECT_EQ(sums_of(rows_of(f64)), sums_of({}));
}

TEST(bf16_scatter, rows_that_need_f64_are_left) {
  cpu::bf16_scatter sums;
  cpu::scatter_sum scatter;
  std::vector<double> shift, mean, xt;
  const auto taken = [&](index_t n, const std::function<double(int, int, double)>& value_of) {
    return add_all({n, value_of}, sums, scatter, shift, mean, xt);
  };
  EXPECT_EQ(taken(15, [](int, int, double z) { return z; }), 0) << "too few";
  EXPECT_EQ(taken(64, [](int, int, double z) { return std::exp(4 * z); }), 0) << "too many rests";
  EXPECT_EQ(taken(64, [](int, int, double z) { return 1e15 * z; }), 0) << "too large";
  EXPECT_EQ(taken(64, [](int, int, double z) { return 1e-15 * z; }), 0) << "too small";
  EXPECT_EQ(taken(64, [](int i, int, double z) { return i == 7 ? NAN : z; }), 0) << "not finite";
  EXPECT_EQ(taken(128, [](int i, int, double z) { return i == 64 ? NAN : z; }), 64) << "not finite, second tile";
  // 1 + 1e-3 z has few digits; the shift near 1 is no multiple of the unit that 1e4 z asks for.
  EXPECT_EQ(taken(128, [](int i, int, double z) { return (i * 55) % 128 < 64 ? 1 + 0.01 * z : 1e4 * z; }), 64)
      << "a wider tile";
  for (index_t c = 0; c < columns; ++c) EXPECT_TRUE(std::isfinite(mean[c]) && std::isfinite(xt[c]));
  // Values with more bits than bf16 has, in the second tile of f32 rows and at once in f64 rows.
  const tested_rows x(128, [](int, int, double z) { return z; });
  auto f32 = x.as<float>();
  f32[x.order[70] * columns] = 0.1f;
  const auto f64 = std::vector<double>(128 * columns, 0.1);
  EXPECT_EQ(add_all(x, sums, scatter, shift, mean, xt, rows_of(f32)), 64);
  EXPECT_EQ(add_all(x, sums, scatter, shift, mean, xt, rows_of(f64)), 0);
}

}  // namespace
