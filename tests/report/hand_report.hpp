// SPDX-License-Identifier: MIT
// Reports with profiles written down by hand, for tests of numbers over many heads.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#include "qkgeom/report/head_report.hpp"

namespace qkgeom::test {

constexpr int hand_buckets = 10, hand_documents = 4;

/// Ten buckets of a hundred tokens; document e of head h has `value(h, b, e)` in bucket b over 5 + e pairs, `left_out`
/// excepted.
inline model_report hand_report(int heads, const std::function<double(int, int, int)>& value, int left_out = -1) {
  model_report report{"m", 1000, uniform_buckets{100}.edges(1000), {}};
  for (int h = 0; h < heads; ++h) {
    head_report head;
    head.layer = h / 2;
    head.q_head = h % 2;
    head.rope = h % 4 < 2;
    plasticity_profile_result p{"diagonal", false, {}, {}, {}};
    for (int e = 0; e < hand_documents; ++e)
      if (e != left_out) p.documents.push_back(20 + e);
    for (int b = 0; b < hand_buckets; ++b) {
      profile_bucket out;
      out.start = 100 * b;
      out.end = out.start + 100;
      out.queries = 7 + b;
      for (int e = 0; e < hand_documents; ++e) {
        if (e == left_out) continue;
        const double pairs = b == 0 ? 0 : 5.0 + e;
        out.document_sum.push_back(pairs * value(h, b, e));
        out.document_weight.push_back(pairs);
        out.pairs += static_cast<std::int64_t>(pairs);
      }
      set_mean_and_error(out);
      p.buckets.push_back(std::move(out));
    }
    head.summaries.push_back(summarize(p, 1000));
    head.profiles.push_back(std::move(p));
    report.heads.push_back(std::move(head));
  }
  return report;
}

inline double scattered(int h, int b, int e) {
  return 0.5 + 0.4 * std::sin(1.7 * h) * (1 - 0.08 * b) + 0.02 * std::cos(3.0 * h + 2.0 * e + b);
}

inline double jackknife_by_hand(const std::function<double(int)>& without) {
  double mean = 0, square = 0;
  for (int e = 0; e < hand_documents; ++e) mean += without(e) / hand_documents;
  for (int e = 0; e < hand_documents; ++e) square += (without(e) - mean) * (without(e) - mean);
  return std::sqrt(square * (hand_documents - 1) / hand_documents);
}

}  // namespace qkgeom::test
