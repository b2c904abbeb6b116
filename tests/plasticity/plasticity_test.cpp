// SPDX-License-Identifier: MIT
// Pair kernels against the definition, written out in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/context/pair_formula.hpp"
#include "qkgeom/planted/heads.hpp"
#include "qkgeom/plasticity/bucket_table.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "tests/common/refusal.hpp"

namespace {

using namespace qkgeom;

TEST(pair_formula, equals_four_phi_phi) {
  const boost::math::normal normal;
  for (double z = 0; z < 37; z += 0.37) {
    const double want = 4 * boost::math::cdf(normal, z) * boost::math::cdf(boost::math::complement(normal, z));
    EXPECT_NEAR(pair_plasticity(z, 1), want, 1e-15 * want + 1e-300) << z;
    EXPECT_DOUBLE_EQ(pair_plasticity(z, 1), pair_plasticity(-z, 1));
    EXPECT_NEAR(win_probability(z, 1) + win_probability(-z, 1), 1, 1e-15);
  }
  EXPECT_GT(pair_plasticity(20, 1), 0);  // 1 - Phi(z) would be 0 from 8.3 on
  EXPECT_EQ(pair_plasticity(0, 0), 1);
  EXPECT_EQ(pair_plasticity(1, 0), 0);
  EXPECT_EQ(win_probability(-1, 0), 0);
  EXPECT_EQ(win_probability(0, 0), 0.5);
}

/// The profile by the definition: rotated coordinates, every pair of one document, one after the other.
std::vector<std::pair<double, std::int64_t>> brute_force(const query_model& model, const head_view<double>& head,
                                                         const pair_weight& weight = {}, bool across = false) {
  std::vector<std::pair<double, std::int64_t>> result;
  const auto d = static_cast<std::size_t>(head.k.cols);
  for (index_t b = 0; b < model.buckets.count(); ++b) {
    const auto& bucket = model.bucket[b];
    double sum = 0, total = 0;
    std::int64_t pairs = 0;
    std::vector<std::vector<index_t>> groups;
    std::vector<std::int32_t> ids;
    for (index_t i = 0; i < head.k.rows; ++i) {
      if (head.k_position[i] >= model.buckets.start(b)) continue;
      if (head.window && !(head.k_position[i] > bucket.tau - static_cast<double>(*head.window))) continue;
      const std::int32_t id = across ? 0 : head.k_document[i];
      const auto at = std::find(ids.begin(), ids.end(), id);
      if (at == ids.end()) {
        ids.push_back(id);
        groups.push_back({i});
      } else {
        groups[at - ids.begin()].push_back(i);
      }
    }
    for (auto& g : groups) {
      std::stable_sort(g.begin(), g.end(),
                       [&](index_t x, index_t y) { return head.k_position[x] < head.k_position[y]; });
      for (std::size_t j = 1; j < g.size() && bucket.queries >= 2; ++j)
        for (std::size_t i = 0; i < j; ++i) {
          std::vector<double> delta(d);
          for (std::size_t c = 0; c < d; ++c)
            delta[c] = head.k(g[i], static_cast<index_t>(c)) - head.k(g[j], static_cast<index_t>(c));
          delta = reflect(model.reflector, delta);
          double m = dense::dot(delta, bucket.mean), v = 0;
          if (bucket.root.rank > 0) {
            const auto r = static_cast<std::size_t>(bucket.root.rank);
            for (std::size_t k = 0; k < r; ++k) {
              double along = 0;
              for (std::size_t c = 0; c < d; ++c) along += delta[c] * bucket.root.factor[c * r + k];
              v += along * along;
            }
          } else {
            for (std::size_t c = 0; c < d; ++c) v += bucket.variance[c] * delta[c] * delta[c];
          }
          const double w = weight
                               ? weight({static_cast<index_t>(i), static_cast<index_t>(j),
                                         static_cast<index_t>(g.size()), head.k_position[g[i]], head.k_position[g[j]],
                                         head.k_document[g[i]], head.k_document[g[j]], bucket.tau})
                               : 1;
          sum += w * pair_plasticity(m, v);
          total += w;
          ++pairs;
        }
    }
    result.emplace_back(total > 0 ? sum / total : std::numeric_limits<double>::quiet_NaN(), pairs);
  }
  return result;
}

struct head_shape {
  index_t dim, documents, rows;
};

class all_pairs_of : public testing::TestWithParam<head_shape> {};

/// Groups below and above the size from which tiles are used, ragged against panels and lanes; the last one is longer
/// than a block of 16 panels at any width.
INSTANTIATE_TEST_SUITE_P(sizes, all_pairs_of,
                         testing::Values(head_shape{1, 4, 5}, head_shape{2, 3, 1}, head_shape{3, 40, 2},
                                         head_shape{8, 7, 17}, head_shape{33, 3, 64}, head_shape{16, 2, 65},
                                         head_shape{32, 2, 131}, head_shape{40, 1, 200}, head_shape{12, 1, 900}));

TEST_P(all_pairs_of, equal_brute_force) {
  const auto s = GetParam();
  planted_head spec{.dim = s.dim, .context_length = 1000, .documents = s.documents, .rows = s.rows, .seed = 11};
  spec.drift_q.assign(s.dim, 1e-3);
  spec.mean_k.assign(s.dim, 50.0);  // a large common mean must not matter
  const auto rows = plant<double>(spec);
  cpu_context ctx{{.threads = 2}};
  for (const bool windowed : {false, true}) {
    auto head = rows.view();
    if (windowed) head.window = 400;
    for (const auto kind : all_covariance_kinds) {
      SCOPED_TRACE(name_of(kind));
      const auto model =
          fit_queries(ctx, accumulate(ctx, head, uniform_buckets{150}, {.context_length = 1000}), {.covariance = kind});
      const auto want = brute_force(model, head);
      const auto weighted = brute_force(model, head, prefix_uniform{}.weight());
      for (const auto precision : {pair_precision::f64, pair_precision::f32}) {
        const auto got = plasticity_profile(ctx, model, head, all_pairs{}, {.heatmap = true, .precision = precision});
        const auto plain = plasticity_profile(ctx, model, head, all_pairs{}, {.precision = precision});
        const auto prefix = plasticity_profile(ctx, model, head, prefix_uniform{.documents_weigh_same = false},
                                               {.precision = precision});
        // f32: 2e-7 of the formula, and keys rounded to 2^-24 of their distance from the mean.
        const double bound = precision == pair_precision::f64 ? 1e-11 : 1e-6;
        double heat = 0, heat_pairs = 0, sum = 0, pairs = 0;
        for (std::size_t b = 0; b < want.size(); ++b) {
          EXPECT_EQ(got.buckets[b].pairs, got.buckets[b].queries >= 2 ? want[b].second : 0);
          if (std::isnan(want[b].first)) {
            EXPECT_TRUE(std::isnan(got.buckets[b].plasticity));
            continue;
          }
          EXPECT_NEAR(got.buckets[b].plasticity, want[b].first, bound) << "bucket " << b;
          EXPECT_NEAR(plain.buckets[b].plasticity, want[b].first, bound) << "bucket " << b;
          EXPECT_NEAR(prefix.buckets[b].plasticity, weighted[b].first, bound) << "bucket " << b;
          sum += got.buckets[b].plasticity * static_cast<double>(got.buckets[b].pairs);
          pairs += static_cast<double>(got.buckets[b].pairs);
        }
        for (const double x : got.heatmap.sum) heat += x;
        for (const double x : got.heatmap.weight) heat_pairs += x;
        EXPECT_EQ(heat_pairs, pairs);  // every pair falls in one cell
        EXPECT_NEAR(heat, sum, 1e-6 * sum + 1e-12);
      }
    }
  }
}

TEST(plasticity, pairs_across_documents) {
  planted_head spec{.dim = 6, .context_length = 500, .documents = 5, .rows = 30, .seed = 4};
  spec.drift_q = {1e-2, 0, 0, 0, 0, 0};
  const auto rows = plant<double>(spec);
  cpu_context ctx{{.threads = 2}};
  const auto model = fit_queries(ctx, accumulate(ctx, rows.view(), uniform_buckets{100}, {.context_length = 500}));
  const auto want = brute_force(model, rows.view(), {}, true);
  const auto got = plasticity_profile(ctx, model, rows.view(), all_pairs{.across_documents = true});
  for (std::size_t b = 1; b < want.size(); ++b) {
    EXPECT_EQ(got.buckets[b].pairs, want[b].second);
    EXPECT_NEAR(got.buckets[b].plasticity, want[b].first, 1e-12);
  }
}

TEST(plasticity, does_not_depend_on_the_thread_count) {
  const auto rows = plant<float>({.dim = 20, .context_length = 4000, .documents = 2, .rows = 1500, .seed = 2});
  cpu_context one{{.threads = 1}}, three{{.threads = 3}};
  const auto model = fit_queries(one, accumulate(one, rows.view(), uniform_buckets{1000}, {.context_length = 4000}),
                                 {.covariance = covariance_kind::joint});
  const auto a = plasticity_profile(one, model, rows.view(), all_pairs{}, {.heatmap = true});
  const auto b = plasticity_profile(three, model, rows.view(), all_pairs{}, {.heatmap = true});
  for (std::size_t i = 1; i < a.buckets.size(); ++i) EXPECT_EQ(a.buckets[i].plasticity, b.buckets[i].plasticity);
  EXPECT_EQ(a.heatmap.sum, b.heatmap.sum);
}

TEST(plasticity, f32_holds_for_keys_with_a_common_mean_and_near_equal_keys) {
  planted_head spec{.dim = 64, .context_length = 1000, .documents = 1, .rows = 600, .seed = 6};
  spec.mean_k.assign(64, 300.0);
  spec.drift_q.assign(64, 1e-4);
  auto rows = plant<double>(spec);
  for (std::size_t i = 0; i < 200; ++i)  // keys that differ from their neighbour by a thousandth
    for (std::size_t c = 0; c < 64; ++c)
      rows.k[(3 * i + 1) * 64 + c] = rows.k[3 * i * 64 + c] + (rows.k[(3 * i + 1) * 64 + c] - 300.0) * 1e-3;
  cpu_context ctx{{.threads = 2}};
  for (const auto kind : {covariance_kind::diagonal, covariance_kind::joint}) {
    const auto model = fit_queries(ctx, accumulate(ctx, rows.view(), uniform_buckets{250}, {.context_length = 1000}),
                                   {.covariance = kind});
    const auto exact = plasticity_profile(ctx, model, rows.view(), all_pairs{}, {.precision = pair_precision::f64});
    const auto fast = plasticity_profile(ctx, model, rows.view(), all_pairs{}, {.precision = pair_precision::f32});
    const auto want = brute_force(model, rows.view());
    for (std::size_t b = 1; b < 4; ++b) {
      EXPECT_NEAR(exact.buckets[b].plasticity, want[b].first, 1e-9);
      EXPECT_NEAR(fast.buckets[b].plasticity, want[b].first, 1e-6);
    }
  }
}

/// Rows by hand for the degenerate cases.
struct small_head {
  std::vector<double> q, k;
  std::vector<std::int32_t> tq, eq, tk, ek;
  index_t dim = 2;
  head_view<double> view() const {
    const auto ints = [](const auto& v) {
      return vector_view<const std::int32_t>{v.data(), static_cast<index_t>(v.size())};
    };
    const auto matrix = [&](const auto& v) {
      return matrix_view<const double>{v.data(), static_cast<index_t>(v.size()) / dim, dim, dim};
    };
    return {matrix(q), ints(tq), ints(eq), matrix(k), ints(tk), ints(ek), {}};
  }
};

small_head with_queries() {
  small_head h;
  const random_stream s{.seed = 1};
  for (int i = 0; i < 40; ++i) {
    h.q.push_back(s.uniform(static_cast<std::uint64_t>(2 * i)));
    h.q.push_back(s.uniform(static_cast<std::uint64_t>(2 * i + 1)) - 0.3);
    h.tq.push_back(5 * i);
    h.eq.push_back(0);
  }
  return h;
}

plasticity_profile_result profile(const small_head& h, covariance_kind kind = covariance_kind::diagonal,
                                  pair_precision precision = pair_precision::f64) {
  cpu_context ctx{{.threads = 1}};
  return plasticity_profile(
      ctx,
      fit_queries(ctx, accumulate(ctx, h.view(), uniform_buckets{50}, {.context_length = 200}), {.covariance = kind}),
      h.view(), all_pairs{}, {.precision = precision});
}
constexpr pair_precision both_precisions[] = {pair_precision::f32, pair_precision::f64};

TEST(degenerate, one_key_has_no_pair) {
  auto h = with_queries();
  h.k = {1, 2};
  h.tk = {3};
  h.ek = {0};
  for (const auto& b : profile(h).buckets) {
    EXPECT_TRUE(std::isnan(b.plasticity));
    EXPECT_EQ(b.pairs, 0);
  }
}

TEST(degenerate, equal_keys_are_a_coin_toss) {
  for (const int copies : {2, 3, 90}) {
    auto h = with_queries();
    for (int i = 0; i < copies; ++i) {
      h.k.insert(h.k.end(), {0.5, -1.25});  // their mean is exact, so that nothing is left of them
      h.tk.push_back(std::min(i, 49));
      h.ek.push_back(0);
    }
    for (const auto kind : all_covariance_kinds)
      for (const auto precision : both_precisions) {
        const auto p = profile(h, kind, precision);
        for (std::size_t b = 1; b < 4; ++b) EXPECT_EQ(p.buckets[b].plasticity, 1.0) << name_of(kind) << " " << copies;
      }
  }
}

TEST(degenerate, equal_keys_of_one_document_leave_the_others_alone) {
  auto h = with_queries();
  const random_stream s{.seed = 3};
  for (int e = 0; e < 2; ++e)
    for (int i = 0; i < 90; ++i) {
      const auto at = static_cast<std::uint64_t>(2 * i);
      h.k.insert(h.k.end(), {e == 0 ? 0.5 : s.uniform(at), e == 0 ? -1.25 : s.uniform(at + 1)});
      h.tk.push_back(i / 2);
      h.ek.push_back(e);
    }
  for (const auto kind : all_covariance_kinds) {
    const auto exact = profile(h, kind), fast = profile(h, kind, pair_precision::f32);
    EXPECT_NEAR(exact.buckets[1].document_sum[0], 90 * 89 / 2, 1e-9) << name_of(kind);
    for (std::size_t b = 1; b < 4; ++b)
      EXPECT_NEAR(fast.buckets[b].plasticity, exact.buckets[b].plasticity, 1e-6) << name_of(kind);
  }
}

/// Two of the keys differ by eps, the same pair of z whatever eps is.
TEST(degenerate, f64_pairs_of_near_keys_are_what_their_difference_says) {
  for (const int keys : {10, 200})
    for (const auto kind : {covariance_kind::diagonal, covariance_kind::joint}) {
      const auto pair_of = [&](double eps) {
        auto h = with_queries();
        const random_stream s{.seed = 4};
        for (int i = 0; i < keys; ++i) {
          const auto at = static_cast<std::uint64_t>(2 * i);
          h.k.insert(h.k.end(), {s.uniform(at) - 0.5, s.uniform(at + 1) - 0.5});
          h.tk.push_back(i / 5);
          h.ek.push_back(0);
        }
        h.k[0] = h.k[1] = 0;
        h.k[2] = eps, h.k[3] = -eps;
        cpu_context ctx{{.threads = 1}};
        const auto model = fit_queries(ctx, accumulate(ctx, h.view(), uniform_buckets{50}, {.context_length = 200}),
                                       {.covariance = kind});
        const auto first = [](const key_pair& p) { return p.i + p.j == 1 ? 1.0 : 0.0; };
        return plasticity_profile(ctx, model, h.view(), first, {.precision = pair_precision::f64})
            .buckets[2]
            .plasticity;
      };
      const double want = pair_of(1e-6);
      EXPECT_GT(want, 1e-3);
      EXPECT_LT(want, 1 - 1e-3);
      for (const double eps : {1e-9, 1e-11}) EXPECT_NEAR(pair_of(eps), want, 1e-4) << keys << ' ' << eps;
    }
}

TEST(degenerate, empty_buckets_are_null) {
  auto h = with_queries();
  for (auto& t : h.tq) t = t < 100 ? t : t % 50 + 150;
  h.k = {1, 2, 0, 1, 2, 2};
  h.tk = {3, 7, 9};
  h.ek = {0, 0, 0};
  const auto p = profile(h);
  EXPECT_FALSE(std::isnan(p.buckets[1].plasticity));
  EXPECT_EQ(p.buckets[2].queries, 0);
  EXPECT_TRUE(std::isnan(p.buckets[2].plasticity));
  EXPECT_FALSE(std::isnan(p.buckets[3].plasticity));
}

TEST(degenerate, queries_that_never_vary_decide_every_pair) {
  auto h = with_queries();
  for (std::size_t i = 0; i < h.q.size(); ++i) h.q[i] = i % 2 ? 0.0 : 1.0;
  h.k = {1, 2, 3, 1, 2, 2};
  h.tk = {3, 7, 9};
  h.ek = {0, 0, 0};
  for (const auto kind : all_covariance_kinds) EXPECT_EQ(profile(h, kind).buckets[1].plasticity, 0.0) << name_of(kind);
  for (int i = 0; i < 90; ++i) {  // as many as go through tiles
    h.k.insert(h.k.end(), {4.0 + i, 1});
    h.tk.push_back(10 + i / 3);
    h.ek.push_back(0);
  }
  h.k[4] = 4.5;  // no two keys have one score
  for (const auto kind : all_covariance_kinds)
    for (const auto precision : both_precisions)
      EXPECT_EQ(profile(h, kind, precision).buckets[1].plasticity, 0.0) << name_of(kind);
}

// Where keys do not differ in what varies, v cancels and the lane is computed again: what it held may not overflow,
// which the sanitizers would see.
TEST(degenerate, pairs_that_do_not_differ_where_queries_do) {
  constexpr index_t n = 300, d = 4;
  const random_stream draws{.seed = 1};
  std::vector<float> k;
  for (index_t i = 0; i < n * d; ++i)
    k.push_back(static_cast<float>(draws.uniform(static_cast<std::uint64_t>(i)) - 0.5));
  for (std::size_t i = d; i < k.size(); i += 2 * d) k[i] = k[i - d];
  query_model m;
  m.buckets = bucket_edges({500, 600});
  m.covariance = covariance_kind::diagonal;
  m.bucket.push_back({2, 550, {0, 1, 1, 1}, {1, 0, 0, 0}, {}});
  std::vector<std::int32_t> position(n), document(n);
  std::iota(position.begin(), position.end(), 0);
  const std::vector<float> q(2 * d);
  const std::vector<std::int32_t> q_position{500, 510}, q_document(2);
  const layer_view<float> layer{packed_tensor(q.data(), 2, 1, d),
                                {q_position.data(), 2},
                                {q_document.data(), 2},
                                packed_tensor(k.data(), n, 1, d),
                                {position.data(), n},
                                {document.data(), n},
                                {0},
                                {}};
  cpu_context ctx{{.threads = 1}};
  const auto value = [&](pair_precision p) {
    return plasticity_profile(ctx, std::vector<query_model>{m}, layer, all_pairs{}, {.precision = p})[0]
        .buckets[0]
        .plasticity;
  };
  EXPECT_NEAR(value(pair_precision::f32), value(pair_precision::f64), 1e-6);
}

template <class T>
class exact_scores : public testing::Test {};
using score_types = testing::Types<bf16, f16, float, double>;
TYPED_TEST_SUITE(exact_scores, score_types);

TEST(empirical, equal_keys_tie) {
  cpu_context ctx{{.threads = 1}};
  for (const index_t d : {16, 33, 72, 128})
    for (const int copies : {2, 5, 7, 29, 50}) {
      auto rows = plant<float>({.dim = d, .context_length = 1000, .documents = 1, .rows = 200});
      const std::vector<float> key(rows.k.begin(), rows.k.begin() + d),
          other(rows.k.begin() + d, rows.k.begin() + 2 * d);
      rows.k = other;  // so that the mean is not the key
      rows.k_position = {600};
      rows.k_document = {0};
      for (int i = copies; i-- > 0;) {
        rows.k.insert(rows.k.begin(), key.begin(), key.end());
        rows.k_position.insert(rows.k_position.begin(), i);
        rows.k_document.push_back(0);
      }
      const auto p = empirical_profile(ctx, rows.view(), uniform_buckets{500}, 1000);
      EXPECT_EQ(p.buckets[1].plasticity, 1) << d << ' ' << copies;
    }
}

// Scores that are exact tie, though their keys' mean is no number of any type.
TYPED_TEST(exact_scores, tie_where_they_are_equal) {
  using T = TypeParam;
  constexpr std::int64_t queries = 61, keys = 151;
  cpu_context ctx{{.threads = 2}};
  const random_stream draws{.seed = 3};
  for (const auto& [d, values, common] : {std::array<std::int64_t, 3>{2, 5, 0}, {4, 5, 60}, {32, 2, 0}, {9, 3, 100}}) {
    std::vector<std::int64_t> q, k;
    for (std::int64_t i = 0; i < queries * d; ++i)
      q.push_back(static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(i), 5)) - 2);
    for (std::int64_t i = 0; i < keys * d; ++i)
      k.push_back(common +
                  static_cast<std::int64_t>(draws.below((std::uint64_t{1} << 32) + static_cast<std::uint64_t>(i),
                                                        static_cast<std::uint64_t>(values))));
    const auto as_t = [](const std::vector<std::int64_t>& from) {
      std::vector<T> to;
      for (const auto x : from)
        if constexpr (std::is_floating_point_v<T>)
          to.push_back(static_cast<T>(x));
        else
          to.push_back(T::round(static_cast<float>(x)));
      return to;
    };
    const std::vector<T> tq = as_t(q), tk = as_t(k);
    std::vector<std::int32_t> q_position(queries, 500), k_position(keys), q_document(queries), k_document(keys);
    std::iota(k_position.begin(), k_position.end(), 0);
    const layer_view<T> layer{packed_tensor(tq.data(), queries, 1, d),
                              {q_position.data(), queries},
                              {q_document.data(), queries},
                              packed_tensor(tk.data(), keys, 1, d),
                              {k_position.data(), keys},
                              {k_document.data(), keys},
                              {0},
                              {}};
    double want = 0;
    for (std::int64_t j = 1; j < keys; ++j)
      for (std::int64_t i = 0; i < j; ++i) {
        std::int64_t twice = 0;
        for (std::int64_t r = 0; r < queries; ++r) {
          std::int64_t less = 0;
          for (std::int64_t c = 0; c < d; ++c) less += q[r * d + c] * (k[j * d + c] - k[i * d + c]);
          twice += (less > 0) + (less >= 0);
        }
        const double share = static_cast<double>(twice) / (2.0 * queries);
        want += 4 * share * (1 - share);
      }
    want /= keys * (keys - 1) / 2;
    EXPECT_NEAR(empirical_profile(ctx, layer, edge_buckets{{499, 501}}, 501)[0].buckets[0].plasticity, want, 1e-12)
        << d << ' ' << values << ' ' << common;
  }
}

