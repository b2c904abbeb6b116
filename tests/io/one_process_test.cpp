// SPDX-License-Identifier: MIT
#include "qkgeom/io/program.hpp"

#include "tests/common/refusal.hpp"

namespace {

using qkgeom::require_no_other_process;

TEST(one_process, refuses_several_that_a_launcher_started) {
  for (const std::string name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    ::setenv(name.c_str(), "1", 1);
    EXPECT_NO_THROW(require_no_other_process()) << name;
    ::setenv(name.c_str(), "3", 1);
    EXPECT_QKGEOM_ERROR("a launcher started 3 (" + name + ")", require_no_other_process());
    ::unsetenv(name.c_str());
  }
  EXPECT_NO_THROW(require_no_other_process());
}

}  // namespace
