// SPDX-License-Identifier: MIT
#include "qkgeom/io/safetensors.hpp"
#include "tests/fuzz/input.hpp"

void qkgeom::fuzz::read(const input& in) { safetensors_file{in.path()}; }