TEST(empirical, keys_whose_range_is_subnormal_are_ordered) {
  const std::vector<double> q{1, -1}, k{0, 1e-322};
  const std::vector<std::int32_t> q_position{10, 11}, k_position{0, 1}, document(2);
  const layer_view<double> layer{packed_tensor(q.data(), 2, 1, 1),
                                 {q_position.data(), 2},
                                 {document.data(), 2},
                                 packed_tensor(k.data(), 2, 1, 1),
                                 {k_position.data(), 2},
                                 {document.data(), 2},
                                 {0},
                                 {}};
  cpu_context ctx{{.threads = 1}};
  EXPECT_EQ(empirical_profile(ctx, layer, edge_buckets{{10, 20}}, 20)[0].buckets[0].plasticity, 1);
}

TEST(empirical, equals_counting) {
  auto h = with_queries();
  const random_stream s{.seed = 2};
  for (int i = 0; i < 30; ++i) {
    h.k.insert(h.k.end(), {s.uniform(static_cast<std::uint64_t>(2 * i)),
                           i % 7 == 0 ? 0.25 : s.uniform(static_cast<std::uint64_t>(2 * i + 1))});
    h.tk.push_back(i * 6);
    h.ek.push_back(0);
  }
  h.k[2] = h.k[0];  // an exact tie
  h.k[3] = h.k[1];
  cpu_context ctx{{.threads = 2}};
  const auto p = empirical_profile(ctx, h.view(), uniform_buckets{50}, 200);
  for (index_t b = 1; b < 4; ++b) {
    double sum = 0;
    int pairs = 0;
    for (std::size_t j = 0; j < 30; ++j)
      for (std::size_t i = 0; i < j; ++i) {
        if (h.tk[j] >= 50 * b) continue;
        double wins = 0, n = 0;
        for (std::size_t q = 0; q < 40; ++q) {
          if (h.tq[q] / 50 != b) continue;
          const double a = h.q[2 * q] * (h.k[2 * i] - h.k[2 * j]) + h.q[2 * q + 1] * (h.k[2 * i + 1] - h.k[2 * j + 1]);
          wins += a > 0 ? 1 : a == 0 ? 0.5 : 0;
          ++n;
        }
        sum += 4 * (wins / n) * (1 - wins / n);
        ++pairs;
      }
    EXPECT_EQ(p.buckets[b].pairs, pairs);
    EXPECT_NEAR(p.buckets[b].plasticity, sum / pairs, 1e-12);
    EXPECT_NEAR(unbiased(p).buckets[b].plasticity, sum / pairs * 10 / 9, 1e-12);
  }
}

