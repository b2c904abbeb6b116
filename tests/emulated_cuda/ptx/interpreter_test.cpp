// SPDX-License-Identifier: MIT
// Small kernels of PTX: what they compute, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "qkgeom/core/scalar.hpp"
#include "tests/common/refusal.hpp"
#include "tests/emulated_cuda/ptx/interpreter.hpp"

namespace {

using namespace qkgeom;
using testing::AllOf;
using testing::HasSubstr;

/// A kernel of one pointer to words, which is in %p; threads have their number in %t, four times it in %at.
struct small_kernel {
  std::string text;
  explicit small_kernel(const std::string& body, const std::string& declared = "")
      : text(R"(
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(
  .param .u64 k_param_0
)
.maxntid 256, 1, 1
{
)" + declared +
             R"(
  ld.param.u64 %given, [k_param_0];
  cvta.to.global.u64 %p, %given;
  mov.u32 %t, %tid.x;
  mul.wide.u32 %at, %t, 4;
  add.s64 %mine, %p, %at;
  cvt.u32.u64 %s, %at;
)" + body + R"(
  ret;
}
)") {}

  /// Runs blocks of `threads` threads; these words are all of the global memory.
  void operator()(std::vector<std::uint32_t>& words, int threads = 32, index_t blocks = 1) const {
    const auto found = ptx::find_kernels(text);
    const ptx::kernel k = ptx::read_kernel(found.at(0));
    const void* const p = words.data();
    const auto* const begin = reinterpret_cast<const char*>(words.data());
    const auto* const end = begin + words.size() * sizeof(std::uint32_t);
    ptx::run(k, {.blocks = blocks, .threads = threads, .dynamic_shared_bytes = 4096, .parameters = &p},
             [&](const void* a) {
               const auto* const c = static_cast<const char*>(a);
               return c >= begin && c < end ? ptx::allocation{begin, end} : ptx::allocation{};
             });
  }
  std::string refusal(std::vector<std::uint32_t> words, int threads = 32, index_t blocks = 1) const {
    return test::message_of([&] { (*this)(words, threads, blocks); });
  }
};

std::vector<std::uint32_t> counted(std::size_t n) {
  std::vector<std::uint32_t> x(n);
  std::iota(x.begin(), x.end(), 1u);
  return x;
}

TEST(ptx, lanes_add_up_what_they_hold) {
  const small_kernel sum(R"(
  ld.global.u32 %x, [%mine];
  shfl.sync.bfly.b32 %y|%had, %x, 16, 31, -1;
  add.s32 %x, %x, %y;
  shfl.sync.bfly.b32 %y|%had, %x, 8, 31, -1;
  add.s32 %x, %x, %y;
  shfl.sync.bfly.b32 %y|%had, %x, 4, 31, -1;
  add.s32 %x, %x, %y;
  shfl.sync.bfly.b32 %y|%had, %x, 2, 31, -1;
  add.s32 %x, %x, %y;
  shfl.sync.bfly.b32 %y|%had, %x, 1, 31, -1;
  add.s32 %x, %x, %y;
  st.global.u32 [%mine], %x;)");
  auto words = counted(64);
  sum(words, 64);
  EXPECT_EQ(words[0], 32u * 33 / 2);
  EXPECT_EQ(words[63], 64u * 65 / 2 - 32u * 33 / 2);
}

TEST(ptx, lanes_take_from_one_and_vote) {
  const small_kernel kernel(R"(
  ld.global.u32 %x, [%mine];
  shfl.sync.idx.b32 %y|%had, %x, 5, 31, -1;
  setp.ge.u32 %large, %x, %y;
  vote.sync.all.pred %all, %large, -1;
  selp.u32 %z, 1000, %y, %all;
  st.global.u32 [%mine], %z;)");
  auto words = counted(64);
  for (std::size_t i = 0; i < 32; ++i) words[i] = 40 - static_cast<std::uint32_t>(i);  // lane 5 has not the least
  for (std::size_t i = 32; i < 64; ++i) words[i] = 7;
  kernel(words, 64);
  EXPECT_EQ(words[31], 35u);
  EXPECT_EQ(words[32], 1000u);
}

