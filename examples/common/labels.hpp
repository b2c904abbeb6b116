// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/report/head_groups.hpp"

namespace qkgeom::examples {

/// Labels of captures: `given`, or by default the captures' file names. `what` names a capture in errors, for example
/// "checkpoint". Throws `error` unless each capture has a label and no two labels give the same file name.
std::vector<std::string> capture_labels(const std::vector<std::filesystem::path>& captures,
                                        const std::vector<std::string>& given, const std::string& what);

/// Turns a text into part of a file name: letters of any script, digits and . _ - + = stay, other ASCII and bytes that
/// are not UTF-8 become _. A text of more than 120 bytes is cut and ends in its hash.
std::string file_name_of(const std::string& text);

/// A group of `head_groups` in words: "all heads", "RoPE layers" or "NoPE layers".
std::string words_for_heads(std::string_view group);
/// With the number of heads: "RoPE layers (48)".
std::string words_for_heads(const head_group& group);

/// "1.25 ± 0.03": the error in two significant digits, the value in as many decimals. "1.25" if there is no error, "-"
/// if there is no value.
std::string with_error(const head_estimate& e, bool sign = false);

}  // namespace qkgeom::examples