TEST(empirical, thins_to_the_queries_asked_for) {
  const auto rows = plant<float>({.dim = 4, .context_length = 100, .documents = 3, .rows = 400});
  cpu_context ctx{{.threads = 1}};
  const auto all = empirical_profile(ctx, rows.view(), uniform_buckets{50}, 100);
  const auto few = empirical_profile(ctx, rows.view(), uniform_buckets{50}, 100, {.max_queries = 100});
  EXPECT_NE(all.buckets[1].plasticity, few.buckets[1].plasticity);
  EXPECT_NEAR(all.buckets[1].plasticity, few.buckets[1].plasticity, 0.05);
  EXPECT_EQ(few.buckets[1].plasticity,
            empirical_profile(ctx, rows.view(), uniform_buckets{50}, 100, {.max_queries = 100}).buckets[1].plasticity);
  EXPECT_GT(few.buckets[1].queries, 500);
  EXPECT_EQ(few.buckets[1].queries_used, 100);
  EXPECT_EQ(all.buckets[1].queries_used, all.buckets[1].queries);
  EXPECT_DOUBLE_EQ(unbiased(few).buckets[1].plasticity, few.buckets[1].plasticity * 100 / 99);
  EXPECT_DOUBLE_EQ(unbiased(few).buckets[1].standard_error, few.buckets[1].standard_error * 100 / 99);
}

