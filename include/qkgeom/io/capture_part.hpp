// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// Part `number`, from 1, of a capture that was made in `of` parts, each by a process of its own.
struct capture_part {
  index_t number = 1, of = 1;
  bool operator==(const capture_part&) const = default;
};

/// Most parts of one capture.
inline constexpr index_t most_parts = 100000;

/// Manifest fields of a part: its number and of how many; hash of the tokenised documents of all parts and of the first
/// bytes of the weights; in `moments` the number of the part's first block.
inline constexpr const char *part_field = "part", *inputs_field = "inputs_sha256", *first_block_field = "first_block";

/// The part that a manifest belongs to; none: a whole capture. `name` stands in errors. Throws `error` on numbers that
/// no part has.
inline std::optional<capture_part> part_of(const capture_manifest& m, const std::string& name) {
  if (!m.extra.contains(part_field)) return std::nullopt;
  const json_value part(m.extra[part_field], name, part_field);
  const index_t of = part["of"].integer(1, most_parts);
  require(m.documents && !m.documents->empty(), name, ": a part must list its examples");
  return capture_part{part["number"].integer(1, of), of};
}

/// Number of the first file of moments in the folder of a capture: above 0 in a later part alone.
inline index_t first_moment_block(const capture_manifest& m, const std::string& name) {
  if (!m.extra.contains(part_field) || !m.extra.contains("moments")) return 0;
  const json_value moments(m.extra["moments"], name, "moments");
  return moments.has(first_block_field) ? moments[first_block_field].integer(0, 100) : 0;
}

/// Whether both are parts of one capture of the same documents.
inline bool same_whole(const capture_manifest& a, const capture_manifest& b) {
  return a.extra.contains(part_field) && b.extra.contains(part_field) && a.extra.contains(inputs_field) &&
         b.extra.contains(inputs_field) && a.extra[inputs_field] == b.extra[inputs_field];
}

}  // namespace qkgeom
