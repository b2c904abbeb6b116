// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom {

/// One number of every head, with all documents and without some.
struct head_values {
  std::string name;                          ///< as in heads.csv
  std::vector<double> value;                 ///< (heads), NaN is null
  std::vector<std::vector<double>> without;  ///< (documents or blocks of them)(heads); empty: no error is known
};

/// A head of the model.
struct head_place {
  index_t layer = 0, q_head = 0;
  bool rope = true;
  bool operator==(const head_place&) const = default;
};

/// One checkpoint of a training run: every number of heads.csv of every head, the same without some of the documents,
/// and the head classes. Holds no profiles, so that many checkpoints fit into memory.
struct trajectory_point {
  std::string label;
  index_t context_length = 0;  ///< tokens
  std::optional<double> heldout_loss;
  document_blocks blocks;  ///< of the geometry's errors; two checkpoints with equal blocks are compared in pairs
  std::vector<head_place> heads;
  std::vector<head_values> columns;
  std::vector<head_class> classes;                       ///< (heads)
  std::vector<std::vector<head_class>> classes_without;  ///< (blocks)(heads)

  /// Throws `error` if there is no such column.
  const head_values& column(const std::string& name) const {
    for (const auto& c : columns)
      if (c.name == name) return c;
    fail("checkpoint ", label, " has no column ", name);
  }
};

/// The checkpoint that a report of `analyse` is about; errors of PCA and rotation need `geometry_blocks`. Throws
/// `error` if the report has no heads or no geometry.
QKGEOM_INLINE trajectory_point point_of(const model_report& report, std::string label,
                                        std::optional<double> heldout_loss = std::nullopt);

/// Throws `error` unless both checkpoints have the same heads and the same columns.
inline void check_comparable(const trajectory_point& a, const trajectory_point& b) {
  require(a.heads == b.heads, "checkpoint ", b.label, " has other heads than ", a.label,
          "; capture the same layers and heads of each");
  require(a.columns.size() == b.columns.size(), "checkpoint ", b.label, " was analysed otherwise than ", a.label);
}

/// A statistic of one column over a group of heads.
QKGEOM_INLINE head_estimate over_heads(const head_values& column, const std::vector<std::size_t>& group,
                                       head_statistic statistic);

/// Share of a group's heads in a class.
QKGEOM_INLINE head_estimate class_share(const trajectory_point& point, const std::vector<std::size_t>& group,
                                        head_class wanted);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/study/detail/trajectory.hpp"
#endif
