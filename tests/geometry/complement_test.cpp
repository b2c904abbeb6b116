// SPDX-License-Identifier: MIT
#include <complex>
#include <numbers>

#include "qkgeom/geometry/complement.hpp"
#include "tests/common/on_cpu.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

/// Planted rows whose coordinate pairs (first, first + 1) hold `radius` times a unit vector at omega t + phase.
struct rotating_pair {
  std::size_t first;
  double omega, radius, phase;
};

template <class T>
void add_rotation(std::vector<T>& x, const std::vector<std::int32_t>& position, std::size_t d,
                  const rotating_pair& rotation) {
  for (std::size_t r = 0; r < position.size(); ++r) {
    const double angle = rotation.omega * position[r] + rotation.phase;
    for (const std::size_t i : {0, 1}) {
      T& value = x[r * d + rotation.first + i];
      value = round_to<T>(static_cast<double>(value) + rotation.radius * (i == 0 ? std::cos(angle) : std::sin(angle)));
    }
  }
}

/// Dimension 0 drifts, dimension 1 separates the sides; the rest is noise of deviation 0.4.
planted_head quiet_head(std::uint64_t seed) {
  planted_head spec{.dim = 10, .context_length = 2048, .documents = 10, .rows = 60, .seed = seed};
  spec.drift_q = spec.drift_k = std::vector<double>(10);
  spec.drift_q[0] = 2e-3;
  spec.drift_k[0] = 3e-3;
  spec.mean_q.assign(10, 0);
  spec.mean_q[1] = 4;
  spec.root_q.assign(100, 0);
  for (std::size_t i = 0; i < 10; ++i) spec.root_q[i * 11] = 0.4;
  spec.root_k = spec.root_q;
  return spec;
}

template <class T>
complement_result planes_of(const planted_rows<T>& rows, cpu_context& on = ctx) {
  const auto m = accumulate(on, rows.view(), uniform_buckets{512}, {.context_length = 2048});
  return complement_planes(on, rows.view(), m, planar_rotation(on, m));
}

TEST(fourier_grid, largest_sum_is_that_of_the_definition) {
  const random_stream stream{5, 0, 0, draw::planted};
  for (const std::size_t n : {4u, 8u, 64u, 512u}) {
    std::vector<double> re(n), im(n);
    for (std::size_t i = 0; i < n; ++i) {
      re[i] = stream.uniform(2 * i) - 0.5;
      im[i] = stream.uniform(2 * i + 1) - 0.5;
    }
    double most = 0;
    std::size_t at = 0;
    for (std::size_t k = 0; k < n; ++k) {
      std::complex<double> sum;
      for (std::size_t j = 0; j < n; ++j)
        sum += std::complex(re[j], im[j]) *
               std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k * j % n) / static_cast<double>(n));
      if (std::abs(sum) > most) {
        most = std::abs(sum);
        at = k;
      }
    }
    const detail::fourier_grid grid(n);
    const auto [found, k] = grid.largest(re, im);
    EXPECT_NEAR(found, most, 1e-13 * static_cast<double>(n));
    EXPECT_EQ(k, at) << n;
  }
  EXPECT_THROW(detail::fourier_grid(12), error);
  EXPECT_THROW(detail::fourier_grid(2), error);
}

template <class T>
class complement_of_type : public testing::Test {};
using element_types = testing::Types<bf16, f16, float, double>;
TYPED_TEST_SUITE(complement_of_type, element_types);

