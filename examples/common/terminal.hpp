// SPDX-License-Identifier: MIT
#pragma once

#include "examples/common/table.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom::examples {

/// "0.107 ± 0.002", or "0.107" if there is no error; `aligned` leaves room for a fourth decimal of the error.
std::string estimate_text(const estimate& e, bool aligned = false);
/// For differences, with a sign: "+0.107 ± 0.002".
std::string signed_estimate_text(const estimate& e);
/// A report that holds only one profile of each head, by its index; -1: of the observed queries, unbiased.
model_report with_headline(const model_report& report, int profile);

/// Shares of the five head classes, RoPE and NoPE layers apart.
void print_classes(printer& out, const model_report& report, const class_thresholds& thresholds);
/// Mean |r_q| and |r_k| on component 0 and on axis a, and the share of heads with positive bias strength.
void print_position(printer& out, const model_report& report);
/// AP overall, over the first and the last 20 % of the context, and AP_drop by query model, with standard errors.
void print_plasticity(printer& out, const model_report& report);
/// The `each` heads at both ends of |bias strength| and of plasticity, as far as the report holds these.
void print_extremes(printer& out, const model_report& report, std::size_t each = 3);

}  // namespace qkgeom::examples
