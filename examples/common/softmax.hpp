// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "examples/common/figures/figure.hpp"
#include "examples/common/outputs.hpp"
#include "qkgeom/report/loss_csv.hpp"
#include "qkgeom/report/softmax_csv.hpp"

namespace qkgeom::examples {

/// What captures hold beside their rows where they were made with --softmax and --loss.
struct forward_statistics {
  std::optional<softmax_report> softmax;
  std::optional<loss_report> loss;
};
forward_statistics statistics_of(const analysed& a);

/// Of what there is: softmax.csv, softmax_distance.csv, loss.csv and the figures of sinks, entropy, distances and loss.
void write_statistics(output_folder& out, const analysed& a, const forward_statistics& found);
/// Mass on the first and the last tokens, entropy and loss, with their errors over documents.
void print_statistics(printer& out, const forward_statistics& found);

/// Mass on the first token of the document and entropy over the context: a trace a head, means of RoPE and NoPE layers,
/// and what a softmax of equal scores would give.
line_figure sink_figure(const std::string& model, const softmax_report& report);
line_figure entropy_figure(const std::string& model, const softmax_report& report);
/// Mass by distance from query to key, means of RoPE and NoPE layers over the whole context.
step_figure distance_figure(const std::string& model, const softmax_report& report);
/// Mean loss by position with a band of two standard errors.
line_figure loss_figure(const std::string& model, const loss_report& report);

}  // namespace qkgeom::examples
