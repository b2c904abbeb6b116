// SPDX-License-Identifier: MIT
#include "qkgeom/core/instruction_set.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom {
namespace {

TEST(instruction_set, the_best_one_runs_unless_a_lower_one_is_asked_for) {
  EXPECT_EQ(chosen_instruction_set("", instruction_set::v4x), instruction_set::v4x);
  EXPECT_EQ(chosen_instruction_set("", instruction_set::v2), instruction_set::v2);
  EXPECT_EQ(chosen_instruction_set("v3", instruction_set::v4x), instruction_set::v3);
  EXPECT_EQ(chosen_instruction_set("v4", instruction_set::v4), instruction_set::v4);
}

TEST(instruction_set, a_set_that_the_cpu_lacks_and_an_unknown_name_are_refused) {
  EXPECT_QKGEOM_ERROR("QKGEOM_CPU=v4: this CPU has no more than v3", chosen_instruction_set("v4", instruction_set::v3));
  EXPECT_QKGEOM_ERROR("QKGEOM_CPU=avx2: expected v2, v3, v4 or v4x",
                      chosen_instruction_set("avx2", instruction_set::v3));
}

}  // namespace
}  // namespace qkgeom
