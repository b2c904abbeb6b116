// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/io/json.hpp"
#include "qkgeom/sampling/head_draw.hpp"

namespace qkgeom {

/// Parses a head written as LAYER.HEAD, e.g. "3.12". `where` names it in errors.
head_id parse_head(std::string_view word, const std::string& where);

/// Parses the query heads of a JSON object {"LAYER": [HEAD, ...], ...}; returns them ascending. `where` names it in
/// errors. Throws `error` on anything else, a repeated head and an empty list.
std::vector<head_id> parse_head_lists(const json& object, const std::string& where);

/// Parses query heads as LAYER.HEAD words between blanks, commas and lines; # begins a comment. Returns them ascending.
/// `where` names them in errors. Throws `error` likewise.
std::vector<head_id> parse_head_words(std::string_view text, const std::string& where);

/// Reads query heads from a file: a JSON object or words, as above.
std::vector<head_id> read_head_list(const std::filesystem::path& path);

}  // namespace qkgeom
