// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "capture/job/job.hpp"

namespace qkgeom {

/// A study that is compiled in: its name and its file's text.
struct builtin_study {
  std::string_view name, text;
};
/// The studies of capture/job/studies, ordered by name; templates are named "templates/NAME".
const std::vector<builtin_study>& builtin_studies();

/// Parses a study file: the settings of a capture without the model's folder, documents and OUT. `where` names it in
/// errors. Throws `error` on a field that is unknown or of a wrong type.
capture_options parse_study(std::string_view text, const std::string& where);

/// Settings of the built-in study of that name, or of that file. Throws `error` listing the names if there is neither.
capture_options find_study(const std::string& name_or_file);

}  // namespace qkgeom
