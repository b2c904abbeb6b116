// SPDX-License-Identifier: MIT
#include "qkgeom/rotary/grip.hpp"

#include <numbers>

#include "qkgeom/linalg/dense.hpp"
#include "tests/common/on_cpu.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

/// A head whose score of a key at distance d is content + strength cos(w d + phase): content is standard normal, of
/// `dim` coordinates that nothing rotates, the first two are a plane in which all queries and keys are alike. Tokens
/// come in pairs t, t + step: the second asks for the key after the first, whose content has `margin` along the
/// query's.
struct planted_retrieval {
  index_t documents = 12, tokens = 256, step = 0;
  double strength = 0, frequency = 0, margin = 0, phase = 0;
  index_t dim = 48;

  captured_rope rope() const { return {"half", 2, 1, {frequency}}; }
  /// Score of a key at distance d with content x.
  double score(double x, double d) const { return x + strength * std::cos(frequency * d + phase); }
};

struct retrieval_rows {
  index_t d;
  std::vector<float> q, k;
  std::vector<std::int32_t> position, document, token;
  std::optional<index_t> window{};

  explicit retrieval_rows(const planted_retrieval& p, std::uint64_t seed = 1) : d(p.dim + 2) {
    const auto add = [](std::vector<float>& to, double size, double angle, const std::vector<double>& content) {
      to.push_back(static_cast<float>(size * std::cos(angle)));
      to.push_back(static_cast<float>(size * std::sin(angle)));
      for (const double x : content) to.push_back(static_cast<float>(x));
    };
    for (index_t e = 0; e < p.documents; ++e) {
      const random_stream draws{seed, static_cast<std::uint32_t>(e), 0, draw::planted};
      std::uint64_t at = 0;
      const auto drawn = [&] {
        std::vector<double> x(static_cast<std::size_t>(p.dim));
        for (double& c : x) c = draws.normal(at++);
        return x;
      };
      std::vector<std::vector<double>> keys;
      for (index_t t = 0; t < p.tokens; ++t) {
        keys.push_back(drawn());
        add(k, 1, 0, keys.back());
        auto u = drawn();
        if (p.margin > 0 && t >= p.step) {  // a unit vector whose product with the needle is the margin
          const auto& needle = keys[static_cast<std::size_t>(t - p.step + 1)];
          const double size = dense::norm(needle), along = p.margin / size;
          u = dense::sum(u, needle, -dense::dot(u, needle) / (size * size));
          u = dense::sum(dense::scaled(u, std::sqrt(1 - along * along) / dense::norm(u)), needle, along / size);
        }
        add(q, p.strength, p.phase, dense::scaled(u, 1 / dense::norm(u)));
        position.push_back(static_cast<std::int32_t>(t));
        document.push_back(static_cast<std::int32_t>(e));
        token.push_back(static_cast<std::int32_t>(p.step > 0 ? t % p.step + t / (2 * p.step) * p.step : t));
      }
    }
  }
  layer_view<float> layer() const {
    const auto n = static_cast<index_t>(position.size());
    const vector_view<const std::int32_t> at{position.data(), n}, of{document.data(), n};
    return as_layer(head_view<float>{{q.data(), n, d, d}, at, of, {k.data(), n, d, d}, at, of, window});
  }
  vector_view<const std::int32_t> tokens() const { return {token.data(), static_cast<index_t>(token.size())}; }
  /// The rows as they enter q.k.
  retrieval_rows rotated(const captured_rope& rope) const {
    auto y = *this;
    for (std::size_t i = 0; i < position.size(); ++i) {
      const vector_rotation rotation(rope, position[i]);
      rotation(y.q.data() + static_cast<index_t>(i) * d);
      rotation(y.k.data() + static_cast<index_t>(i) * d);
    }
    return y;
  }
};

double beyond(double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); }

