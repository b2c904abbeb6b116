// SPDX-License-Identifier: MIT
#pragma once

#include "examples/common/table.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom::examples {

/// "0.107 ± 0.002", or without an error "0.107"; `aligned` leaves room for a fourth decimal of the error.
std::string estimate_text(const estimate& e, bool aligned = false);
/// The same with a sign, of a difference: "+0.107 ± 0.002".
std::string signed_estimate_text(const estimate& e);
/// The report with another of its profiles as the headline, and nothing else; -1: the observed queries, unbiased.
model_report with_headline(const model_report& report, int profile);

/// A report as tables for a terminal: one function for each part of the summary.
/// Shares of the five head classes, RoPE and NoPE layers apart.
void print_classes(printer& out, const model_report& report, const class_thresholds& thresholds);
/// Mean |r_q| and |r_k| on component 0 and on axis a, and the share of heads with positive bias strength.
void print_position(printer& out, const model_report& report);
/// AP overall, over the first and the last 20 % of the context and its drop, by query model, with standard errors.
void print_plasticity(printer& out, const model_report& report);
/// Why no head has a plasticity; empty where one has. For a report with profiles.
std::string no_plasticity_words(const model_report& report);
/// The heads at both ends of the bias strength, and of the plasticity if it was computed, by name.
void print_extremes(printer& out, const model_report& report, std::size_t each = 3);

}  // namespace qkgeom::examples
