// SPDX-License-Identifier: MIT
// The kernels of the forward pass by blocks of threads that run far ahead of one another, as they do on a device: a
// barrier that is missing shows.
#include "capture/forward/device/forward_pass.hpp"
#include "capture/job/stores/moment_store.hpp"
#include "tests/capture/forward/compared_passes.hpp"
#include "tests/capture/forward/device/host_device.hpp"
#include "tests/capture/forward/measured_softmax.hpp"
#include "tests/common/fibre_block.hpp"

namespace qkgeom {
namespace {

using test::fibre_block;
using test::thread_order;

/// One thread of a block of two warps.
struct fibre_thread {
  static constexpr int count = 2 * fibre_block::warp;
  fibre_block* block;
  int mine;

  int number() const { return mine; }
  void wait() const { block->wait_for_block(); }
  float across(float x, int step) const { return block->exchange(x)[mine % fibre_block::warp ^ step]; }
};

class fibre_device : public test::host_device {
 public:
  fibre_device(thread_pool& pool, thread_order order) : test::host_device(pool), order_(order) {}

  template <class Kernel>
  void rows(index_t n, const Kernel& kernel) {
    using team = device_kernels::block_team<fibre_thread>;
    pool().for_each(n, [&](index_t i, int) {
      thread_local fibre_block block(team::threads);
      constexpr float unset = std::numeric_limits<float>::quiet_NaN();
      float partial[team::threads / team::warp] = {unset, unset};
      block.run(order_, [&](int t) { kernel(team({&block, t}, partial), i); });
    });
  }

 private:
  thread_order order_;
};

constexpr thread_order orders[] = {thread_order::first_comes_first, thread_order::last_comes_first};

forward_pass_factory pass(thread_order order) {
  return test::pass_on<fibre_device>({.chunk = 9, .attention_rows = 5, .attention_keys = 8}, order);
}

constexpr std::size_t two_chunks = 12;

std::vector<std::string> families() {
  auto names = test::varied_families;
  names.push_back("olmo2");          // norms queries and keys of all heads at once
  names.push_back("hunyuan-dense");  // norms them after the rotation
  names.push_back("glm4-moe");       // chooses experts by sigmoids
  names.push_back("granite");        // scales what layers add
  names.push_back("cohere2");        // norms about the mean
  names.push_back("gemma4-text");    // norms values, and has two sizes of heads
  return names;
}

TEST(block_team, gives_what_the_cpu_gives_in_any_order_of_its_threads) {
  for (const auto order : orders) {
    for (const auto& name : families())
      test::expect_sinks_as_on_the_cpu(name, rope_stage::post, pass(order), two_chunks);
    test::expect_changed_heads_as_on_the_cpu("qwen3-moe", pass(order), two_chunks);
    test::expect_sinks_as_on_the_cpu("ministral3", rope_stage::post, pass(order), 66);  // queries grow from 64 on
    for (const char* name : {"deepseek-v3.2", "glm-5"})  // see more keys than are chosen; not each layer has an indexer
      test::expect_sinks_as_on_the_cpu(name, rope_stage::post, pass(order), 52);
  }
}

// Head 0 sees keys of a cache, head 1 the keys as they are; threads share rows and blocks.
TEST(block_team, rounds_keys_as_a_cache_does) {
  constexpr index_t rows = 5, dim = 192;
  auto keys = test::noise_of(rows * dim, 4, 7);
  const auto values = test::noise_of(rows * dim, 4, 8);
  std::vector<float> rounded(keys.size());
  thread_pool pool(2);
  for (const auto& [type, order] : {std::pair{cache_type::q4_0, thread_order::first_comes_first},
                                    {cache_type::q4_0, thread_order::last_comes_first},
                                    {cache_type::q4_0_rotated, thread_order::first_comes_first}}) {
    for (index_t i = 0; i < rows * dim; i += dim) round_as_cached(type, &keys[i], dim, &rounded[i]);
    const std::vector<std::int32_t> slope_of{-1, -1}, cached_as{static_cast<std::int32_t>(type), -1};
    fibre_device device(pool, order);
    std::vector<float> own_keys(2 * keys.size()), own_values(own_keys.size());
    device.rows(rows, device_kernels::change_keys<float>{{nullptr, keys.data(), 0, 2, 1, dim, dim, rows * dim},
                                                         values.data(),
                                                         own_keys.data(),
                                                         own_values.data(),
                                                         slope_of.data(),
                                                         nullptr,
                                                         nullptr,
                                                         cached_as.data()});
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(own_keys[i], rounded[i]) << i;
      ASSERT_EQ(own_keys[keys.size() + i], keys[i]) << i;
      ASSERT_EQ(own_values[i], values[i]) << i;
      ASSERT_EQ(own_values[keys.size() + i], values[i]) << i;
    }
  }
}

TEST(block_team, bits_do_not_depend_on_the_order_of_its_threads) {
  for (const auto& name : families())
    test::expect_same_bits(name, pass(thread_order::first_comes_first), {pass(thread_order::last_comes_first)},
                           two_chunks);
}

// More experts than threads; equal logits, and some that are no numbers.
TEST(block_team, chooses_the_experts_of_the_largest_logits) {
  constexpr index_t rows = 5, experts = 70, chosen = 4;
  const auto noise = test::noise_of(rows * experts, 4, 3);
  std::vector<float> logits;
  for (const float x : noise) logits.push_back(std::round(4 * x) / 4);
  for (index_t i = 0; i < experts; ++i) logits[3 * experts + i] = 2;
  for (index_t i = 0; i < 68; ++i) logits[4 * experts + i] = std::numeric_limits<float>::quiet_NaN();
  thread_pool pool(2);
  for (const auto order : orders)
    for (const bool normalised : {false, true}) {
      fibre_device device(pool, order);
      std::vector<std::int32_t> expert(rows * chosen, -1);
      std::vector<float> share(rows * chosen, -1);
      device.rows(rows, device_kernels::choose_experts<float>{logits.data(), experts, chosen, normalised, expert.data(),
                                                              share.data()});
      for (index_t r = 0; r < rows; ++r) {
        std::vector<std::pair<double, std::int32_t>> sorted;
        for (std::int32_t i = 0; i < experts; ++i) {
          const double x = static_cast<double>(logits[r * experts + i]);
          sorted.emplace_back(std::isnan(x) ? -HUGE_VAL : x, i);
        }
        std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
          return a.first > b.first || (a.first == b.first && a.second < b.second);
        });
        double sum = 0;
        for (index_t i = 0; i < (normalised ? chosen : experts); ++i) sum += std::exp(sorted[i].first);
        for (index_t i = 0; i < chosen; ++i) {
          const auto& [logit, number] = sorted[i];
          const auto at = static_cast<std::size_t>(r * chosen + i);
          EXPECT_EQ(expert[at], number) << r << ' ' << i;
          EXPECT_NEAR(static_cast<double>(share[at]), std::exp(logit) / sum, 1e-6) << r << ' ' << i;
        }
      }
      const choices_by_expert by_expert(expert, experts, chosen);
      for (std::size_t e = 0; e < static_cast<std::size_t>(experts); ++e)
        for (index_t i = by_expert.begin[e]; i < by_expert.begin[e + 1]; ++i) {
          const auto at = static_cast<std::size_t>(i);
          EXPECT_EQ(expert[by_expert.choice[at]], static_cast<std::int32_t>(e));
          EXPECT_TRUE(i == by_expert.begin[e] || by_expert.choice[at - 1] < by_expert.choice[at]);
        }
      EXPECT_EQ(by_expert.begin.back(), rows * chosen);
    }
}

