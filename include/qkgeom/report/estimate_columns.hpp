// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/head_statistics.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom::detail {

/// Columns of an `estimate`, NAME and NAME_error, and what stands there.
inline void add_estimate_names(std::vector<std::string>& names, const std::string& name) {
  names.insert(names.end(), {name, name + "_error"});
}
inline void add_estimate(csv_writer& csv, const estimate& e) { csv.add(e.value).add(e.error); }

/// The same of a `head_estimate`, with NAME_head_error.
inline void add_head_estimate_names(std::vector<std::string>& names, const std::string& name) {
  names.insert(names.end(), {name, name + "_error", name + "_head_error"});
}
inline void add_estimate(csv_writer& csv, const head_estimate& e) { csv.add(e.value).add(e.error).add(e.head_error); }

}  // namespace qkgeom::detail
