// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "capture/job/job.hpp"

namespace qkgeom {

/// A study that was built in: its name and its file's text.
struct builtin_study {
  std::string_view name, text;
};
/// The studies of capture/studies, ordered by name; templates are called "templates/NAME".
const std::vector<builtin_study>& builtin_studies();

/// The settings of a study, as a file of capture/studies has them, without the model's folder, documents and OUT.
/// `where` names it in errors. Throws `error` on a field that is not known or of a wrong type.
capture_options parse_study(std::string_view text, const std::string& where);

/// The settings of the built-in study of that name, or of the one in that file. Throws `error` naming those there are.
capture_options find_study(const std::string& name_or_file);

}  // namespace qkgeom
