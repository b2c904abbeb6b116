// SPDX-License-Identifier: MIT
// Reports with profiles written down by hand, for tests of numbers over many heads.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "qkgeom/report/head_report.hpp"

namespace qkgeom::test {

constexpr int hand_buckets = 10, hand_documents = 4;

/// Sums and weights by bucket and document.
using hand_sums = std::vector<std::vector<std::pair<double, double>>>;

/// A profile of buckets of a hundred tokens, of these documents.
inline plasticity_profile_result hand_profile(const hand_sums& sums, const std::vector<index_t>& queries,
                                              const std::vector<std::int32_t>& documents) {
  plasticity_profile_result p{"diagonal", false, documents, {}, {}};
  for (std::size_t b = 0; b < sums.size(); ++b) {
    profile_bucket out;
    out.start = static_cast<index_t>(100 * b);
    out.end = out.start + 100;
    out.queries = queries[b];
    for (const auto& [s, w] : sums[b]) {
      out.document_sum.push_back(s);
      out.document_weight.push_back(w);
      out.pairs += static_cast<std::int64_t>(w);
    }
    set_mean_and_error(out);
    p.buckets.push_back(std::move(out));
  }
  return p;
}

/// Ten buckets of a hundred tokens; document e of head h has `value(h, b, e)` in bucket b over 5 + e pairs, `left_out`
/// excepted.
inline model_report hand_report(int heads, const std::function<double(int, int, int)>& value, int left_out = -1) {
  model_report report{"m", 1000, uniform_buckets{100}.edges(1000), {}};
  std::vector<std::int32_t> documents;
  for (int e = 0; e < hand_documents; ++e)
    if (e != left_out) documents.push_back(20 + e);
  for (int h = 0; h < heads; ++h) {
    head_report head;
    head.layer = h / 2;
    head.q_head = h % 2;
    head.rope = h % 4 < 2;
    hand_sums sums(hand_buckets);
    std::vector<index_t> queries;
    for (int b = 0; b < hand_buckets; ++b) {
      queries.push_back(7 + b);
      for (const std::int32_t document : documents) {
        const int e = document - 20;
        const double pairs = b == 0 ? 0 : 5.0 + e;
        sums[b].emplace_back(pairs * value(h, b, e), pairs);
      }
    }
    head.profiles.push_back(hand_profile(sums, queries, documents));
    head.summaries.push_back(summarize(head.profiles[0], 1000));
    report.heads.push_back(std::move(head));
  }
  return report;
}

inline double scattered(int h, int b, int e) {
  return 0.5 + 0.4 * std::sin(1.7 * h) * (1 - 0.08 * b) + 0.02 * std::cos(3.0 * h + 2.0 * e + b);
}

/// The error of a number of which `without(e)` is what it is without document e.
inline double jackknife_by_hand(const std::function<double(int)>& without) {
  return jackknife_error({without(0), without(1), without(2), without(3)});
}

}  // namespace qkgeom::test