TEST(ptx, lanes_tell_each_other_where_a_predicate_holds) {
  const small_kernel kernel(R"(
  ld.global.u32 %x, [%mine];
  setp.gt.u32 %large, %x, 30;
  vote.sync.ballot.b32 %z, %large, -1;
  st.global.u32 [%mine], %z;)");
  auto words = counted(64);
  kernel(words, 64);
  EXPECT_EQ(words[0], 3u << 30);
  EXPECT_EQ(words[40], 0xffffffffu);
}

TEST(ptx, the_low_byte_of_a_register_is_a_number) {
  const small_kernel low(R"(
  ld.global.u32 %x, [%mine];
  cvt.s32.s8 %y, %x;
  cvt.u32.u8 %z, %x;
  add.s32 %y, %y, %z;
  st.global.u32 [%mine], %y;)");
  auto words = counted(32);
  words[3] = 0x1fe;  // -2 and 254
  low(words);
  EXPECT_EQ(words[3], 252u);
  EXPECT_EQ(words[4], 10u);
}

TEST(ptx, a_float_becomes_the_nearest_bf16) {
  const small_kernel round(R"(
  .reg .b16 %half;
  ld.global.f32 %x, [%mine];
  cvt.rn.bf16.f32 %half, %x;
  cvt.u32.u16 %y, %half;
  st.global.u32 [%mine], %y;)");
  std::vector<std::uint32_t> words(32);
  words[0] = 0x3f808000, words[1] = 0x3f818000, words[2] = 0xbf808001, words[3] = 0x7fc00000, words[4] = 0x7f7fffff;
  round(words);
  EXPECT_THAT(std::vector(words.begin(), words.begin() + 5),
              testing::ElementsAre(0x3f80u, 0x3f82u, 0xbf81u, 0x7fffu, 0x7f80u));
}

TEST(ptx, threads_that_part_meet_again) {
  // x = sum of 0 ... thread, by a loop that each thread leaves at another time, then a shuffle for all of them.
  const small_kernel loop(R"(
  mov.u32 %x, 0;
  mov.u32 %n, 0;
$L__next:
  setp.gt.u32 %done, %n, %t;
  @%done bra $L__out;
  add.s32 %x, %x, %n;
  add.s32 %n, %n, 1;
  bra.uni $L__next;
$L__out:
  shfl.sync.bfly.b32 %y|%had, %x, 1, 31, -1;
  st.global.u32 [%mine], %y;)");
  auto words = counted(32);
  loop(words);
  for (std::uint32_t t = 0; t < 32; ++t) EXPECT_EQ(words[t], (t ^ 1) * ((t ^ 1) + 1) / 2);
}

TEST(ptx, barriers_put_accesses_in_order_and_without_one_they_race) {
  const auto reversed = [](const std::string& between) {
    return small_kernel(R"(
  ld.global.u32 %x, [%mine];
  st.shared.u32 [%s], %x;
  )" + between + R"(
  mov.u32 %last, 252;
  sub.s32 %from, %last, %s;
  ld.shared.u32 %y, [%from];
  st.global.u32 [%mine], %y;)");
  };
  auto words = counted(64);
  reversed("bar.sync 0;")(words, 64);
  for (std::uint32_t t = 0; t < 64; ++t) EXPECT_EQ(words[t], 64 - t);
  // The first warp reads what the second has yet to write.
  EXPECT_THAT(reversed("").refusal(counted(64), 64),
              AllOf(HasSubstr("st.shared.u32"), HasSubstr("reads there, with no barrier between")));
}

TEST(ptx, blocks_that_write_the_same_word_race_unless_they_do_it_atomically) {
  const small_kernel stores(R"(
  mov.u32 %b, %ctaid.x;
  st.global.u32 [%p], %b;)");
  EXPECT_THAT(stores.refusal(counted(1), 1, 2), HasSubstr("of block 0 writes there too"));
  const small_kernel adds(R"(
  mov.u32 %b, %ctaid.x;
  atom.global.add.u32 %old, [%p], %b;)");
  auto words = counted(1);
  adds(words, 32, 4);
  EXPECT_EQ(words[0], 1u + 32 * (0 + 1 + 2 + 3));
}

