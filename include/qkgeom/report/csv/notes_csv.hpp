// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// notes.csv: a row per note, with the name of what it is about in front: a model, or a label of it.
inline void write_notes_csv(const std::filesystem::path& path,
                            const std::vector<std::pair<std::string, std::vector<report_note>>>& models) {
  csv_writer csv(path, {"model", "note", "text"});
  for (const auto& [model, notes] : models)
    for (const auto& n : notes) csv.row(model, n.name, n.text);
  csv.commit();
}

}  // namespace qkgeom
