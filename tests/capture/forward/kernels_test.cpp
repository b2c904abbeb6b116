// SPDX-License-Identifier: MIT
// The forward pass' parts against brute force.
#include <Eigen/Dense>

#include "capture/forward/attention/attention.hpp"
#include "capture/forward/kernels.hpp"
#include "capture/forward/losses.hpp"
#include "capture/forward/products/linear.hpp"
#include "capture/forward/products/linear_panels.hpp"
#include "capture/forward/products/linear_tiles.hpp"
#include "capture/forward/products/tiles.hpp"
#include "capture/forward/simd_team.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/core/scalar.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom {
namespace {

/// Entries with a spread like that of real queries and keys.
std::vector<float> entries(std::size_t n, std::uint32_t which, double spread = 1.5) {
  const random_stream stream{.seed = 5, .document = which};
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    double sum = -6;
    for (std::size_t j = 0; j < 12; ++j) sum += stream.uniform(12 * i + j);
    x[i] = static_cast<float>(spread * sum);
  }
  return x;
}

void round_to_bf16(std::vector<float>& x) {
  for (float& v : x) v = bf16::round(v);
}

struct shape {
  index_t tokens, query_heads, key_heads, dim;
  std::optional<index_t> window;
};

/// Queries, keys and values of a shape; in bf16 they are bf16 values.
struct attention_problem {
  shape s;
  std::vector<float> q;
  key_buffer k, v;

  attention_problem(const shape& of, bool to_bf16) : s(of) {
    const auto size = [](index_t a, index_t b, index_t c) { return static_cast<std::size_t>(a * b * c); };
    q = entries(size(s.tokens, s.query_heads, s.dim), 1);
    k.reshape(s.tokens, s.key_heads, s.dim);
    v.reshape(s.tokens, s.key_heads, s.dim);
    auto kv = entries(2 * size(s.tokens, s.key_heads, s.dim), 2);
    if (to_bf16) {
      round_to_bf16(q);
      round_to_bf16(kv);
    }
    std::size_t at = 0;
    for (index_t h = 0; h < s.key_heads; ++h)
      for (index_t t = 0; t < s.tokens; ++t)
        for (index_t c = 0; c < s.dim; ++c) {
          k.view().head(h)(t, c) = kv[at++];
          v.view().head(h)(t, c) = kv[at++];
        }
  }
  std::vector<float> result(const attention_options& options, int threads = 2) const {
    thread_pool pool(threads);
    auto out = q;
    causal_attention(pool, packed_tensor(out.data(), s.tokens, s.query_heads, s.dim), k, v, s.key_heads, options);
    return out;
  }
};

/// The rows of a matrix in f64.
Eigen::MatrixXd in_f64(matrix_view<const float> x) {
  using rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const rows, 0, Eigen::OuterStride<>>(x.data, x.rows, x.cols, Eigen::OuterStride<>(x.row_stride))
      .cast<double>();
}