/// P(at most `free` of n keys at distances uniform on (low, high) score above s), Poisson.
double spared(const planted_retrieval& p, double s, double low, double high, double n, index_t free) {
  double rate = 0;
  for (int i = 0; i < 400; ++i) rate += n / 400 * beyond(s - p.score(0, low + (high - low) * (i + 0.5) / 400));
  double term = std::exp(-rate), sum = term;
  for (index_t i = 1; i <= free; ++i) sum += term *= rate / static_cast<double>(i);
  return sum;
}
/// The grip of the top 1 in closed form: the integral over the winner's score s of the density that a key among the
/// near ones has it, that no nearer one and no far one is above.
double winners_grip(const planted_retrieval& p, const grip_options& o, index_t n) {
  double grip = 0;
  constexpr double step = 0.02;
  for (double s = -8; s < 12; s += step) {
    double below = 1, hazard = 0;
    for (index_t d = 1; d <= o.near; ++d) {
      const double z = s - p.score(0, static_cast<double>(d)), share = 1 - beyond(z);
      below *= share;
      if (d > o.nearest && share > 0) hazard += std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi) / share;
    }
    grip += step * below * hazard *
            spared(p, s, static_cast<double>(o.near), static_cast<double>(n), static_cast<double>(n - o.near), 0);
  }
  return grip;
}

const grip_options small{.near = 64, .nearest = 4, .lengths = {64, 256, 1024, 16384}, .queries = 48};

TEST(grip, of_exchangeable_keys_is_chance) {
  for (const std::optional<captured_rope>& rope :
       {std::optional<captured_rope>(), std::optional(captured_rope{"half", 8, 1, {1e-9, 1e-10, 0, 0}})}) {
    const retrieval_rows rows({.documents = 40, .step = 60});
    const auto found = grip(ctx, rows.layer(), rope, rows.tokens(), small)[0];
    for (const auto& g : found.grip) {
      EXPECT_LT(std::abs(g.value.value - g.chance), 3.5 * g.value.error + 1e-5)
          << name_of(g.needle) << " top " << g.top << " of " << g.length;
      EXPECT_LT(g.value.error, 0.1 * g.chance + 0.002);
      EXPECT_LT(g.most - g.least, 1e-4) << "no tail is fitted where a needle is its own rival";
    }
    EXPECT_NEAR(found.at(needle_kind::winner, 16384, 1).chance, 60.0 / 16384, 1e-12);
  }
}

TEST(grip, of_a_rank_among_exchangeable_keys_is_the_chance_to_keep_it) {
  // A further key falls into each of m + 1 gaps alike: rank r of m stays with probability prod (i - r) / i.
  for (const index_t m : {10, 250})
    for (const index_t r : {1, 4})
      for (const index_t n : {1, 100, 100000}) {
        double stays = 1;
        for (index_t i = m + 1; i <= m + n; ++i) stays *= static_cast<double>(i - r) / static_cast<double>(i);
        const auto x = static_cast<double>(r);
        EXPECT_NEAR(detail::share_free(0, static_cast<double>(n), static_cast<double>(m), x, x), stays, 1e-9);
        EXPECT_GT(detail::share_free(3, static_cast<double>(n), static_cast<double>(m), x, x), stays);
      }
}

TEST(grip, of_winners_is_that_of_the_closed_form) {
  for (const double frequency : {0.02, 0.0003}) {
    const planted_retrieval p{.documents = 40, .strength = 4, .frequency = frequency, .phase = 0.4};
    const retrieval_rows rows(p);
    const auto found = grip(ctx, rows.layer(), p.rope(), {}, small)[0];
    for (const index_t n : small.lengths) {
      const auto& g = found.at(needle_kind::winner, n, 1);
      const double truth = winners_grip(p, small, n);
      EXPECT_LT(std::abs(g.value.value - truth), 3 * g.value.error + 0.002) << n << " keys, " << frequency;
      EXPECT_LT(g.value.error, 0.13);
      EXPECT_LT(g.least - 0.03, truth) << n;
      EXPECT_GT(g.most + 0.03, truth) << n;
    }
    EXPECT_EQ(found.at(needle_kind::matched, 64, 1).cases, 0);
    EXPECT_TRUE(std::isnan(found.at(needle_kind::matched, 64, 1).value.value));
  }
}

