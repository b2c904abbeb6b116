// SPDX-License-Identifier: MIT
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace qkgeom::test {

/// Answers of SciPy, made by tests/data/make_associations.py.
inline nlohmann::json associations() {
  return nlohmann::json::parse(std::ifstream(std::string(QKGEOM_TEST_DATA) + "/associations.json"));
}

}  // namespace qkgeom::test
