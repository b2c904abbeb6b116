// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "qkgeom/backend/detail/pair_cells.hpp"

namespace {

using namespace qkgeom;

TEST(heatmap_cells, a_run_of_keys_shares_a_cell) {
  int runs = 0, keys = 0;  // of wide cells
  for (const index_t width : {1, 7, 512})
    for (const double tau : {5000.0, 4999.5, 4999.499999999999, 4321.1}) {
      const auto cells = backend::heatmap_cells::of(width, 5000 / width + 1);
      for (const std::int32_t t_i : {0, 1, 300, 2047})
        for (std::int32_t t_j = t_i; t_j < 4999;) {
          const auto run = cells.run_of(t_i, t_j, tau);
          ASSERT_EQ(run.cell, cells.cell_of(cells.place(t_i, t_j), tau));
          std::int32_t next = t_j + 1;
          for (; next < 4999 && next <= run.last; ++next)
            ASSERT_EQ(run.cell, cells.cell_of(cells.place(t_i, next), tau)) << width << ' ' << tau << ' ' << t_i;
          if (width == 512) keys += next - t_j, ++runs;
          t_j = next;
        }
    }
  EXPECT_GT(keys, 200 * runs);
}

}  // namespace
