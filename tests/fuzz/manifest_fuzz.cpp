// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture_manifest.hpp"
#include "tests/fuzz/input.hpp"

void qkgeom::fuzz::read(const input& in) { parse_manifest(in.text(), "manifest.json"); }
