// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "examples/common/figures/figure.hpp"
#include "examples/common/outputs.hpp"
#include "qkgeom/report/softmax_and_loss.hpp"

namespace qkgeom::examples {

/// Statistics of captures made with --softmax and --loss.
struct forward_statistics {
  std::optional<softmax_report> softmax;
  std::optional<loss_report> loss;
};
forward_statistics statistics_of(const analysed& a);

/// Writes softmax.csv, softmax_distance.csv, loss.csv and their figures, as far as the captures hold the statistics.
void write_statistics(output_folder& out, const analysed& a, const forward_statistics& found);
/// Prints mass on the first and the last tokens, entropy and loss, with standard errors over documents.
void print_statistics(printer& out, const forward_statistics& found);

/// Mass on the first token of the document over the context: a trace per head, means of RoPE and NoPE layers, and the
/// value for equal scores.
line_figure sink_figure(const std::string& model, const softmax_report& report);
/// Entropy over the context, drawn like `sink_figure`.
line_figure entropy_figure(const std::string& model, const softmax_report& report);
/// Mass by distance from query to key, means of RoPE and NoPE layers over the whole context.
step_figure distance_figure(const std::string& model, const softmax_report& report);
/// Mean loss by position with a band of the 95 % interval.
line_figure loss_figure(const std::string& model, const loss_report& report);

}  // namespace qkgeom::examples