// Equal scores, some below zero, and rows that see fewer keys than are chosen.
TEST(block_team, chooses_the_keys_of_the_largest_scores) {
  constexpr index_t rows = 40, first = 55, keys = first + rows;
  std::vector<float> scores;
  for (const float x : test::noise_of(rows * keys, 4, 5)) scores.push_back(std::round(4 * x) / 4);
  thread_pool pool(2);
  for (const auto order : orders)
    for (const index_t width : {index_t{1}, index_t{9}, index_t{70}}) {
      fibre_device device(pool, order);
      std::vector<std::int32_t> chosen(rows * width, -1);
      device.rows(rows, device_kernels::choose_keys{scores.data(), keys, first, width, chosen.data()});
      for (index_t r = 0; r < rows; ++r) {
        std::vector<std::int32_t> best(first + r + 1),
            found(chosen.begin() + r * width, chosen.begin() + (r + 1) * width);
        std::iota(best.begin(), best.end(), 0);
        std::stable_sort(best.begin(), best.end(),
                         [&](auto a, auto b) { return scores[r * keys + a] > scores[r * keys + b]; });
        if (static_cast<index_t>(best.size()) > width) best.resize(width);
        std::sort(best.begin(), best.end());
        best.resize(width, -1);
        EXPECT_EQ(found, best) << r << ' ' << width;
      }
    }
}

TEST(block_team, measures_a_plain_softmax_in_the_same_bits) {
  const test::noisy_document d{.tokens = 90};
  thread_pool pool(2);
  for (const std::optional<index_t> window : {std::optional<index_t>(), std::optional<index_t>(10)})
    for (const auto& sinks : {std::vector<float>{}, {-4, 0.5f, 9}}) {
      const softmax_request what{.heads = {0, 2, 5},
                                 .positions = {0, 5, 30, 31, 69, 70, 80, 88, 89},
                                 .window = window,
                                 .scale = 0.3,
                                 .bins = distance_bins(d.tokens),
                                 .sinks = sinks};
      const auto on = [&](thread_order order) {
        fibre_device device(pool, order);
        return test::measured_in_chunks<float>(device, d, what);
      };
      const auto one = on(thread_order::first_comes_first);
      EXPECT_EQ(one, on(thread_order::last_comes_first));
      test::expect_near(one, test::plain_softmax(d.queries(), d.keys(), what));
    }
}

}  // namespace
}  // namespace qkgeom
