// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string_view>
#include <thread>
#include <type_traits>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/scalar.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace {

using namespace qkgeom;

TEST(scalar, bf16_keeps_what_it_holds_and_rounds_to_even) {
  for (std::uint32_t b = 0; b < 65536; ++b) {
    const bf16 x{static_cast<std::uint16_t>(b)};
    const float f = x;
    if (std::isnan(f))
      EXPECT_TRUE(std::isnan(static_cast<float>(bf16::round(f))));
    else
      ASSERT_EQ(bf16::round(f), x);
  }
  EXPECT_EQ(static_cast<float>(bf16::round(1.0f + 0x1p-8f)), 1.0f);                // tie to even
  EXPECT_EQ(static_cast<float>(bf16::round(1.0f + 3 * 0x1p-8f)), 1.0f + 0x1p-6f);  // tie to even, upwards
  EXPECT_TRUE(std::isinf(static_cast<float>(bf16::round(std::numeric_limits<float>::max()))));
}

TEST(scalar, f16_equals_the_compiler_s_half) {
#if defined(__FLT16_MAX__)
  const auto half = [](std::uint16_t bits) {
    _Float16 h;
    std::memcpy(&h, &bits, 2);
    return h;
  };
  for (std::uint32_t b = 0; b < 65536; ++b) {
    const auto bits = static_cast<std::uint16_t>(b);
    const float want = static_cast<float>(half(bits)), got = f16{bits};
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got));
      continue;
    }
    ASSERT_EQ(got, want);
    for (const float x : {want, std::nextafter(want, 1e9f), want * 1.0003f, want * 0.99951171875f}) {
      const _Float16 h = static_cast<_Float16>(x);
      std::uint16_t expected;
      std::memcpy(&expected, &h, 2);
      ASSERT_EQ(f16::round(x).bits, expected) << x;
    }
  }
#else
  GTEST_SKIP() << "the compiler has no half type to compare with";
#endif
}

TEST(view, spaces_do_not_convert) {
  using host = matrix_view<const float, memory_space::host>;
  using device = matrix_view<const float, memory_space::device>;
  static_assert(!std::is_convertible_v<host, device> && !std::is_convertible_v<device, host>);
  static_assert(!std::is_constructible_v<head_view<float, memory_space::device>, host>);
  static_assert(std::is_convertible_v<matrix_view<float>, matrix_view<const float>>);
  static_assert(!std::is_convertible_v<matrix_view<const float>, matrix_view<float>>);
}

TEST(buckets, uniform_and_its_last_edge) {
  const auto e = uniform_buckets{10}.edges(25);
  EXPECT_THAT(e.edges(), testing::ElementsAre(0, 10, 20, 25));
  EXPECT_EQ(e(0), 0);
  EXPECT_EQ(e(9), 0);
  EXPECT_EQ(e(10), 1);
  EXPECT_EQ(e(24), 2);
  EXPECT_EQ(e(25), -1);
  EXPECT_EQ(e(-1), -1);
  EXPECT_DOUBLE_EQ(e.middle(2), 22.5);
  EXPECT_EQ(uniform_buckets{10}.edges(0).count(), 0);
}

TEST(buckets, log2_follows_the_formula) {
  for (const index_t minimum : {1, 4, 16}) {
    const auto e = log2_buckets{minimum}.edges(1000);
    const auto label = [&](index_t t) {
      return std::max(std::floor(std::log2(static_cast<double>(t + 1))), std::log2(static_cast<double>(minimum)));
    };
    for (index_t t = 0; t < 1000; ++t) ASSERT_EQ(static_cast<double>(e(t)), label(t) - label(0)) << t;
  }
}

TEST(buckets, uneven_edges_find_every_position) {
  const bucket_edges e({3, 4, 9, 100});
  for (index_t t = 0; t < 120; ++t) {
    index_t want = -1;
    for (index_t b = 0; b < e.count(); ++b)
      if (t >= e.start(b) && t < e.end(b)) want = b;
    ASSERT_EQ(e(t), want) << t;
  }
}

TEST(buckets, bad_input_is_named) {
  EXPECT_THROW(uniform_buckets{0}.edges(5), error);
  EXPECT_THROW(bucket_edges({3, 3}), error);
  EXPECT_THROW(bucket_edges({3}), error);
  EXPECT_THROW(log2_buckets{0}.edges(5), error);
}

