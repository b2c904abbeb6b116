// SPDX-License-Identifier: MIT
#include "qkgeom/core/instruction_set.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

TEST(instruction_set, the_best_one_runs_unless_a_lower_one_is_asked_for) {
  EXPECT_EQ(chosen_instruction_set("", instruction_set::v4x), instruction_set::v4x);
  EXPECT_EQ(chosen_instruction_set("", instruction_set::v2), instruction_set::v2);
  EXPECT_EQ(chosen_instruction_set("v3", instruction_set::v4x), instruction_set::v3);
  EXPECT_EQ(chosen_instruction_set("v4", instruction_set::v4), instruction_set::v4);
}

TEST(instruction_set, a_set_that_the_cpu_lacks_and_an_unknown_name_are_refused) {
  const auto message = [](const char* asked) {
    try {
      chosen_instruction_set(asked, instruction_set::v3);
      return std::string();
    } catch (const error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(message("v4"), "QKGEOM_CPU=v4: this CPU has no more than v3");
  EXPECT_EQ(message("avx2"), "QKGEOM_CPU=avx2: expected v2, v3, v4 or v4x");
}

}  // namespace
}  // namespace qkgeom
