// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/report/head_statistics.hpp"

namespace qkgeom::examples {

/// Names of captures that are told apart: those given, or the captures' own file names. `what` they are, in errors:
/// "checkpoint". Throws `error` unless there is one for each capture and no two are equal as file names.
std::vector<std::string> capture_labels(const std::vector<std::filesystem::path>& captures,
                                        const std::vector<std::string>& given, const std::string& what);

/// The text as part of a file name of at most 120 bytes, a longer one as its beginning and a hash: letters of any
/// script, digits and . _ - + = stay, other ASCII and bytes that are no UTF-8 become _.
std::string file_name_of(const std::string& text);

/// "all heads", "RoPE layers" or "NoPE layers": a group of `head_groups` in words.
std::string words_for_heads(std::string_view group);
/// "RoPE layers (48)": with how many heads it has.
std::string words_for_heads(const head_group& group);

/// "1.25 ± 0.03": the error in two significant digits, the value in as many decimals; "1.25" without an error, "-"
/// where there is no value.
std::string with_error(const head_estimate& e, bool sign = false);

}  // namespace qkgeom::examples