TYPED_TEST(complement_of_type, planted_rotations_are_found_and_noise_is_not) {
  auto rows = plant<TypeParam>(quiet_head(3));
  const rotating_pair fast{2, 0.731, 3, 0.4},
      slow{4, 0.0614, 2, -1};  // many rotations, so that they do not drift along a
  for (const auto& rotation : {fast, slow}) {
    add_rotation(rows.q, rows.q_position, 10, rotation);
    add_rotation(rows.k, rows.k_position, 10, rotation);
  }
  const auto r = planes_of(rows);
  ASSERT_EQ(r.planes.size(), 4u);  // ten dimensions less a and b
  for (std::size_t p = 0; p < 2; ++p) {
    const auto& want = p == 0 ? fast : slow;
    // The angle's error is noise / radius per row; omega is the slope of a line through n angles over T tokens.
    const double error = 0.4 / want.radius / (2048 / std::sqrt(12.0)) / std::sqrt(600.0);
    for (const auto& side : {r.planes[p].q, r.planes[p].k}) {
      EXPECT_TRUE(side.active);
      EXPECT_NEAR(side.frequency * (r.planes[p].k.frequency > 0 ? 1 : -1), want.omega, 4.5 * error + 1e-7);
      EXPECT_NEAR(side.resultant, 1 - 0.08 / want.radius / want.radius, 0.01);
      EXPECT_GT(side.resultant, side.level);
    }
    EXPECT_GE(r.planes[p].k.frequency, 0);
  }
  for (std::size_t p = 2; p < 4; ++p)
    for (const auto& side : {r.planes[p].q, r.planes[p].k}) {
      EXPECT_FALSE(side.active) << p;
      EXPECT_LT(side.resultant, 0.2);
    }
  // Variances: radius^2 + 2 0.16 of the planes; drift^2 T^2 / 12 + 0.16 and 4^2 / 4 + 0.16 on a and b.
  const double on_a = 0.5 * (4e-6 + 9e-6) * 2048 * 2048 / 12 + 0.16, on_b = 4.16, all = on_a + on_b + 9 + 4 + 8 * 0.16;
  EXPECT_NEAR(r.planes[0].variance_share, 9.32 / all, 0.02);
  EXPECT_NEAR(r.planes[1].variance_share, 4.32 / all, 0.02);
  double shares = 0;
  for (const auto& p : r.planes) shares += p.variance_share;
  EXPECT_NEAR(shares, r.variance_share, 1e-12);
}

TEST(complement, what_a_and_b_leave_is_the_rest_of_the_variance) {
  auto rows = plant<double>(quiet_head(4));
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{512}, {.context_length = 2048});
  const auto plane = planar_rotation(ctx, m);
  const auto r = complement_planes(ctx, rows.view(), m, plane);
  EXPECT_NEAR(r.variance_share + plane.plane_var_fraction, 1, 1e-12);
}

TEST(complement, queries_and_keys_are_judged_apart) {
  auto rows = plant<double>(quiet_head(6));
  add_rotation(rows.k, rows.k_position, 10, {2, 0.2, 2, 0});
  add_rotation(rows.q, rows.q_position, 10, {4, -0.3, 3, 0});
  const auto r = planes_of(rows);
  EXPECT_TRUE(r.planes[0].q.active);
  EXPECT_FALSE(r.planes[0].k.active);
  EXPECT_NEAR(std::abs(r.planes[0].q.frequency), 0.3, 1e-4);
  EXPECT_FALSE(r.planes[1].q.active);
  EXPECT_TRUE(r.planes[1].k.active);
  EXPECT_NEAR(r.planes[1].k.frequency, 0.2, 1e-4);
  EXPECT_GT(r.planes[0].q.variance_share, 3 * r.planes[0].k.variance_share);
}

/// Less than a whole rotation over the span, which the refinement finds between grid frequencies.
TEST(complement, less_than_a_rotation_is_found) {
  auto rows = plant<double>(quiet_head(7));
  const rotating_pair rotation{2, 0.7 * 2 * std::numbers::pi / 2048, 4, 0.3};
  add_rotation(rows.q, rows.q_position, 10, rotation);
  add_rotation(rows.k, rows.k_position, 10, rotation);
  // Axes a and b take up part of the rotation; the first plane of the complement holds the rest.
  const auto r = planes_of(rows);
  EXPECT_TRUE(r.planes[0].k.active);
}

/// Dimensions 2 and 3 vary most, about a mean at distance 3 that queries and keys rotate in opposite senses by
/// `rotation` radians over the context: their drifts cancel in the pool, so that axis a leaves them.
planted_head slowly_rotated_head(std::uint64_t seed) {
  auto spec = quiet_head(seed);
  spec.root_q[2 * 11] = spec.root_q[3 * 11] = 1;
  spec.root_k = spec.root_q;
  return spec;
}
template <class T>
void rotate_slowly(planted_rows<T>& rows, double rotation, std::int32_t length) {
  const double omega = rotation / length;
  add_rotation(rows.q, rows.q_position, 10, {2, omega, 3, 0.4 - rotation / 2});
  add_rotation(rows.k, rows.k_position, 10, {2, -omega, 3, 0.4 + rotation / 2});
}

