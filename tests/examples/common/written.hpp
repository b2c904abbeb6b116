// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/io/csv.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom::test {

/// The table as its CSV file says it.
inline csv_table written(const table& t) {
  const scratch_folder folder;
  write_csv(folder / "table.csv", t);
  return read_csv(folder / "table.csv");
}

}  // namespace qkgeom::test