TEST(thread_pool, does_every_task_once_and_rethrows) {
  for (const int threads : {1, 2, 5}) {
    thread_pool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int round = 0; round < 50; ++round) {
      std::vector<std::atomic<int>> done(97);
      pool.for_each(97, [&](index_t i, int thread) {
        ASSERT_LT(thread, threads);
        pool.for_each(3, [&](index_t, int inner) { EXPECT_EQ(inner, thread); });
        ++done[i];
      });
      for (const auto& d : done) ASSERT_EQ(d, 1);
    }
    EXPECT_THROW(pool.for_each(20, [](index_t i, int) { require(i != 7, "seven"); }), error);
    std::atomic<int> after{0};
    pool.for_each(4, [&](index_t, int) { ++after; });
    EXPECT_EQ(after, 4);
  }
}

TEST(thread_pool, a_smaller_pool_within_gives_its_own_thread_numbers) {
  for (const int threads : {1, 2}) {
    thread_pool outer(4), inner(threads);
    std::vector<std::atomic<int>> busy(threads);
    std::atomic<int> calls{0}, shared{0};
    outer.for_each(64, [&](index_t, int thread) {
      inner.for_each(5, [&](index_t, int within) {
        ASSERT_LT(within, threads);
        auto& mine = busy[within];
        shared += mine++ > 0;
        outer.for_each(2, [&](index_t, int again) { EXPECT_EQ(again, thread); });
        inner.for_each(2, [&](index_t, int again) { EXPECT_EQ(again, within); });
        std::this_thread::yield();
        --mine;
        ++calls;
      });
    });
    EXPECT_EQ(calls, 64 * 5);
    EXPECT_EQ(shared, 0);  // a number is one thread's at a time
    EXPECT_THROW(outer.for_each(8, [&](index_t, int) { inner.for_each(2, [](index_t, int) { fail("inner"); }); }),
                 error);
    inner.for_each(3, [&](index_t, int within) { EXPECT_LT(within, threads); });
  }
}

TEST(thread_pool, threads_that_the_system_does_not_start_are_an_error) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer maps more than any limit of addresses allows";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // a pool that does not end kills the child
    std::ifstream pages("/proc/self/statm");
    rlim_t used = 0;
    pages >> used;
    const rlim_t most = used * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{64} << 20);
    const rlimit limit{most, most};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(1);
    try {
      thread_pool pool(200);
    } catch (const error& e) {
      ::_exit(std::string_view(e.what()).find("of 200 threads no more than") != std::string_view::npos ? 0 : 2);
    }
    ::_exit(3);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(layer_view, wrong_shapes_are_named) {
  std::vector<float> x(24);
  std::vector<std::int32_t> t(3);
  const vector_view<const std::int32_t> rows{t.data(), 3}, fewer{t.data(), 2};
  const matrix_view<const float> m{x.data(), 3, 4, 4}, wider{x.data(), 3, 5, 5};
  const auto message = [](const head_view<float>& h) {
    try {
      check_shapes(as_layer(h));
    } catch (const error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(message({m, rows, rows, m, rows, rows}), "nothing");
  EXPECT_THAT(message({m, fewer, rows, m, rows, rows}), testing::HasSubstr("q_position has 2 entries for 3 rows"));
  EXPECT_THAT(message({m, rows, rows, m, rows, fewer}), testing::HasSubstr("k_example"));
  EXPECT_THAT(message({m, rows, rows, wider, rows, rows}), testing::HasSubstr("same head size"));
  EXPECT_THAT(message({m, rows, rows, m, rows, rows, 0}), testing::HasSubstr("window"));
  const matrix_view<const float> without_stride{x.data(), 3, 4}, upwards{x.data() + 8, 3, 4, -4}, one{x.data(), 1, 4};
  EXPECT_THAT(message({without_stride, rows, rows, m, rows, rows}),
              testing::HasSubstr("q: rows of 4 elements cannot begin 0 apart (row_stride)"));
  EXPECT_THAT(message({m, rows, rows, without_stride, rows, rows}), testing::HasSubstr("k: rows"));
  EXPECT_EQ(message({upwards, rows, rows, m, rows, rows}), "nothing");
  EXPECT_EQ(message({m, rows, rows, one, {t.data(), 1}, {t.data(), 1}}), "nothing");
}

}  // namespace