TEST(grip, is_what_long_documents_count) {
  const planted_retrieval p{
      .documents = 30, .tokens = 512, .step = 50, .strength = 3, .frequency = 0.004, .margin = 2.5};
  auto longer = p;
  longer.documents = 8;
  longer.tokens = 2100;
  auto o = small;
  o.lengths = {64, 512, 2000};
  o.distances = {16, 128, 1024, 2000};
  const retrieval_rows rows(p), actual = retrieval_rows(longer, 2).rotated(p.rope());
  const auto a = grip(ctx, rows.layer(), p.rope(), rows.tokens(), o)[0];
  const auto b = counted_grip(ctx, actual.layer(), std::nullopt, actual.tokens(), o)[0];
  for (std::size_t i = 0; i < a.grip.size(); ++i) {
    const auto &x = a.grip[i], &y = b.grip[i];
    ASSERT_GT(y.cases, 100);
    // One document holds less than what a rank needs to be known, so grip is drawn towards the middle.
    const double slack = x.length == 2000 ? 0.12 : 0.02;
    EXPECT_LT(std::abs(x.value.value - y.value.value), 2 * std::hypot(x.value.error, y.value.error) + slack)
        << name_of(x.needle) << ' ' << x.length << ' ' << x.top;
  }
  const retrieval_rows before(longer, 2);
  const auto c = counted_grip(ctx, before.layer(), p.rope(), before.tokens(), o)[0];
  EXPECT_DOUBLE_EQ(c.grip[4].value.value, b.grip[4].value.value);
  EXPECT_GT(b.kept[0].cases, 100);
  EXPECT_LT(std::abs(a.kept[0].value.value - b.kept[0].value.value), 0.05);
  EXPECT_EQ(b.kept[1].cases, 0) << "all matched keys stand 49 tokens back";
}

TEST(grip, reach_is_where_a_matched_needle_falls_behind) {
  const planted_retrieval p{
      .documents = 10, .tokens = 512, .step = 50, .strength = 3, .frequency = 0.0004, .margin = 3, .phase = 0.3};
  auto o = small;
  o.lengths = {64, 512, 4096};
  o.reach_top = 16;
  for (index_t d = 16; d <= 4096; d *= 2) o.distances.push_back(d);
  const retrieval_rows rows(p);
  const auto found = grip(ctx, rows.layer(), p.rope(), rows.tokens(), o)[0];
  // The needle's score at distance d is margin + drift; all others are standard normal about the drift.
  const auto rivals = [&](double d) {
    double rate = 0;
    for (index_t x = 1; x <= 4096; ++x) rate += beyond(p.score(3, d) - p.score(0, static_cast<double>(x)));
    return rate;
  };
  double truth = 64;
  while (rivals(truth) < 16) truth *= 1.01;
  EXPECT_GT(truth, 300);
  EXPECT_LT(std::abs(std::log2(found.reach.value / truth)), 0.3) << found.reach.value << " for " << truth;
  EXPECT_GT(found.kept[0].value.value, 0.9);
  EXPECT_LT(found.reach.error, 0.2 * truth);
  // A needle that is moved is no rival of itself where it stood.
  const planted_retrieval sure{
      .documents = 2, .step = 50, .strength = 3, .frequency = 0.02, .margin = 8, .phase = -1, .dim = 128};
  const retrieval_rows moved(sure);
  o = {.near = 64, .nearest = 4, .lengths = {64}, .distances = {16, 32}, .reach_top = 1};
  EXPECT_EQ(grip(ctx, moved.layer(), sure.rope(), moved.tokens(), o)[0].kept[0].value.value, 1);
}

