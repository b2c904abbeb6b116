// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "capture/job/options.hpp"

namespace qkgeom {

/// A protocol that is compiled in: its name and the text of its file.
struct builtin_protocol {
  std::string_view name, text;
};
/// Lists the protocols of capture/job/protocols by name; templates are named "templates/NAME".
const std::vector<builtin_protocol>& builtin_protocols();

/// Parses a protocol file: the settings of a capture without the model's folder, documents and OUT. `where` names it in
/// errors. Throws `error` on a field that is unknown or of a wrong type.
capture_options parse_protocol(std::string_view text, const std::string& where);

/// Reads the built-in protocol of that name, or that file. Throws `error` listing the names if there is neither.
capture_options find_protocol(const std::string& name_or_file);

}  // namespace qkgeom