/// The largest error of each kernel's attention against a sum in f64; `special`: with a cap of 3 and sinks.
std::vector<double> attention_errors(const shape& s, bool to_bf16, const std::vector<attention_kernel>& kernels,
                                     bool special) {
  attention_problem problem(s, to_bf16);
  std::vector<float> sinks;
  for (index_t h = 0; h < s.query_heads; ++h) sinks.push_back(1.5f - static_cast<float>(h));
  std::vector<std::vector<float>> results;
  for (const auto kernel : kernels)
    results.push_back(problem.result({.window = s.window,
                                      .to_bf16 = to_bf16,
                                      .cap = special ? 3.0 : 0.0,
                                      .sinks = special ? sinks.data() : nullptr,
                                      .kernel = kernel}));
  const auto head_of = [&](const std::vector<float>& x, index_t h) {
    return in_f64(packed_tensor(x.data(), s.tokens, s.query_heads, s.dim).head(h));
  };
  const tensor_view<const float> k = problem.k.view(), v = problem.v.view();
  std::vector<double> worst(kernels.size(), 0);
  for (index_t h = 0; h < s.query_heads; ++h) {
    const index_t key_head = h * s.key_heads / s.query_heads;
    Eigen::ArrayXXd p = head_of(problem.q, h) * in_f64(k.head(key_head)).transpose() / std::sqrt(double(s.dim));
    if (special) p = 3 * (p / 3).tanh();
    p = p.exp();
    for (index_t t = 0; t < s.tokens; ++t)
      for (index_t j = 0; j < s.tokens; ++j)
        if (j > t || (s.window && j <= t - *s.window)) p(t, j) = 0;
    const Eigen::ArrayXd sum = p.rowwise().sum() + (special ? std::exp(double{sinks[h]}) : 0.0);
    const Eigen::MatrixXd out = (p.colwise() / sum).matrix() * in_f64(v.head(key_head));
    for (std::size_t i = 0; i < results.size(); ++i)
      worst[i] = std::max(worst[i], (out - head_of(results[i], h)).cwiseAbs().maxCoeff());
  }
  return worst;
}

const std::vector<shape> shapes{{1, 4, 2, 32, {}},    {2, 1, 1, 1, {}},     {64, 3, 3, 20, {}},   {300, 8, 2, 32, {}},
                                {301, 6, 2, 40, {}},  {257, 3, 3, 20, 17},  {500, 5, 1, 64, 100}, {130, 7, 1, 128, 1},
                                {640, 2, 1, 16, 600}, {1100, 4, 4, 33, {}}, {1100, 2, 1, 72, 520}};

const std::vector every_kernel{attention_kernel::portable, attention_kernel::without_amx, attention_kernel::best};

std::string name(const shape& s) { return std::to_string(s.tokens) + " tokens, head size " + std::to_string(s.dim); }

TEST(attention, equals_brute_force) {
  // Values are below 9; a sum of some hundred products in f32 with relative errors near 2^-22 stays within this.
  for (const auto& s : shapes)
    for (const bool special : {false, true})
      EXPECT_LT(attention_errors(s, false, {attention_kernel::best}, special)[0], 2e-5) << name(s);
}

TEST(attention, in_bf16_errs_by_the_rounding_of_weights_and_result) {
  // Weights and result are rounded to 8 bits: 2^-9 each of values below 9, and exp's 1.1e-4.
  for (const auto& s : shapes)
    for (const bool special : {false, true})
      EXPECT_THAT(attention_errors(s, true, every_kernel, special), testing::Each(testing::Lt(2 * 9 * 0x1p-9)))
          << name(s);
}

// A query of the first position sees its own key alone, so its result is that value, whatever else is in the block.
TEST(attention, gives_the_bits_that_any_kernel_and_number_of_threads_must_give) {
  for (const auto& s : shapes) {
    attention_problem problem(s, true);
    const auto v = problem.v.view();
    for (const auto kernel : every_kernel) {
      const attention_options options{.window = s.window, .to_bf16 = true, .kernel = kernel};
      const auto out = problem.result(options);
      EXPECT_EQ(out, problem.result(options, 3)) << name(s);
      for (index_t h = 0; h < s.query_heads; ++h)
        for (index_t c = 0; c < s.dim; ++c)
          ASSERT_EQ(out[h * s.dim + c], v.head(h * s.key_heads / s.query_heads)(0, c)) << name(s) << ", head " << h;
    }
  }
}

TEST(simd, exponentials_keep_their_bounds) {
  double exact = 0, rough = 0;
  for (float x = -125.5f; x < 0; x += 0.0137f) {
    const double expected = std::exp2(static_cast<double>(x));
    exact = std::max(exact, std::abs(static_cast<double>(simd::exp2(simd::all(x))[0]) / expected - 1));
    rough = std::max(rough, std::abs(static_cast<double>(simd::exp2_rough(simd::all(x))[0]) / expected - 1));
  }
  EXPECT_LT(exact, 2.4e-7);
  EXPECT_LT(rough, 1.2e-4);
  EXPECT_LT(simd::exp2(simd::all(-1e30f))[0], 2e-38f);
  EXPECT_LT(simd::exp2_rough(simd::all(-1e30f))[0], 2e-38f);
}