TEST(grip, says_what_it_cannot_know) {
  auto o = small;
  o.lengths = {16384};
  const auto of = [&](const planted_retrieval& p) {
    const retrieval_rows rows(p);
    return grip(ctx, rows.layer(), p.rope(), rows.tokens(), o)[0];
  };
  // A needle above all that the document holds: what 64 times as many keys hold is the fitted tail's guess.
  const auto lone = of({.documents = 12, .step = 50, .strength = 4, .frequency = 0.02, .margin = 5});
  const auto& g = lone.at(needle_kind::matched, 16384, 1);
  EXPECT_GT(g.most - g.least, 0.1);
  EXPECT_GE(g.value.error, std::abs(g.with_tail - g.value.value));
  EXPECT_TRUE(g.least <= g.value.value && g.value.value <= g.most);
  // Too few documents, and too short ones.
  EXPECT_TRUE(std::isnan(of({.documents = 2}).grip[0].value.error));
  const auto brief = of({.tokens = 60});
  EXPECT_TRUE(brief.grip[0].cases == 0 && std::isnan(brief.grip[0].value.value) && std::isnan(brief.reach.value));
}

TEST(grip, of_a_window_ends_with_it) {
  retrieval_rows rows({.documents = 30});
  rows.window = 129;
  const auto found = grip(ctx, rows.layer(), std::nullopt, {}, small)[0];
  const auto &a = found.at(needle_kind::winner, 256, 1), &b = found.at(needle_kind::winner, 16384, 1);
  EXPECT_NEAR(a.chance, 60.0 / 128, 1e-12);
  EXPECT_LT(std::abs(a.value.value - a.chance), 3 * a.value.error);
  EXPECT_DOUBLE_EQ(a.value.value, b.value.value);
  const auto counted =
      counted_grip(ctx, rows.layer(), std::nullopt, {}, {.near = 64, .nearest = 4, .lengths = {200}})[0].grip[0];
  EXPECT_LT(std::abs(counted.value.value - a.chance), 3 * counted.value.error);
}

TEST(grip, first_tokens_compete_if_asked_at_the_distance_of_the_context) {
  const planted_retrieval p{.documents = 6, .strength = 1, .frequency = std::numbers::pi / 64};
  retrieval_rows rows(p);
  for (std::size_t i = 0; i < rows.position.size(); ++i)  // a sink: its score is 50 at distances 0, 128 ..., -50 at 64
    if (rows.position[i] == 0) rows.k[i * static_cast<std::size_t>(rows.d)] = 50;
  auto o = small;
  o.lengths = {64, 128};
  const auto of = [&](bool compete, index_t n) {
    o.first_compete = compete;
    return grip(ctx, rows.layer(), p.rope(), {}, o)[0].at(needle_kind::winner, n, 1).value.value;
  };
  EXPECT_GT(of(false, 128), 0.3);
  EXPECT_EQ(of(true, 128), 0);
  EXPECT_NEAR(of(true, 64), of(false, 64), 0.1);
}

TEST(grip, matched_needles_are_of_tokens_that_the_nearest_keys_hold_once) {
  retrieval_rows rows({.documents = 2, .step = 50});
  EXPECT_GT(grip(ctx, rows.layer(), std::nullopt, rows.tokens(), small)[0].at(needle_kind::matched, 64, 1).cases, 50);
  for (std::size_t i = 0; i < rows.token.size(); ++i) rows.token[i] = rows.position[i] % 20;
  EXPECT_EQ(grip(ctx, rows.layer(), std::nullopt, rows.tokens(), small)[0].at(needle_kind::matched, 64, 1).cases, 0);
}

TEST(grip, refuses_what_it_cannot_use) {
  retrieval_rows rows({.documents = 2});
  auto o = small;
  o.lengths = {32};
  EXPECT_QKGEOM_ERROR("ascending numbers from `near`, 64", grip(ctx, rows.layer(), std::nullopt, {}, o));
  EXPECT_QKGEOM_ERROR("rotates 60 coordinates of heads of 50",
                      grip(ctx, rows.layer(), captured_rope{"half", 60, 1, std::vector<double>(30, 1)}, {}, small));
  EXPECT_QKGEOM_ERROR("3 tokens for 512 keys", grip(ctx, rows.layer(), std::nullopt, {rows.token.data(), 3}, small));
  for (auto& t : rows.position) ++t;
  EXPECT_QKGEOM_ERROR("document 0 lacks the key at position 0", grip(ctx, rows.layer(), std::nullopt, {}, small));
}

}  // namespace
