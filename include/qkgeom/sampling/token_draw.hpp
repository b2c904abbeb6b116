// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/random.hpp"

namespace qkgeom {

enum class sampler_kind { uniform, log2, all };

/// Names of samplers in files and on command lines.
inline constexpr std::pair<std::string_view, sampler_kind> sampler_names[] = {
    {"uniform", sampler_kind::uniform}, {"log2", sampler_kind::log2}, {"all", sampler_kind::all}};
constexpr std::string_view name_of(sampler_kind kind) {
  for (const auto& [name, k] : sampler_names)
    if (k == kind) return name;
  return {};
}

/// Draws each token independently; all heads of a layer and side share the draw (sections 4.1.2, 5.4.1).
struct token_sampler {
  sampler_kind kind = sampler_kind::uniform;
  index_t bucket_size = 8192;  ///< tokens; the smallest bucket for log2
  double rate = 1.0;           ///< expected tokens per bucket
  index_t skip_first = 0;      ///< tokens at the beginning of a document to leave out

  /// Returns the probability of keeping the token at t: min(1, rate / bucket width), 1 for `all`; 0 below `skip_first`.
  double probability(index_t t) const {
    if (t < skip_first) return 0.0;
    if (kind == sampler_kind::all) return 1.0;
    index_t width = bucket_size;
    if (kind == sampler_kind::log2)
      width = std::max(static_cast<index_t>(std::bit_floor(static_cast<std::uint64_t>(t + 1))),
                       static_cast<index_t>(std::bit_floor(static_cast<std::uint64_t>(bucket_size))));
    return std::min(1.0, rate / static_cast<double>(width));
  }
};

/// Returns the ascending positions in [0, tokens) that `sampler` keeps by `stream`. Throws if it is out of range.
inline std::vector<std::int32_t> draw_tokens(const token_sampler& sampler, index_t tokens,
                                             const random_stream& stream) {
  require(sampler.bucket_size > 0, "bucket_size must be at least 1 token, not ", sampler.bucket_size);
  require(sampler.skip_first >= 0, "skip_first must be at least 0 tokens, not ", sampler.skip_first);
  require(sampler.rate > 0 && std::isfinite(sampler.rate), "rate must be positive, not ", sampler.rate);
  std::vector<std::int32_t> kept;
  for (index_t t = 0; t < tokens; ++t)
    if (stream.uniform(t) < sampler.probability(t)) kept.push_back(static_cast<std::int32_t>(t));
  return kept;
}

}  // namespace qkgeom
