// SPDX-License-Identifier: MIT
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// First and last position of rows, tokens.
struct position_range {
  index_t first = std::numeric_limits<index_t>::max(), last = -1;

  void add(const captured_layer& rows);
};

/// Limits below which an analysis gets a note.
inline constexpr index_t documents_of_an_error = 3;      ///< fewer documents give no error
inline constexpr index_t documents_of_a_fair_error = 5;  ///< fewer give a rough one
inline constexpr index_t queries_of_a_fair_model = 10;   ///< per query bucket

/// Returns the note on errors over too few documents; no value if they are enough.
std::optional<report_note> note_on_documents(index_t documents);

/// Returns the notes on captures and their analysis, one for each kind that applies; docs/columns.md lists the names.
/// `rows`: the positions that the captures hold.
std::vector<report_note> notes_of(const capture_set& source, const model_report& report, const position_range& rows);

/// Returns notes.csv: a row per note, after the name of its subject: a model, or a label of it.
table notes_table(const std::vector<std::pair<std::string, std::vector<report_note>>>& models);

}  // namespace qkgeom