TEST(simd, rounding_is_that_of_bf16) {
  using namespace device_kernels;
  auto x = entries(1003, 3);
  x[0] = 1.00390625f, x[1] = 1.01171875f, x[2] = -0.0f, x[3] = 3.4e38f;  // ties, a zero, overflow
  std::vector<wide_bf16> y(x.size());
  for_columns(simd_team{}, static_cast<index_t>(x.size()), [&](auto c) { store(y.data(), c, load(x.data(), c)); });
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i].value, static_cast<float>(bf16::round(x[i]))) << x[i];
}

/// Runs the kernels on one row of f32.
template <class Team>
void expect_norm_gate_and_rotation_to_equal_their_formulas() {
  using namespace device_kernels;
  constexpr index_t n = 37;  // no multiple of any vector
  const auto x = entries(n, 4), w = entries(n, 5);
  std::vector<float> out(n);
  norm_rows<float>{x.data(), out.data(), n, {w.data(), nullptr, norm_kind::llama, 1e-5f}}(Team{}, 0);
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(out[i], x[i] * w[i] / std::sqrt(squares / n + 1e-5), 1e-5);

  auto wide = entries(n, 6, 20);
  wide[0] = -500, wide[1] = 500;
  wide.insert(wide.end(), w.begin(), w.end());
  activate_rows<float, float>{wide.data(), n, nullptr, activation::silu, true, out.data(), n}(Team{}, 0);
  for (std::size_t i = 0; i < n; ++i) {
    const double g = wide[i], expected = g / (1 + std::exp(-g)) * w[i];
    EXPECT_NEAR(out[i], expected, 1e-6 * std::abs(expected) + 1e-6);
  }
  auto head = x;
  const std::vector<float> cosine(18, 0.6f), sine(18, 0.8f);
  for (const bool interleaved : {false, true}) {
    head = x;
    rotate_rows<float> rotation{{head.data(), nullptr, 0, 1, 0, n, 0, 0}, cosine.data(), sine.data(), 18, interleaved};
    rotation(Team{}, 0);
    for (std::size_t i = 0; i < 18; ++i) {
      const std::size_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + 18;
      EXPECT_NEAR(head[a], 0.6f * x[a] - 0.8f * x[b], 1e-5);
      EXPECT_NEAR(head[b], 0.6f * x[b] + 0.8f * x[a], 1e-5);
    }
    EXPECT_EQ(head[36], x[36]);
  }
}

TEST(kernels, norm_gate_and_rotation_equal_their_formulas) {
  expect_norm_gate_and_rotation_to_equal_their_formulas<device_kernels::simd_team>();
  expect_norm_gate_and_rotation_to_equal_their_formulas<device_kernels::one_thread>();
}

