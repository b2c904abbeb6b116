// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/io/json.hpp"
#include "qkgeom/sampling/head_draw.hpp"

namespace qkgeom {

/// A head as LAYER.HEAD, e.g. "3.12". `where` names it in errors.
head_id parse_head(std::string_view word, const std::string& where);

/// Query heads of a JSON object {"LAYER": [HEAD, ...], ...}, ascending. `where` names it in errors. Throws `error` on
/// anything else, a repeated head and an empty list.
std::vector<head_id> parse_head_lists(const json& object, const std::string& where);

/// Query heads of LAYER.HEAD words between blanks, commas and lines, ascending; # begins a comment. `where` names them
/// in errors. Throws `error` likewise.
std::vector<head_id> parse_head_words(std::string_view text, const std::string& where);

/// Query heads of a file: such a JSON object, or LAYER.HEAD words between blanks, commas and lines.
std::vector<head_id> read_head_list(const std::filesystem::path& path);

}  // namespace qkgeom