TEST(ptx, a_barrier_that_some_threads_miss_is_refused) {
  EXPECT_THAT(small_kernel(R"(
  setp.lt.u32 %few, %t, 7;
  @%few bra $L__end;
  bar.sync 0;
$L__end:)")
                  .refusal(counted(32)),
              HasSubstr("missed by others of its warp"));
  EXPECT_THAT(small_kernel(R"(
  setp.lt.u32 %few, %t, 32;
  @%few bra $L__end;
  bar.sync 0;
$L__end:)")
                  .refusal(counted(64), 64),
              HasSubstr("others have ended"));
}

TEST(ptx, addresses_beyond_an_allocation_and_misaligned_ones_are_refused) {
  EXPECT_THAT(small_kernel("  ld.global.u32 %x, [%mine+4];").refusal(counted(32)),
              AllOf(HasSubstr("thread 31"), HasSubstr("no allocation holds 4 bytes")));
  EXPECT_THAT(small_kernel("  ld.global.v2.u32 {%x, %y}, [%mine];").refusal(counted(64)),
              AllOf(HasSubstr("thread 1"), HasSubstr("no multiple of 8")));
  EXPECT_THAT(small_kernel("  st.shared.u32 [%s+4092], %t;").refusal(counted(32)),
              AllOf(HasSubstr("thread 1"), HasSubstr("beyond 4096")));
  EXPECT_THAT(small_kernel("  st.local.u32 [depot+8], %t;", "  .local .align 4 .b8 depot[8];").refusal(counted(32)),
              HasSubstr("beyond 8"));
}

TEST(ptx, asynchronous_copies_come_when_somebody_waits) {
  const auto copies = [](const std::string& wait) {
    return small_kernel(R"(
  mov.u32 %given, 4;
  cp.async.ca.shared.global [%s], [%mine], 4, %given;
  cp.async.commit_group;
  cp.async.ca.shared.global [%s+128], [%mine], 4, 0;
  cp.async.commit_group;
  )" + wait + R"(
  ld.shared.u32 %x, [%s];
  add.s32 %x, %x, 1;
  st.global.u32 [%mine], %x;)");
  };
  auto words = counted(32);
  copies("cp.async.wait_group 1;")(words);
  EXPECT_EQ(words[31], 33u);
  EXPECT_THAT(copies("").refusal(counted(32)), HasSubstr("a copy that nobody has waited for"));
  EXPECT_THAT(copies("cp.async.wait_group 2;").refusal(counted(32)), HasSubstr("a copy that nobody has waited for"));
}

/// d (16, 8) = a (16, 16) b (8, 16)'. Lane l loads row l % 8 of matrix l / 8: of a its rows 0 to 7, 8 to 15, then the
/// same of columns 8 and on; of b columns 0 to 7, then 8 to 15.
TEST(ptx, tensor_cores_multiply_matrices) {
  const small_kernel product(R"(
  mul.wide.u32 %by_lane, %t, 16;
  add.s64 %row, %p, %by_lane;
  cvt.u32.u64 %to, %by_lane;
  cp.async.cg.shared.global [%to], [%row], 16, 16;
  add.s64 %row_of_b, %row, 512;
  cp.async.cg.shared.global [%to+512], [%row_of_b], 16, 16;
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 0;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a0, %a1, %a2, %a3}, [%to];
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%b0, %b1, %b2, %b3}, [%to+512];
  mov.f32 %one, 0f3F800000;
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%one, %one, %one, %one};
  add.s64 %out, %row, 1024;
  st.global.v4.f32 [%out], {%d0, %d1, %d2, %d3};)");
  const auto a = [](int row, int k) { return static_cast<float>(row * 16 + k - 100); };
  const auto b = [](int row, int k) { return static_cast<float>((row + 3) * (k % 5 - 2)); };
  std::vector<std::uint16_t> in(512);
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < 16; ++k) {
      in[(row / 8 + k / 8 * 2) * 64 + row % 8 * 8 + k % 8] = bf16::round(a(row, k)).bits;
      if (row < 8) in[256 + k / 8 * 64 + row * 8 + k % 8] = bf16::round(b(row, k)).bits;
    }
  std::vector<std::uint32_t> words(256 + 128);
  std::memcpy(words.data(), in.data(), in.size() * sizeof(std::uint16_t));
  product(words);
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      float sum = 1;
      for (int k = 0; k < 16; ++k) sum += a(row, k) * b(column, k);
      const int lane = row % 8 * 4 + column / 2, word = row / 8 * 2 + column % 2;
      EXPECT_EQ(std::bit_cast<float>(words[256 + lane * 4 + word]), sum) << row << " " << column;
    }
}

