// SPDX-License-Identifier: MIT
#include "qkgeom/io/npy.hpp"
#include "tests/fuzz/input.hpp"

void qkgeom::fuzz::read(const input& in) { load_npy<double>(in.path()); }
