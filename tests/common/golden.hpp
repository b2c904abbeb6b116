// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace qkgeom::test {

/// A file of tests/data/golden, or long-f64.safetensors, which the build makes of long-f32.
inline std::string golden(const std::string& file) {
  return (file == "long-f64.safetensors" ? QKGEOM_MADE_DATA "/" : QKGEOM_TEST_DATA "/golden/") + file;
}

}  // namespace qkgeom::test
