// SPDX-License-Identifier: MIT
#pragma once

#include <iosfwd>

#include "capture/job/prepare.hpp"

namespace qkgeom {

/// What a capture would read, compute and write.
struct capture_estimate {
  capture_manifest manifest;
  index_t query_heads = 0, key_heads = 0;          ///< captured, over all layers
  index_t documents = 0, tokens = 0, longest = 0;  ///< of a document, in tokens
  bool counted = false;                 ///< the documents were read; else their number and length are assumed
  double query_rows = 0, key_rows = 0;  ///< expected, over all layers
  index_t shards = 1;
  double bytes = 0;             ///< of the rows
  double moments_bytes = 0;     ///< of the moments of every token; a block of them is in memory at a time
  double statistics_bytes = 0;  ///< of what softmax and losses give, which the shards keep
  double peak_bytes = 0;
  double analysis_pairs = 0;                   ///< of keys, over documents, heads, query buckets and query models
  double analysis_bytes = 0;                   ///< of what analyses keep in the shards
  double pairs_per_second = 0;                 ///< as who prints this has measured them; 0: not known
  double linear_flop = 0, attention_flop = 0;  ///< a multiplication and an addition are two
};

/// Plans the capture from config.json and, where the options name documents, the tokenizer; no weights are read.
/// Without documents there are `options.documents.examples` (else one) of the context's length. Throws `error`.
capture_estimate estimate_capture(const capture_options& options, std::ostream& notes);

/// A few lines for people.
void print_estimate(std::ostream& out, const capture_estimate& e);

}  // namespace qkgeom
