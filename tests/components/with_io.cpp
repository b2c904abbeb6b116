// SPDX-License-Identifier: MIT
// Writes a matrix as NumPy has it.
#include <filesystem>

#include "qkgeom/io/npy.hpp"

int main() {
  const xt::xarray<double> x{{1, 2}, {3, 4}};
  qkgeom::save_npy("matrix.npy", x);
  return std::filesystem::file_size("matrix.npy") > 4 * sizeof(double) ? 0 : 1;
}
