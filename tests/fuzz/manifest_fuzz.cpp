// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture_manifest.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qkgeom;
  return fuzz::refuse_or_read([&] {
    const auto manifest = parse_manifest(fuzz::text_of(data, size), "manifest.json");
    part_of(manifest, "manifest.json");
    first_moment_block(manifest, "manifest.json");
    untrained_seed(manifest);
  });
}
