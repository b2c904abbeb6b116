// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <vector>

#include "qkgeom/plasticity/bucket_table.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// components.csv: the terms of each profile that has them: a row per query bucket (`level` is bucket; start and
/// end in tokens) and a row per heatmap cell with pairs (`level` is cell; distances in tokens, the cell's lower edge):
/// pair means and their errors over documents. Throws if no profile has terms.
QKGEOM_INLINE void write_components_csv(const std::filesystem::path& path, const model_report& report);

/// later_keys.csv: a row per head whose headline profile has terms: P(later key wins) and whether the bias agrees.
QKGEOM_INLINE void write_later_keys_csv(const std::filesystem::path& path, const model_report& report);

/// bucket_table.csv: a row per head, query bucket and key bucket with pairs; starts and ends in tokens. `tables`: one
/// per head of the report; throws `error` if their number differs.
QKGEOM_INLINE void write_bucket_table_csv(const std::filesystem::path& path, const model_report& report,
                                          const std::vector<plasticity_bucket_table>& tables);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/report/detail/pair_csv.hpp"
#endif
