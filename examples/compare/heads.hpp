// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/numbers/comparison.hpp"
#include "examples/common/outputs.hpp"

namespace qkgeom::examples {

/// Parts of the difference of two models with unlike rotary embeddings: the other embedding on the same rows, and the
/// other rows. `total` is their sum.
enum class change_part { total, frequencies, statistics };

/// How a number of a head differs between two models.
struct head_change {
  head_place head;
  std::string number;  ///< a column of heads.csv, or of grip_heads.csv
  index_t context = 0;
  change_part part = change_part::total;
  double value = NAN, less_value = NAN;
  head_estimate difference;
  double p = NAN, rate = NAN;  ///< `two_sided_p` of the difference; `false_discovery_rates` over heads
  head_class is{}, was{};
};

/// The heads of a model against those of another, `less`.
struct head_comparison {
  std::string model, less;
  std::vector<head_change> changes;
};

/// Every head of a model in one context: its class, and its numbers with their values without each document.
struct head_state {
  index_t context = 0;
  trajectory_point point;
  std::vector<std::pair<std::string, std::vector<group_number>>> numbers;  ///< (heads)
};

/// A model whose heads are compared.
struct compared_heads {
  std::string label;
  std::shared_ptr<const capture_set> source;
  std::vector<head_state> states;  ///< as captured; in the longer context, if one is asked for
};

/// Takes bias, AP, AP_drop and class of each head from the analysis of its captures, and at `context` (0: only as
/// captured) as what_if predicts them; grip and reach at both, if the captures hold the keys of every token. Throws
/// `error` if the captures are longer than `context`.
compared_heads heads_of(const arguments& a, const analysis_options& options, const analysed& found, std::string label,
                        index_t context);

/// Compares the heads of two models by the numbers that both have. Differences over the same documents are `paired`.
/// Rates are adjusted over the heads, for each number, context and part. Throws `error` if the captures have other
/// heads or contexts.
head_comparison compare_heads(const arguments& a, const analysis_options& options, const compared_heads& model,
                              const compared_heads& less, bool paired);

/// Writes head_differences.csv, changed_heads.json and the figure head_differences.
void write_head_changes(output_folder& out, const std::vector<head_comparison>& pairs);
/// Prints how many heads changed, by number.
void print_head_changes(printer& out, const std::vector<head_comparison>& pairs);

}  // namespace qkgeom::examples