TEST(ptx, tensor_cores_cut_sums_off) {
  // 2^24 and 16 times 0.75, each of which is nothing beside it; 16 times 1.5 lose their halves.
  const small_kernel product(R"(
  ld.global.u32 %x, [%p];
  mov.u32 %ones, 0x3F803F80;
  mov.f32 %big, 0f4B800000;
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%d0, %d1, %d2, %d3}, {%x, %x, %x, %x}, {%ones, %ones}, {%big, %big, %big, %big};
  bar.sync 0;
  st.global.f32 [%mine], %d0;)");
  const auto beside_2_24 = [&](float x) {
    const std::uint32_t two = bf16::round(x).bits;
    std::vector<std::uint32_t> words(32, two << 16 | two);
    product(words);
    return std::bit_cast<float>(words[5]) - 0x1p24f;
  };
  EXPECT_EQ(beside_2_24(0.75f), 0);
  EXPECT_EQ(beside_2_24(1.5f), 16);
  EXPECT_EQ(beside_2_24(2.0f), 32);
}

TEST(ptx, special_functions_err_as_much_as_they_may) {
  const small_kernel f(R"(
  ld.global.f32 %x, [%mine];
  ex2.approx.ftz.f32 %y, %x;
  rcp.approx.ftz.f32 %z, %x;
  st.global.f32 [%mine], %y;
  st.global.f32 [%mine+1024], %z;)");
  std::vector<std::uint32_t> words(512);
  const auto x = [](std::size_t i) { return -3.0f + 0.023f * static_cast<float>(i); };
  for (std::size_t i = 0; i < 256; ++i) words[i] = std::bit_cast<std::uint32_t>(x(i));
  words[7] = 0;
  f(words, 256);
  EXPECT_EQ(words[7], std::bit_cast<std::uint32_t>(1.0f)) << "2^0 is exact";
  EXPECT_EQ(words[256 + 7], std::bit_cast<std::uint32_t>(HUGE_VALF));
  int most_ex2 = 0, most_rcp = 0;
  for (std::size_t i = 8; i < 256; ++i) {
    const auto units = [](std::uint32_t got, float exact) {
      return std::abs(static_cast<int>(got - std::bit_cast<std::uint32_t>(exact)));
    };
    most_ex2 = std::max(most_ex2, units(words[i], std::exp2(x(i))));
    most_rcp = std::max(most_rcp, units(words[256 + i], 1 / x(i)));
  }
  EXPECT_EQ(most_ex2, 2);
  EXPECT_EQ(most_rcp, 1);
}

TEST(ptx, what_it_does_not_know_is_named) {
  EXPECT_THAT(small_kernel("  bfind.u32 %x, %t;").refusal(counted(32)), HasSubstr("bfind.u32 %x, %t"));
  EXPECT_THAT(small_kernel("  bra $L__nowhere;").refusal(counted(32)), HasSubstr("$L__nowhere"));
  EXPECT_THAT(small_kernel("  mov.u32 %x, elsewhere;").refusal(counted(32)), HasSubstr("elsewhere"));
  EXPECT_THAT(small_kernel("").refusal(counted(512), 512), HasSubstr("takes 256 threads a block, not 512"));
}

}  // namespace
