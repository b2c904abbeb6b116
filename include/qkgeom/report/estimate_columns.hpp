// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/head_statistics.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// Appends the column names of an `estimate`: NAME, NAME_error.
inline void add_estimate_names(std::vector<std::string>& names, const std::string& name) {
  names.insert(names.end(), {name, name + "_error"});
}
/// Adds the fields of these columns to the row at hand.
inline void add_estimate(csv_writer& csv, const estimate& e) { csv.add(e.value).add(e.error); }

/// The same for a `head_estimate`, with a third column NAME_head_error.
inline void add_head_estimate_names(std::vector<std::string>& names, const std::string& name) {
  names.insert(names.end(), {name, name + "_error", name + "_head_error"});
}
inline void add_estimate(csv_writer& csv, const head_estimate& e) { csv.add(e.value).add(e.error).add(e.head_error); }

}  // namespace qkgeom
