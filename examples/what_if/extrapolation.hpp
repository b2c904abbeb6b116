// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "examples/common/numbers/misses.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/report/head_report.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom::examples {

/// A number of a head that is carried to a longer context; the names are the columns of heads.csv.
struct carried_number {
  std::string_view name;
  estimate (*of)(const head_report&);
};
inline constexpr std::array<carried_number, 7> carried_numbers{{
    {"ap_overall", [](const head_report& h) { return h.summaries.empty() ? estimate{} : h.summaries[0].overall; }},
    {"ap_first_20pct", [](const head_report& h) { return h.summaries.empty() ? estimate{} : h.summaries[0].first20; }},
    {"ap_last_20pct", [](const head_report& h) { return h.summaries.empty() ? estimate{} : h.summaries[0].last20; }},
    {"ap_drop", [](const head_report& h) { return h.summaries.empty() ? estimate{} : h.summaries[0].drop; }},
    {"bias_context_logits", [](const head_report& h) { return estimate{h.rotation.bias.context_logits}; }},
    {"r_q_a", [](const head_report& h) { return estimate{h.rotation.q.r}; }},
    {"r_k_a", [](const head_report& h) { return estimate{h.rotation.k.r}; }},
}};
using carried_values = std::array<double, carried_numbers.size()>;

/// The analysis of a context that was captured, as predicted from its first part.
struct short_prediction {
  double factor = 1;  ///< length of the context over that of the part
  model_report report;
};

/// Measures the misses of predictions of a captured context from its own first parts. Heads are those of the report of
/// the context.
struct self_check {
  std::vector<double> factors;                    ///< above 1
  std::vector<std::vector<carried_values>> miss;  ///< (factors)(heads): predicted less actual, NaN without a value
  std::vector<std::vector<bool>> same_class;      ///< (factors)(heads)
  std::vector<bool> rope;                         ///< (heads)
};

/// Compares head by head. Throws `error` if the heads differ or a factor is not above 1.
self_check check_predictions(const model_report& actual, const std::vector<short_prediction>& predicted);

/// The numbers of each head at `factor` times the context that `check` is about, predicted by `predicted`, `widened`.
std::vector<std::array<estimate, carried_numbers.size()>> extrapolate(const model_report& predicted,
                                                                      const self_check& check, double factor);

/// The mean over some heads of each number. Its variance holds the mean error of the heads over documents, since they
/// share documents, and the mean over the factors of (mean miss / growth)^2: what the check misses of all heads alike.
std::array<estimate, carried_numbers.size()> extrapolate_mean(const model_report& predicted, const self_check& check,
                                                              double factor, const std::vector<std::size_t>& heads);

}  // namespace qkgeom::examples
