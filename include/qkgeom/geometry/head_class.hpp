// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cmath>
#include <string_view>

#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// Class of a head by the correlations r_q, r_k of PCA component 0 with position (section 4.2).
enum class head_class { position_dominated, q_positional, k_positional, content_focused, mixed };

inline constexpr std::array<head_class, 5> all_head_classes{head_class::position_dominated, head_class::q_positional,
                                                            head_class::k_positional, head_class::content_focused,
                                                            head_class::mixed};

constexpr std::string_view name_of(head_class c) {
  constexpr std::string_view names[] = {"position_dominated", "q_positional", "k_positional", "content_focused",
                                        "mixed"};
  return names[static_cast<int>(c)];
}

struct class_thresholds {
  double low = 0.3;
  double high = 0.7;
};

/// Classifies a head: position_dominated: |r_q| and |r_k| above `high`; q_positional: only |r_q|; k_positional: |r_k|
/// above `high`, |r_q| below `low`; content_focused: both below `low`; mixed: all others. The thesis counts
/// k_positional as mixed. Throws unless low <= high.
inline head_class classify(double r_q, double r_k, const class_thresholds& thresholds = {}) {
  require(thresholds.low <= thresholds.high, "head classes: the threshold low (", thresholds.low,
          ") must not be above high (", thresholds.high, ")");
  const double q = std::abs(r_q), k = std::abs(r_k);
  if (q > thresholds.high) return k > thresholds.high ? head_class::position_dominated : head_class::q_positional;
  if (k > thresholds.high && q < thresholds.low) return head_class::k_positional;
  if (q < thresholds.low && k < thresholds.low) return head_class::content_focused;
  return head_class::mixed;
}

}  // namespace qkgeom