TEST(complement, a_slow_rotation_about_a_mean_angle_is_active) {
  for (const double rotation : {0.2, 0.4, 0.8, 1.5}) {  // half a step of the grid is 1.57 over the context
    auto rows = plant<float>(slowly_rotated_head(11));
    rotate_slowly(rows, rotation, 2048);
    const auto plane = planes_of(rows).planes[0];
    EXPECT_TRUE(plane.q.active) << rotation;
    EXPECT_TRUE(plane.k.active) << rotation;
    // A side's angle errs by about 1 / 3 per row; omega is the slope of a line through 600 angles.
    const double error = 1 / 3.0 / (2048 / std::sqrt(12.0)) / std::sqrt(600.0);
    EXPECT_NEAR(plane.k.frequency, rotation / 2048, 4.5 * error);
    EXPECT_NEAR(plane.q.frequency, -rotation / 2048, 4.5 * error);
  }
}

/// Angles about a mean, at positions drawn apart. (In a head's complement such noise is active less often: the drift
/// that the pool of both sides has by chance is a part of axis a.)
TEST(complement, a_mean_angle_that_does_not_rotate_is_active_as_often_as_the_level_says) {
  const int tests = 400;
  const std::size_t n = 300;
  int active = 0;
  for (std::uint32_t s = 0; s < tests; ++s) {
    const random_stream stream{13, s, 0, draw::planted};
    std::vector<std::int32_t> position(n);
    std::vector<double> re(n), im(n);
    for (std::size_t i = 0; i < n; ++i) {
      position[i] = static_cast<std::int32_t>(stream.below(2 * i, 256));
      const double angle = 0.7 + 2 * stream.uniform(2 * i + 1);
      re[i] = std::cos(angle), im[i] = std::sin(angle);
    }
    const detail::position_grid grid({position.data(), static_cast<index_t>(n)});
    const auto rotation = detail::plane_rotation_of(grid, re.data(), im.data(), 2 * s, {.permutations = 9});
    EXPECT_GT(rotation.resultant, 0.7);  // the mean angle
    EXPECT_EQ(rotation.active, rotation.resultant > rotation.level);
    active += rotation.active;
  }
  EXPECT_NEAR(active, 0.1 * tests, 4 * std::sqrt(0.09 * tests));
}

TEST(complement, the_refined_resultant_is_the_largest_between_grid_frequencies) {
  const random_stream stream{12, 0, 0, draw::planted};
  std::vector<std::int32_t> position(50);
  std::vector<double> re(position.size()), im(position.size());
  std::vector<std::size_t> order(position.size());
  for (std::size_t i = 0; i < position.size(); ++i) {
    position[i] = static_cast<std::int32_t>(7 + stream.below(2 * i, 100));
    const double angle = 0.317 * position[i] + 2 * stream.uniform(2 * i + 1);
    re[i] = std::cos(angle), im[i] = std::sin(angle), order[i] = i;
  }
  const detail::position_grid grid({position.data(), static_cast<index_t>(position.size())});
  const auto [omega, resultant] = detail::best_rotation(grid, re.data(), im.data(), order);
  const auto at = [&](double w) {
    std::complex<double> sum;
    for (std::size_t i = 0; i < position.size(); ++i)
      sum += std::complex(re[i], im[i]) * std::polar(1.0, -w * position[i]);
    return std::abs(sum) / static_cast<double>(position.size());
  };
  double most = 0;
  for (int i = -100000; i <= 100000; ++i) most = std::max(most, at(i * std::numbers::pi / 100000));
  EXPECT_NEAR(resultant, at(omega), 1e-10);
  EXPECT_GE(resultant, most - 1e-10);
  EXPECT_LT(resultant, most + 1e-6);
}

/// Tests of planes of noise in heads of `context` tokens, and how many call one active.
struct noise_tests {
  int active = 0, tests = 0;
  noise_tests(index_t context, index_t documents, int first_seed, const complement_options& options) {
    for (int s = first_seed; s < first_seed + 100; ++s) {
      auto spec = quiet_head(static_cast<std::uint64_t>(s));
      spec.context_length = context;
      spec.documents = documents;
      const auto rows = plant<float>(spec);
      const auto m = accumulate(ctx, rows.view(), uniform_buckets{64}, {.context_length = context});
      for (const auto& p : complement_planes(ctx, rows.view(), m, planar_rotation(ctx, m), options).planes)
        for (const auto& side : {p.q, p.k}) {
          EXPECT_EQ(side.active, side.resultant > side.level);
          active += side.active;
          ++tests;
        }
    }
  }
};

