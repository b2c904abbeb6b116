// SPDX-License-Identifier: MIT
// Tile programs by threads that run far ahead of one another, with copies that come early or late: results have the
// bits of threads in step. A missing barrier or wait shows here.
#include <bit>
#include <deque>

#include "tests/backend/compared_contexts.hpp"
#include "tests/backend/host_launcher.hpp"
#include "tests/common/fibre_block.hpp"

namespace {

using namespace qkgeom;
using test::fibre_block;
using test::host_team;
using test::thread_order;

/// When an asynchronous copy is done: at once, or when its thread waits for it.
enum class copy_time { early, late };

struct thread_schedule {
  thread_order order;
  copy_time copies;
};

/// The team of a program as one thread of a block sees it; see `device_team`.
class fibre_team {
 public:
  template <class T>
  struct per_thread {
    T value;
    T& operator[](int) { return value; }
    const T& operator[](int) const { return value; }
  };

  fibre_team(fibre_block& block, int thread, copy_time copies)
      : block_(&block), thread_(thread), lane_(thread % fibre_block::warp), copies_(copies) {}

  template <class F>
  void each(const F& f) const {
    f(thread_);
  }
  void barrier() const { block_->wait_for_block(); }
  template <class F>
  void each_then_wait(const F& f) const {
    each(f);
    barrier();
  }

  template <int Bytes>
  void copy(void* to, const void* from, bool there) const {
    test::expect_aligned(to, Bytes), test::expect_aligned(from, Bytes);
    const pending made{to, there ? from : nullptr, Bytes};
    if (copies_ == copy_time::early)
      made();
    else
      open_.push_back(made);
  }
  void commit() const { batches_.push_back(std::exchange(open_, {})); }
  template <int Pending>
  void wait() const {
    for (; batches_.size() > Pending; batches_.pop_front())
      for (const pending& p : batches_.front()) p();
  }

  template <class Row>
  void load_matrices(per_thread<tile::fragment>& x, const Row& row) const {
    const bf16* const mine = row(thread_);
    test::expect_aligned(mine, 16);
    const auto rows = block_->exchange(mine);
    for (int m = 0; m < 4; ++m)
      std::memcpy(&x.value.word[m], rows[8 * m + lane_ / 4] + lane_ % 4 * 2, sizeof(std::uint32_t));
  }
  void multiply(per_thread<tile::products>& g, int m, int n, const per_thread<tile::fragment>& a,
                const per_thread<tile::fragment>& b, int half) const {
    struct operands {
      tile::fragment a;
      std::uint32_t b[2];
    };
    const auto given = block_->exchange(operands{a.value, {b.value.word[2 * half], b.value.word[2 * half + 1]}});
    const auto value = [](std::uint32_t word, int k) {
      return static_cast<float>(bf16{static_cast<std::uint16_t>(k % 2 == 0 ? word : word >> 16)});
    };
    for (int term = 0; term < 4; ++term) {
      const int row = lane_ / 4, row_half = term / 2, column = lane_ % 4 * 2 + term % 2;
      float sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += value(given[row * 4 + k % 8 / 2].a.word[row_half + k / 8 * 2], k) *
               value(given[column * 4 + k % 8 / 2].b[k / 8], k);
      g.value.value[m][n][term] += sum;
    }
  }

  template <class Part>
  void replace_doubtful(per_thread<tile::doubtful_row>& x, const Part& part) const {
    const auto doubtful = block_->exchange(x.value.doubtful);
    for (int owner = 0; owner < fibre_block::warp; ++owner)
      for (int i = 0; i < tile::doubtful_row::size; ++i) {
        if ((doubtful[owner] >> i & 1) == 0) continue;
        per_thread<float> sum{part(thread_ - lane_ + owner, i, lane_)};
        sum_lanes<fibre_block::warp>(sum);
        if (lane_ == owner) x.value.value[i] = sum.value;
      }
  }

  template <class Add>
  void join_lanes(per_thread<tile::joined>& of, const Add& add) const {
    each([&](int t) {
      if (of[t].place >= 0) add(of[t]);
    });
  }

