// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/rotary/embedding.hpp"

namespace qkgeom {

/// Frequencies that depend on a document's length: longrope has a second set, dynamic scaling a base that grows.
struct frequencies_by_length {
  index_t context = 0;           ///< tokens; longer documents have other frequencies than `usual`
  std::vector<double> usual{};   ///< (rotary_dim / 2)
  std::vector<double> beyond{};  ///< longrope: of longer documents; empty: dynamic scaling
  double theta = 0, factor = 0;  ///< of dynamic scaling
  bool operator==(const frequencies_by_length&) const = default;
};

/// Rotary embedding as applied to coordinates [first, first + rotary_dim): `style` is "half" or "interleaved".
struct captured_rope {
  std::string style;
  index_t rotary_dim = 0;
  double attention_factor = 1;
  std::vector<double> inv_freq;  ///< of a document of the context's length; 0: a plane that never turns
  index_t first = 0;
  std::optional<frequencies_by_length> by_length{};
  bool operator==(const captured_rope&) const = default;

  /// Returns the embedding as it is in every document of `tokens` tokens.
  captured_rope at_length(index_t tokens) const {
    captured_rope rope = *this;
    rope.by_length.reset();
    if (!by_length) return rope;
    const auto& l = *by_length;
    if (tokens <= l.context) {
      rope.inv_freq = l.usual;
    } else if (!l.beyond.empty()) {
      rope.inv_freq = l.beyond;
    } else {
      const auto f = dynamic_frequencies(l.theta, {l.factor, l.context}, rotary_dim, tokens);
      rope.inv_freq.assign(f.begin(), f.end());
    }
    for (std::size_t p = 0; p < inv_freq.size(); ++p)
      if (inv_freq[p] == 0) rope.inv_freq[p] = 0;
    return rope;
  }
  /// Gives `inv_freq` the frequencies of a document of `context` tokens.
  void set_context(index_t context) { inv_freq = at_length(context).inv_freq; }
};

/// Returns what captures of `context` tokens say about a model's rotary embedding.
inline captured_rope captured_rope_of(const rope_description& r, index_t context) {
  const auto doubles = [](const std::vector<float>& f) { return std::vector<double>(f.begin(), f.end()); };
  captured_rope rope{r.style(), r.rotary_dim, r.attention_factor, doubles(r.inv_freq), r.first};
  if (r.longrope)
    rope.by_length = {r.longrope->context, rope.inv_freq, doubles(r.longrope->inv_freq)};
  else if (r.dynamic)
    rope.by_length = {r.dynamic->context, rope.inv_freq, {}, r.theta, r.dynamic->factor};
  rope.set_context(context);
  return rope;
}

/// Returns the two coordinates that plane p of a rotary embedding rotates: (2p, 2p + 1) if it is interleaved, else (p,
/// p + number of planes), counted from its first coordinate.
inline std::pair<std::size_t, std::size_t> plane_of(const captured_rope& rope, std::size_t p) {
  const auto first = static_cast<std::size_t>(rope.first);
  return rope.style == "interleaved" ? std::pair{first + 2 * p, first + 2 * p + 1}
                                     : std::pair{first + p, first + p + rope.inv_freq.size()};
}

}  // namespace qkgeom