TEST(complement, noise_is_called_active_as_often_as_the_level_says) {
  const noise_tests found(256, 10, 1000, {.permutations = 9});
  EXPECT_EQ(found.tests, 800);
  EXPECT_NEAR(found.active, 0.1 * found.tests, 4 * std::sqrt(0.09 * found.tests));  // a level of 9 draws: 10 %
}

TEST(complement, at_the_default_level_noise_is_active_in_one_of_a_hundred) {
  const noise_tests found(128, 4, 5000, {});
  EXPECT_LE(found.active, 0.01 * found.tests + 4 * std::sqrt(0.0099 * found.tests));
}

TEST(complement, results_do_not_depend_on_threads_and_batches) {
  const auto rows = plant<float>(quiet_head(8));
  cpu_context of_one{{.threads = 1}};
  const auto one = planes_of(rows, of_one), two = planes_of(rows);
  for (std::size_t p = 0; p < one.planes.size(); ++p) {
    EXPECT_EQ(one.planes[p].k.frequency, two.planes[p].k.frequency);
    EXPECT_EQ(one.planes[p].q.level, two.planes[p].q.level);
    EXPECT_EQ(one.planes[p].q.draws, two.planes[p].q.draws);
  }
}

TEST(complement, a_layer_gives_each_head_what_it_gives_alone) {
  const auto a = plant<float>(quiet_head(9)), b = plant<float>(quiet_head(10));
  std::vector<float> q;  // (rows, 2 heads, d): head 1 has the queries of another seed at the positions of head 0
  for (std::size_t r = 0; r < a.q_position.size(); ++r)
    for (const auto* x : {&a.q, &b.q})
      q.insert(q.end(), x->begin() + static_cast<std::ptrdiff_t>(10 * r),
               x->begin() + static_cast<std::ptrdiff_t>(10 * r + 10));
  auto layer = as_layer(a.view());
  layer.q = packed_tensor<const float>(q.data(), layer.k.rows, 2, 10);
  layer.key_of_query = {0, 0};
  const auto m = accumulate(ctx, layer, uniform_buckets{512}, {.context_length = 2048});
  const auto both = complement_planes(ctx, layer, m, planar_rotation(ctx, m));
  ASSERT_EQ(both.size(), 2u);
  const auto alone = planes_of(a);
  for (std::size_t p = 0; p < alone.planes.size(); ++p) {
    EXPECT_EQ(both[0].planes[p].k.frequency, alone.planes[p].k.frequency);
    EXPECT_EQ(both[0].planes[p].q.level, alone.planes[p].q.level);
  }
}

TEST(complement, degenerate_rows_have_no_planes_or_none_active) {
  auto rows = plant<double>({.dim = 6, .context_length = 512, .documents = 1, .rows = 40});
  std::fill(rows.q_position.begin(), rows.q_position.end(), 3);
  std::fill(rows.k_position.begin(), rows.k_position.end(), 3);
  for (const auto& p : planes_of(rows).planes) {
    EXPECT_FALSE(p.q.active);  // one position: permuting changes nothing
    EXPECT_FALSE(p.k.active);
  }
  std::fill(rows.q.begin(), rows.q.end(), 1.0);
  std::fill(rows.k.begin(), rows.k.end(), 1.0);
  EXPECT_TRUE(planes_of(rows).planes.empty());
}

TEST(complement, bad_arguments_are_refused) {
  const auto rows = plant<double>(quiet_head(1));
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{512}, {.context_length = 2048});
  EXPECT_THROW(complement_planes(ctx, rows.view(), m, planar_rotation(ctx, m), {.permutations = 0}), error);
  const layer_moments layer{m.buckets, {m.q}, {m.k}, {0}};
  EXPECT_THROW(complement_planes(ctx, as_layer(rows.view()), layer, {}), error);
  auto other_head = quiet_head(1);
  ++other_head.dim;
  for (auto* x : {&other_head.mean_q, &other_head.mean_k, &other_head.drift_q, &other_head.drift_k})
    if (!x->empty()) x->push_back(0);
  other_head.root_q.clear(), other_head.root_k.clear();
  const auto other = plant<double>(other_head);
  const auto of_other = accumulate(ctx, other.view(), uniform_buckets{512}, {.context_length = 2048});
  EXPECT_QKGEOM_ERROR("complement_planes: moments of head size",
                      complement_planes(ctx, rows.view(), of_other, planar_rotation(ctx, of_other)));
  EXPECT_QKGEOM_ERROR("complement_planes: axes of size",
                      complement_planes(ctx, rows.view(), m, planar_rotation(ctx, of_other)));
}

}  // namespace