/// Compares products of some sizes with sums in f64. `multiply(rows, out, in, x, w, y)` gives y (rows, out), its rows
/// out + 3 apart, from x (rows, in), its rows in + 5 apart, and w (out, in).
template <class Multiply>
void expect_sums_of_exact_products(bool of_bf16, const Multiply& multiply) {
  const std::vector<std::array<index_t, 3>> sizes{{1, 1, 1},     {256, 96, 64},  {37, 50, 33},
                                                  {64, 31, 200}, {255, 129, 96}, {15, 70, 2100}};
  for (const auto& [rows, out, in] : sizes) {
    auto x = entries(static_cast<std::size_t>(rows * (in + 5)), 1);
    auto w = entries(static_cast<std::size_t>(out * in), 2);
    if (of_bf16) {
      round_to_bf16(x);
      round_to_bf16(w);
    }
    std::vector<float> y(rows * (out + 3), -1.0f), fewer(y.begin(), y.begin() + (rows + 1) / 2 * (out + 3));
    multiply(rows, out, in, x.data(), w.data(), y.data());
    const auto a = in_f64({x.data(), rows, in, in + 5}), b = in_f64({w.data(), out, in, in});
    const Eigen::ArrayXXd bound = 0x1p-24 * double(in + 1) * (a.cwiseAbs() * b.cwiseAbs().transpose()).array();
    const Eigen::MatrixXd off = in_f64({y.data(), rows, out, out + 3}) - a * b.transpose();
    EXPECT_TRUE((off.array().abs() <= bound).all()) << rows << ' ' << out << ' ' << in;
    EXPECT_TRUE((in_f64({y.data() + out, rows, 3, out + 3}).array() == -1).all()) << "between the rows";
    // A row's result does not depend on the rows beside it.
    multiply((rows + 1) / 2, out, in, x.data(), w.data(), fewer.data());
    EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), y.begin()));
  }
}

class tile_products : public testing::TestWithParam<tile_unit> {};

TEST_P(tile_products, are_sums_of_exact_products) {
  if (best_tile_unit() < GetParam()) GTEST_SKIP() << "this CPU has no tile products, or the system does not grant them";
  expect_sums_of_exact_products(
      true, [](index_t rows, index_t out, index_t in, const float* x, const float* w, float* y) {
        tiles::line_vector<bf16> packed(static_cast<std::size_t>(tiles_size(out, in))), packed_x;
        for (index_t o = 0; o < out; ++o) pack_row(o, in, w + o * in, packed.data());
        multiply_tiles(GetParam(), rows, out, in, x, in + 5, packed.data(), y, out + 3, packed_x);
      });
}

TEST(panel_products, are_sums_of_exact_products) {
  if (!panels_available()) GTEST_SKIP() << "this CPU has no AVX-512";
  expect_sums_of_exact_products(false,
                                [](index_t rows, index_t out, index_t in, const float* x, const float* w, float* y) {
                                  weight_matrix matrix;  // of more rows than are multiplied, which come in two parts
                                  const index_t first = out / 3, all = out + 7;
                                  matrix.reshape(all, in, weight_format::f32_panels);
                                  const std::vector<float> more(7 * in, NAN);
                                  matrix.set(out, 7, more.data());
                                  matrix.set(first, out - first, w + first * in);
                                  matrix.set(0, first, w);
                                  product_scratch scratch;
                                  matrix.multiply(rows, out, x, in + 5, y, out + 3, scratch);
                                });
}

INSTANTIATE_TEST_SUITE_P(avx512, tile_products, testing::Values(tile_unit::avx512));
INSTANTIATE_TEST_SUITE_P(amx, tile_products, testing::Values(tile_unit::amx));

// A vocabulary in two pieces, neither a whole number of vectors; all logits are below 0, which a vector holds
// beyond the end of its row.
TEST(losses, of_pieces_of_logits_equal_a_sum_in_f64) {
  constexpr index_t words = 37, all = 2 * words;
  const std::int32_t following = words + 5;
  auto logits = entries(all, 7, 3);
  double sum = 0;
  for (float& x : logits) sum += std::exp(static_cast<double>(x = -40 - std::abs(x)));
  const auto state_after = [&] {
    device_kernels::logit_state state;
    for (index_t first = 0; first < all; first += words)
      device_kernels::add_logits<float>{logits.data() + first, words, first, &following, &state}(
          device_kernels::simd_team{}, 0);
    return state;
  };
  const auto state = state_after();
  EXPECT_EQ(state.next, logits[following]);
  EXPECT_EQ(state.top, *std::max_element(logits.begin(), logits.end()));
  EXPECT_NEAR(state.top + std::log(state.sum), std::log(sum), 1e-6);
  logits.back() = NAN;
  EXPECT_TRUE(std::isnan(state_after().sum));
}

}  // namespace
}  // namespace qkgeom