  template <int Width, class T>
  void sum_lanes(per_thread<T>& x) const {
    for (int step = Width / 2; step > 0; step /= 2) x.value += block_->exchange(x.value)[lane_ ^ step];
  }

 private:
  struct pending {
    void* to;
    const void* from;  ///< null: zeros
    int bytes;
    void operator()() const {
      if (from)
        std::memcpy(to, from, static_cast<std::size_t>(bytes));
      else
        std::memset(to, 0, static_cast<std::size_t>(bytes));
    }
  };

  fibre_block* block_;
  int thread_, lane_;
  copy_time copies_;
  mutable std::vector<pending> open_;
  mutable std::deque<std::vector<pending>> batches_;
};

/// A host_launcher whose programs run by threads under a schedule.
class fibre_launcher : public test::host_launcher {
 public:
  explicit fibre_launcher(const thread_schedule& schedule)
      : schedule_(schedule), block_(std::make_unique<fibre_block>(host_team::threads)) {}

  template <class Program>
  void launch(const Program& program, index_t blocks) const {
    for (index_t b = 0; b < blocks; ++b)
      test::with_shared_memory(program, [&](unsigned char* shared) {
        block_->run(schedule_.order, [&](int t) { program(fibre_team(*block_, t, schedule_.copies), b, shared); });
      });
  }

