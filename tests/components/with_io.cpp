// SPDX-License-Identifier: MIT
// Writes a table.
#include "qkgeom/io/csv.hpp"

int main() {
  qkgeom::csv_writer csv("table.csv", {"x"});
  csv.row(0.5);
  csv.commit();
  return qkgeom::read_csv("table.csv").numbers("x").front() == 0.5 ? 0 : 1;
}
