// SPDX-License-Identifier: MIT
// Softmax statistics against a plain softmax, and losses against transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "capture/forward/attention/attention.hpp"
#include "capture/forward/attention/attention_statistics.hpp"
#include "qkgeom/io/json.hpp"
#include "tests/capture/forward/device/host_device.hpp"
#include "tests/capture/forward/forward_fixture.hpp"
#include "tests/capture/forward/measured_softmax.hpp"

namespace qkgeom {
namespace {

/// The sums of `measure_attention`, one query and key at a time in f64.
attention_sums plain_softmax(tensor_view<const float> q, tensor_view<const float> k, const std::vector<index_t>& heads,
                             const bucket_edges& buckets, const attention_statistics_options& o) {
  const index_t b = buckets.count(), h = static_cast<index_t>(heads.size());
  attention_sums s{std::vector<double>(b), std::vector<double>(h * b * 3), std::vector<double>(h * b * o.bins),
                   std::vector<double>(h * b)};
  for (index_t t = 0; t < q.rows; ++t) s.count[buckets(t)] += 1;
  for (index_t i = 0; i < h; ++i)
    for (index_t t = 0; t < q.rows; ++t) {
      const index_t head = heads[i], cell = i * b + buckets(t);
      std::vector<double> p;
      for (index_t j = 0; j <= t; ++j) {
        double score = 0;
        for (index_t c = 0; c < q.dim; ++c)
          score +=
              static_cast<double>(q.head(head)(t, c)) * static_cast<double>(k.head(head * k.heads / q.heads)(j, c));
        score = o.cap > 0 ? o.cap * std::tanh(o.scale * score / o.cap) : o.scale * score;
        p.push_back(o.window && j <= t - *o.window ? 0 : std::exp(score));
      }
      const double sink = o.sinks.empty() ? 0 : std::exp(static_cast<double>(o.sinks[i]));
      const double sum = std::accumulate(p.begin(), p.end(), sink);
      if (sink > 0) s.entropy[cell] -= sink / sum * std::log(sink / sum);
      for (index_t j = 0; j <= t; ++j) {
        const double mass = p[j] / sum;
        index_t bin = 0;
        while ((index_t{1} << bin) <= t - j) ++bin;
        s.distance[cell * o.bins + bin] += mass;
        for (index_t f = 0; f < 3; ++f)
          if (j < first_tokens[f]) s.first[cell * 3 + f] += mass;
        if (mass > 0) s.entropy[cell] -= mass * std::log(mass);
      }
    }
  return s;
}

TEST(attention_statistics, equal_a_plain_softmax) {
  const test::noisy_document d;
  const std::vector<index_t> heads{0, 2, 5};
  const auto buckets = uniform_buckets{70}.edges(400);
  for (const int threads : {1, 3})
    for (const std::optional<index_t> window : {std::optional<index_t>(), std::optional<index_t>(37)}) {
      thread_pool pool(threads);
      for (const double cap : {0.0, 1.5}) {
        const attention_statistics_options o{.window = window, .scale = 0.3, .cap = cap, .bins = distance_bins(400)};
        const auto found = measure_attention(pool, d.queries(), d.keys(), {heads, buckets, o});
        test::expect_near(found, plain_softmax(d.queries(), d.keys(), heads, buckets, o));
      }
      // A sink below, among and above the scores.
      const attention_statistics_options o{
          .window = window, .scale = 0.3, .bins = distance_bins(400), .sinks = {-4, 0.5f, 9}};
      test::expect_near(measure_attention(pool, d.queries(), d.keys(), {heads, buckets, o}),
                        plain_softmax(d.queries(), d.keys(), heads, buckets, o));
    }
}

// Measured beside the attention, by each of its kernels, whose result keeps its bits; some heads of a group, and none
// of the second group.
TEST(attention_statistics, beside_the_attention_equal_a_plain_softmax) {
  test::noisy_document d;
  for (auto* side : {&d.q, &d.k})
    for (float& x : *side) x = device_kernels::rounded<bf16>(x);
  key_buffer k, v;
  for (key_buffer* to : {&k, &v}) {
    to->reshape(d.tokens, d.key_heads, d.dim);
    for (index_t h = 0; h < d.key_heads; ++h)
      for (index_t t = 0; t < d.tokens; ++t) std::copy_n(d.keys().head(h).row(t), d.dim, to->view().head(h).row(t));
  }
  const auto buckets = uniform_buckets{70}.edges(400);
  const std::vector<float> sinks{-4, 0, 0.5f, 0, 0, 9};
  for (const auto& heads : {std::vector<index_t>{0, 2, 5}, std::vector<index_t>{1}})
    for (const std::optional<index_t> window : {std::optional<index_t>(), std::optional<index_t>(37)})
      for (const bool with_sinks : {false, true})
        for (const bool to_bf16 : {false, true})
          for (const auto kernel :
               {attention_kernel::portable, attention_kernel::without_amx, attention_kernel::best}) {
            const double cap = with_sinks ? 1.5 : 0;
            attention_statistics_options o{.window = window, .scale = 0.3, .cap = cap, .bins = distance_bins(400)};
            for (const index_t h : heads)
              if (with_sinks) o.sinks.push_back(sinks[h]);
            const measured_heads what{heads, buckets, o};
            attention_options options{.window = window,
                                      .to_bf16 = to_bf16,
                                      .scale = 0.3,
                                      .cap = cap,
                                      .sinks = with_sinks ? sinks.data() : nullptr,
                                      .kernel = kernel};
            const auto attended = [&](int threads) {
              thread_pool pool(threads);
              auto out = d.q;
              causal_attention(pool, packed_tensor(out.data(), d.tokens, d.query_heads, d.dim), k, v, d.key_heads,
                               options);
              return out;
            };
            const auto alone = attended(2);
            auto sums = no_attention_sums(d.tokens, what), again = sums;
            const measured_softmax first{what, sums}, second{what, again};
            options.softmax = &first;
            EXPECT_EQ(attended(2), alone);
            options.softmax = &second;
            attended(1);
            EXPECT_EQ(sums.entropy, again.entropy);
            EXPECT_EQ(sums.distance, again.distance);
            test::expect_near(sums, plain_softmax(d.queries(), d.keys(), heads, buckets, o));
          }
}

// Windows narrower than a block of keys, so that some queries see none of a block; wider ones; and no window.
TEST(attention_statistics, of_a_device_equal_a_plain_softmax) {
  test::noisy_document d;
  for (auto* side : {&d.q, &d.k})
    for (float& x : *side) x = device_kernels::rounded<bf16>(x);
  thread_pool pool(2);
  test::host_device device(pool);
  const std::vector<index_t> heads{0, 1, 2, 4, 5};
  for (const auto& buckets : {uniform_buckets{70}.edges(400), bucket_edges({0, 5, 47, 500})})
    for (const std::optional<index_t> window : {std::optional<index_t>(), std::optional<index_t>(75), {5}, {1}}) {
      const attention_statistics_options o{.window = window, .scale = 0.3, .bins = distance_bins(400)};
      const auto expected = plain_softmax(d.queries(), d.keys(), heads, buckets, o);
      test::expect_near(test::measured_in_chunks<float>(device, d, {heads, buckets, o}), expected);
      test::expect_near(test::measured_in_chunks<bf16>(device, d, {heads, buckets, o}), expected);
      test::expect_near(test::measured_in_chunks<float>(device, d, {heads, buckets, o}, 1000), expected);
      auto sinks = o;
      sinks.sinks = {-4, 9, 0.5f, 1, -1};
      test::expect_near(test::measured_in_chunks<float>(device, d, {heads, buckets, sinks}),
                        plain_softmax(d.queries(), d.keys(), heads, buckets, sinks));
    }
}

// Over equal keys attention is even: its entropy is ln(t + 1), its mass on the first 64 tokens 64 / (t + 1).
TEST(attention_statistics, of_equal_keys_are_known) {
  const index_t tokens = 700, dim = 8;
  const auto q = test::noise_of(tokens * dim, 3, 1);
  const std::vector<float> k(tokens * dim);
  thread_pool pool(2);
  const auto found =
      measure_attention(pool, packed_tensor(q.data(), tokens, 1, dim), packed_tensor(k.data(), tokens, 1, dim),
                        {{0}, bucket_edges({0, 600, 700}), {.bins = distance_bins(tokens)}});
  double entropy = 0, first = 0, self = 0;
  for (int t = 600; t < 700; ++t) entropy += std::log(t + 1.0), first += 64 / (t + 1.0), self += 1 / (t + 1.0);
  EXPECT_NEAR(found.entropy[1], entropy, 1e-4);
  EXPECT_NEAR(found.first[5], first, 1e-5);
  EXPECT_NEAR(found.distance[distance_bins(tokens)], self, 1e-6);
  EXPECT_EQ(distance_bins(1), 1);
  EXPECT_EQ(distance_bins(2), 2);
  EXPECT_EQ(distance_bins(4), 3);
  EXPECT_EQ(distance_bins(5), 4);
}

TEST(losses, of_every_family_equal_transformers) {
  const json expected = read_json(std::string(QKGEOM_TEST_DATA) + "/losses.json");
  EXPECT_EQ(expected.size(), 40u);
  for (const auto& [name, values] : expected.items()) {
    const forward_fixture f = family_fixture(name);
    const auto description = f.description();
    const safetensors_file file = f.open();
    const auto ids = file.values<std::int32_t>("ids");
    const checkpoint model(f.folder);
    thread_pool pool(2);
    for (const compute_type type : {compute_type::f32, compute_type::bf16}) {
      const auto pass = cpu_forward_pass(description, model, type, 0, pool);  // the last captured layer does not matter
      pass->check_output();
      std::vector<float> found;
      int layers = 0;
      batch_sinks sinks;
      sinks.rows = [&](std::size_t, index_t, tensor_view<const float>, tensor_view<const float>) { ++layers; };
      sinks.losses = [&](std::size_t, const token_predictions& x) { found = x.loss; };
      pass->run(std::vector<token_span>{ids}, rope_stage::post, sinks);
      ASSERT_EQ(found.size(), ids.size() - 1) << name;
      EXPECT_GT(layers, 1) << name;
      const auto& f32 = values["f32"];
      const auto& bf16 = values["bf16"];
      const double mean = std::accumulate(found.begin(), found.end(), 0.0) / static_cast<double>(found.size());
      const bool exact = type == compute_type::f32;
      EXPECT_NEAR(mean, f32["mean"].get<double>(), exact ? 1e-4 : 2e-2) << name;
      for (std::size_t i = 0; i < values["positions"].size(); ++i) {
        const double x = static_cast<double>(found[values["positions"][i].get<std::size_t>()]);
        if (exact)
          EXPECT_NEAR(x, f32["at"][i].get<double>(), 1e-3) << name << ' ' << i;
        else
          EXPECT_NEAR(x, bf16["at"][i].get<double>(), 0.35) << name << ' ' << i;
      }
    }
  }
}

}  // namespace
}  // namespace qkgeom
