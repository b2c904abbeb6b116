// SPDX-License-Identifier: MIT
#include "capture/job/process_group.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "tests/capture/job/threads_as_processes.hpp"
#include "tests/common/refusal.hpp"

namespace qkgeom {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

const auto no_show = [](index_t) {};

TEST(process_group, deals_each_number_once_and_again_in_a_second_deal) {
  for (const int n : {1, 2, 3, 7}) {
    test::threads_as_processes processes(n);
    std::mutex mutex;
    std::vector<std::vector<index_t>> dealt(3);
    const auto errors = processes.run([&](process_group& group) {
      for (std::size_t d = 0; d < dealt.size(); ++d) {
        index_t last = -1;
        group.deal(
            static_cast<index_t>(4 * d),
            [&](index_t i) {
              EXPECT_GT(i, last);
              last = i;
              const std::lock_guard lock(mutex);
              dealt[d].push_back(i);
            },
            no_show);
      }
    });
    EXPECT_THAT(errors, Each(IsEmpty()));
    for (std::size_t d = 0; d < dealt.size(); ++d) {
      std::vector<index_t> all(4 * d);
      std::iota(all.begin(), all.end(), index_t{0});
      std::sort(dealt[d].begin(), dealt[d].end());
      EXPECT_EQ(dealt[d], all);
    }
  }
}

TEST(process_group, what_one_throws_at_the_beginning_all_throw) {
  test::threads_as_processes processes(3);
  const auto of_one =
      processes.run([](process_group& group) { group.begin([&] { require(group.rank() != 1, "no disk"); }); });
  EXPECT_THAT(of_one, Each("rank 1: no disk"));
  EXPECT_THAT(processes.run([](process_group& group) { group.begin([] { fail("no capture"); }); }), Each("no capture"));
  EXPECT_THAT(processes.run([](process_group& group) { group.agree(group.rank() == 2 ? "b" : "a", "model"); }),
              Each("rank 2 has another model than rank 0"));
}

TEST(process_group, alone_it_passes_everything_through) {
  process_group alone;
  EXPECT_QKGEOM_ERROR("as it is", alone.begin([] { fail("as it is"); }));
  EXPECT_THAT(alone.gather("a"), ElementsAre("a"));
  EXPECT_EQ(alone.passed(3), 3);
  std::vector<index_t> dealt;
  for (int i = 0; i < 2; ++i)
    alone.deal(
        2, [&](index_t k) { dealt.push_back(k); }, no_show);
  EXPECT_THAT(dealt, ElementsAre(0, 1, 0, 1));
}

}  // namespace
}  // namespace qkgeom
