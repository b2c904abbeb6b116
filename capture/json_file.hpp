// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom {

/// A JSON file of at most `max_bytes`. Throws `error` that names the file and what is wrong with it.
inline nlohmann::json read_json_file(const std::filesystem::path& path, std::size_t max_bytes = std::size_t{256} << 20) {
  const std::string text = read_text(path, max_bytes);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    fail(path.string(), " is no JSON: ", e.what());
  }
}

}  // namespace qkgeom
