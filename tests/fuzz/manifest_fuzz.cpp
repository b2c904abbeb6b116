// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture_manifest.hpp"
#include "tests/fuzz/input.hpp"

void qkgeom::fuzz::read(const input& in) {
  const auto manifest = parse_manifest(in.text(), "manifest.json");
  part_of(manifest, "manifest.json");
  first_moment_block(manifest, "manifest.json");
  untrained_seed(manifest);
}
