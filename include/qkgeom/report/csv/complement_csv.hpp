// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkgeom/geometry/complement.hpp"
#include "qkgeom/io/csv.hpp"

namespace qkgeom {

/// The complement planes of one head of a model.
struct head_complement {
  index_t layer = 0, q_head = 0, k_head = 0;
  complement_result complement;
};

/// complement.csv: a row per head and plane of its complement; for queries (q_) and keys (k_): 1 if the plane turns
/// with position, the frequency in radians per token, the resultant, the level and number of permutations, and the
/// plane's share of that side's variance; `variance_share` is of the pooled variance.
inline void write_complement_csv(const std::filesystem::path& path, const std::vector<head_complement>& heads) {
  std::vector<std::string> names{"layer", "q_head", "k_head", "plane", "variance_share"};
  for (const std::string side : {"q_", "k_"})
    for (const char* name : {"active", "frequency", "resultant", "level", "draws", "variance_share"})
      names.push_back(side + name);
  csv_writer csv(path, names);
  for (const auto& h : heads)
    for (std::size_t p = 0; p < h.complement.planes.size(); ++p) {
      const auto& plane = h.complement.planes[p];
      csv.add(h.layer).add(h.q_head).add(h.k_head).add(p).add(plane.variance_share);
      for (const auto* t : {&plane.q, &plane.k})
        csv.add(t->active).add(t->frequency).add(t->resultant).add(t->level).add(t->draws).add(t->variance_share);
      csv.end_row();
    }
  csv.commit();
}

}  // namespace qkgeom