 private:
  thread_schedule schedule_;
  std::unique_ptr<fibre_block> block_;
};

constexpr thread_schedule schedules[] = {{thread_order::first_comes_first, copy_time::early},
                                         {thread_order::last_comes_first, copy_time::early},
                                         {thread_order::first_comes_first, copy_time::late},
                                         {thread_order::last_comes_first, copy_time::late}};
constexpr uniform_buckets buckets{500};

/// For small groups that share tiles and a group of three tiles; keys have three stages of columns.
template <class F>
void expect_same_under_every_schedule(const F& profile_of, bool split = true) {
  constexpr std::size_t scratch = std::size_t{1} << 30;
  cpu_context cpu{{.threads = 2}};
  for (const auto& [documents, rows] : {std::pair<index_t, index_t>{3, 40}, {1, 400}}) {
    const auto planted = plant<bf16>(test::compared_head(72, documents, rows, 2));
    const auto head = planted.view();
    const auto moments = accumulate(cpu, head, buckets, {.context_length = 1000});
    const auto model = fit_queries(cpu, moments, {.covariance = covariance_kind::joint});
    test::tile_context in_step(scratch, split);
    const auto want = profile_of(in_step, model, head);
    EXPECT_GT(want.buckets.back().pairs, 100);
    for (const auto& schedule : schedules) {
      test::tile_context_on<fibre_launcher> threads(scratch, split, schedule);
      SCOPED_TRACE(testing::Message() << rows << ' ' << static_cast<int>(schedule.order)
                                      << static_cast<int>(schedule.copies));
      test::expect_same(profile_of(threads, model, head), want);
    }
  }
}

/// The same for the profile over these pairs.
template <class Pairs>
void expect_same_profile(const Pairs& pairs, const profile_options& options, bool split = true) {
  expect_same_under_every_schedule(
      [&](auto& ctx, const query_model& model, const head_view<bf16>& head) {
        return plasticity_profile(ctx, model, head, pairs, options);
      },
      split);
}

TEST(thread_order, tiles_of_pairs_do_not_depend_on_it) {
  expect_same_profile(all_pairs{}, {});
  expect_same_profile(all_pairs{}, {.heatmap = true});
}

TEST(thread_order, tiles_of_fast_products_do_not_depend_on_it) {
  expect_same_profile(all_pairs{}, {.heatmap = true}, false);
}

TEST(thread_order, tiles_of_weights_do_not_depend_on_it) {
  expect_same_profile(prefix_uniform{}, {.heatmap = true});
  expect_same_profile(device_weighted_pairs{test::odd_weight{}}, {.heatmap = true});
}

TEST(thread_order, tiles_of_terms_do_not_depend_on_it) {
  expect_same_profile(all_pairs{}, {.terms = true});
  expect_same_profile(all_pairs{}, {.heatmap = true, .terms = true});
}

TEST(thread_order, tiles_of_observed_queries_do_not_depend_on_it) {
  expect_same_under_every_schedule([](auto& ctx, const query_model&, const head_view<bf16>& head) {
    return empirical_profile(ctx, head, buckets, 1000);
  });
}

// Sums show neither, but for their rounding.
TEST(thread_order, scales_and_largest_weights_do_not_depend_on_it) {
  constexpr index_t n = 200, width = 3;
  const random_stream draws{.seed = 3};
  std::vector<double> z(2 * n * width);
  for (std::size_t i = 0; i < z.size(); ++i) z[i] = (i < z.size() / 2 ? 1e-3 : 1e4) * draws.uniform(i);
  // Keys along u, which the reflection turns round; two query buckets, the second scales keys by 1e7.
  const std::vector<double> u(2 * width, 1 / std::sqrt(3.0)), factor{1, 1, 1, 1e7, 1e7, 1e7};
  const std::vector<index_t> head{0, 0};
  std::vector<double> y(n * width);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = 1e-3 * draws.uniform(i / width);
  struct by_rank {
    double operator()(const key_pair& p) const { return static_cast<double>(p.i * 1000 + p.j); }
  };
  using weight = backend::given_weight<by_rank>;
  const tile::tile_plan plan({{0, n, 0}});
  const thrust_kernels::tile_batch batch(n, {&plan});
  const std::vector<std::int32_t> key(n);
  const index_t problem = 0;
  const double tau = 500;
  for (const auto& schedule : schedules) {
    const fibre_launcher launcher(schedule);
    double scale[2] = {};
    launcher.launch(tile::scale_program<tile::stored_keys>{{z.data(), n, width}, n, scale}, 2);
    EXPECT_EQ(scale[0], 1024);
    EXPECT_EQ(scale[1], std::ldexp(1.0, -13));
    launcher.launch(
        tile::scale_program<tile::scaled_keys>{{{y.data(), head.data(), n, width}, u.data(), factor.data()}, n, scale},
        2);
    EXPECT_EQ(scale[0], 1024);
    EXPECT_EQ(scale[1], std::ldexp(1.0, -13));
    unsigned long long most = 0;
    batch.each_tile(launcher, [&](const tile::tile_list& list) {
      return tile::largest_weight<weight>{list, {key.data(), key.data()}, &tau, &problem, {}, &most};
    });
    EXPECT_EQ(std::bit_cast<double>(most), static_cast<double>((n - 2) * 1000 + n - 1));
  }
}

/// Threads of a block hand a number to their neighbour, with both barriers that this needs or without one.
std::vector<int> handed_on(thread_order order, bool first_barrier, bool second_barrier) {
  fibre_block block(64);
  std::vector<int> given(64, -1), got(64, 0);
  block.run(order, [&](int t) {
    for (int round = 0; round < 2; ++round) {
      given[t] = 100 * round + t;
      if (first_barrier) block.wait_for_block();
      got[t] += given[(t + 1) % 64];
      if (second_barrier) block.wait_for_block();
    }
  });
  return got;
}

TEST(thread_order, shows_a_barrier_that_is_missing) {
  using enum thread_order;
  const auto right = handed_on(first_comes_first, true, true);
  EXPECT_EQ(right[5], 112);
  EXPECT_EQ(handed_on(last_comes_first, true, true), right);
  EXPECT_NE(handed_on(first_comes_first, false, true), right);
  EXPECT_NE(handed_on(last_comes_first, true, false), handed_on(first_comes_first, true, false));
}

TEST(thread_order, a_barrier_that_some_never_reach_is_an_error) {
  fibre_block block(64);
  EXPECT_THROW(block.run(thread_order::first_comes_first,
                         [&](int t) {
                           if (t != 7) block.wait_for_block();
                         }),
               error);
}

}  // namespace
