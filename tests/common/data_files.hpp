// SPDX-License-Identifier: MIT
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace qkgeom::test {

/// A file of tests/data/golden, or long-f64.safetensors, which the build makes of long-f32.
inline std::string golden(const std::string& file) {
  return (file == "long-f64.safetensors" ? QKGEOM_MADE_DATA "/" : QKGEOM_TEST_DATA "/golden/") + file;
}

/// Answers of SciPy or another program: a JSON file of tests/data, which a make_*.py there made.
inline nlohmann::json json_data(const std::string& file) {
  return nlohmann::json::parse(std::ifstream(QKGEOM_TEST_DATA "/" + file));
}

/// The folder of a family's tiny checkpoint, whose weights the build makes.
inline std::string family_folder(const std::string& name) { return QKGEOM_MADE_DATA "/families/" + name; }

}  // namespace qkgeom::test