TEST(empirical, queries_that_do_not_fit_the_layer_are_refused) {
  auto rows = plant<float>({.dim = 4, .context_length = 100, .documents = 2, .rows = 50});
  const auto wider = plant<float>({.dim = 5, .context_length = 100, .documents = 2, .rows = 50});
  cpu_context ctx{{.threads = 1}};
  observed_queries<float> gathered(uniform_buckets{50}.edges(100), 4096, 0);
  gathered.add(as_layer(rows.view()));
  const auto queries = gathered.take();
  EXPECT_EQ(empirical_profile(ctx, queries, as_layer(rows.view()), gathered.edges())[0].buckets.size(), 2u);
  EXPECT_EQ(
      test::message_of([&] { empirical_profile(ctx, queries, as_layer(rows.view()), uniform_buckets{25}.edges(100)); }),
      "empirical_profile: queries of 2 buckets for edges of 4");
  EXPECT_EQ(test::message_of([&] { empirical_profile(ctx, queries, as_layer(wider.view()), gathered.edges()); }),
            "empirical_profile: queries of 1 heads of size 4 for a layer of 1 of size 5");
  rows.q[4 * 7 + 2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(test::message_of([&] { empirical_profile(ctx, rows.view(), uniform_buckets{50}, 100); }),
            "observed queries: row 7 of q is not finite");
}

TEST(profile, a_heatmap_of_too_many_cells_is_refused) {
  cpu_context ctx{{.threads = 1}};
  auto h = with_queries();
  h.k = {1, 2, 0, 1};
  h.tk = {3, 7};
  h.ek = {0, 0};
  h.tq.back() = 131071;
  const auto model = fit_queries(ctx, accumulate(ctx, h.view(), uniform_buckets{50}, {.context_length = 131072}));
  EXPECT_QKGEOM_ERROR("heatmap_cell: cells of 1 tokens over",
                      plasticity_profile(ctx, model, h.view(), all_pairs{}, {.heatmap = true, .heatmap_cell = 1}));
}

TEST(profile, a_heatmap_has_no_more_than_256_cells_a_side) {
  EXPECT_EQ(detail::usual_cell(uniform_buckets{8192}.edges(131072)), 8192);
  EXPECT_EQ(detail::usual_cell(uniform_buckets{512}.edges(131072)), 512);
  EXPECT_EQ(detail::usual_cell(bucket_edges({0, 1, 3, 7, 131071})), 512);
}

TEST(profile, models_that_do_not_fit_the_layer_are_refused_by_name) {
  const auto rows = plant<double>({.dim = 4, .context_length = 100, .documents = 2, .rows = 50});
  auto wider = plant<double>({.dim = 5, .context_length = 100, .documents = 2, .rows = 50});
  cpu_context ctx{{.threads = 1}};
  for (auto& t : wider.q_position) t = std::max(t, 50);  // the first bucket has no model
  const auto model = fit_queries(ctx, accumulate(ctx, wider.view(), uniform_buckets{50}, {.context_length = 100}));
  ASSERT_TRUE(model.bucket[0].mean.empty());
  EXPECT_EQ(test::message_of([&] { plasticity_profile(ctx, model, rows.view()); }),
            "plasticity_profile: a query model of head size 5 for keys of size 4");
  EXPECT_EQ(test::message_of([&] { bucket_table(ctx, model, rows.view()); }),
            "bucket_table: a query model of head size 5 for keys of size 4");
  EXPECT_EQ(test::message_of([&] { bucket_table(ctx, std::vector<query_model>{}, as_layer(rows.view())); }),
            "bucket_table: 0 query models for 1 query heads");
  auto cut = model;
  cut.bucket.pop_back();
  EXPECT_EQ(test::message_of([&] { plasticity_profile(ctx, cut, wider.view()); }),
            "plasticity_profile: a query model of 1 buckets has edges of 2");
}

TEST(prefix_uniform, weights_of_an_document_sum_to_one) {
  const auto w = prefix_uniform{}.weight();
  for (const index_t m : {2, 3, 10, 57}) {
    double sum = 0;
    for (index_t j = 1; j < m; ++j)
      for (index_t i = 0; i < j; ++i) sum += w({i, j, m});
    EXPECT_NEAR(sum, 1, 1e-14);
  }
}

}  // namespace
