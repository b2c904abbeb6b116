// SPDX-License-Identifier: MIT
#include "qkgeom/io/csv.hpp"
#include "tests/fuzz/input.hpp"

void qkgeom::fuzz::read(const input& in) {
  const auto table = read_csv(in.path());
  for (const auto& name : table.columns()) table.numbers(name);
}
