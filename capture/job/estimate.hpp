// SPDX-License-Identifier: MIT
#pragma once

#include <iosfwd>
#include <string>

#include "capture/job/prepare.hpp"

namespace qkgeom {

/// Rows, bytes, memory and work of a capture.
struct capture_estimate {
  capture_manifest manifest;
  std::string rope{};                              ///< `rope_in_force`
  index_t query_heads = 0, key_heads = 0;          ///< captured, over all layers
  index_t documents = 0, tokens = 0, longest = 0;  ///< `longest`: tokens of the longest document
  bool counted = false;                 ///< the documents were read; else their number and length are assumed
  double query_rows = 0, key_rows = 0;  ///< expected, over all layers
  index_t shards = 1;
  double bytes = 0;             ///< bytes of the rows
  double moments_bytes = 0;     ///< bytes of the moments of every token; one block is in memory at a time
  double statistics_bytes = 0;  ///< bytes of softmax and losses in the shards
  double peak_bytes = 0;
  double linear_flop = 0, attention_flop = 0;  ///< a multiplication and an addition count as two
  double flop_per_second = 0;                  ///< rate of matrix products, measured by the caller; 0: unknown
  std::string products;                        ///< how the CPU multiplies matrices: "f32", "bf16 by AMX"

  double flop() const { return linear_flop + attention_flop; }
};

/// Estimates a capture from config.json and, where the options name documents, the tokenizer; reads no weights. Without
/// documents it assumes `options.inputs.count` (else one) of the context's length. Throws `error`.
capture_estimate estimate_capture(const capture_options& options, std::ostream& notes);

/// Returns a size in words: "3.2 GB".
std::string in_bytes(double n);
/// Returns a time in words: "45 s", "12 min", "3.4 h".
std::string in_time(double seconds);

/// Measures the FLOP/s of the CPU forward pass' matrix products in that type on `threads` threads (0: one per core).
double measured_flop_per_second(int threads, compute_type type);
/// Returns how the CPU multiplies matrices in that type: "f32", "bf16 by AMX".
std::string products_of(compute_type type);

/// Prints in one line the cost of the whole capture that the short one stands for.
void print_whole(std::ostream& out, const capture_estimate& brief, const capture_estimate& whole);

void print_estimate(std::ostream& out, const capture_estimate& estimate);

}  // namespace qkgeom
