// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

#include "qkgeom/core/random.hpp"
#include "qkgeom/rotary/grip.hpp"

namespace qkgeom::detail {

/// Draws `wanted` of n things, one from each of `wanted` equal stretches; all if there are no more. Returns whether
/// each is drawn.
inline std::vector<bool> spread_draw(std::size_t n, index_t wanted, const random_stream& draws, std::uint64_t first) {
  std::vector<bool> drawn(n, n <= static_cast<std::size_t>(wanted));
  if (drawn.empty() || drawn[0]) return drawn;
  const double stretch = static_cast<double>(n) / static_cast<double>(wanted);
  for (index_t i = 0; i < wanted; ++i) {
    const double at = (static_cast<double>(i) + draws.uniform(first + static_cast<std::uint64_t>(i))) * stretch;
    drawn[std::min(n - 1, static_cast<std::size_t>(at))] = true;
  }
  return drawn;
}

/// Returns the position of each token's matched needle; -1: none.
inline std::vector<index_t> matched_needles(const std::int32_t* token, index_t tokens, const grip_options& options) {
  std::vector<index_t> match(static_cast<std::size_t>(tokens), -1);
  std::map<std::int32_t, std::array<index_t, 2>> last;  // the last two positions of a token
  for (index_t t = 0; t < tokens; ++t) {
    auto& [one, other] = last.try_emplace(token[t], std::array<index_t, 2>{-1, -1}).first->second;
    if (one >= 0 && (other < 0 || other < t - options.near) && one + 1 >= options.first &&
        one + 1 < t - options.nearest)
      match[t] = one + 1;
    other = one;
    one = t;
  }
  return match;
}

/// A query of a document that was drawn.
struct grip_query {
  index_t row, at;  ///< row in the layer; position
  bool wins;        ///< its winner counts
  index_t match;    ///< position of its matched needle; -1: none
};

/// Adds a query and its needles to a document. A matched needle is moved to a distance of each bin; in documents that
/// are counted it stands at its own, if they are long enough.
inline void add_query(grip_plan& plan, needle_document& one, std::int32_t number, bool counted,
                      const grip_query& query) {
  const auto& o = plan.options;
  auto& to = plan.needles;
  const auto add = [&, n = std::ssize(one.row)](index_t key, index_t moved, index_t most, std::size_t slot) {
    one.needles.push_back({n, key, moved, most, static_cast<index_t>(slot)});
  };
  one.row.push_back(query.row);
  one.at.push_back(query.at);
  const index_t distance = query.at - query.match;
  index_t most = -1;
  for (const index_t top : o.tops) most = std::max(most, top - 1);
  if (query.wins && to.near > to.nearest) add(-1, -1, most, 0);
  if (query.match < 0) return;
  if (distance <= to.near) add(query.match, -1, most, 1);
  const random_stream draws{o.seed, static_cast<std::uint32_t>(number), 0, draw::grip_distance};
  for (std::size_t b = 0; b < plan.bins(); ++b) {
    const index_t begin = o.distances[b], end = o.distances[b + 1];
    if (counted) {
      if (begin <= distance && distance < end && distance <= o.lengths.back() && one.windows.size() == o.lengths.size())
        add(query.match, -1, distance <= plan.seen ? o.reach_top - 1 : -1, 2 + b);
      continue;
    }
    const auto i = static_cast<std::uint64_t>(query.at) * o.distances.size() + b;
    const double moved = static_cast<double>(begin) + static_cast<double>(end - begin) * draws.uniform(i);
    add(query.match, to.add(-moved), moved > static_cast<double>(plan.seen) ? -1 : o.reach_top - 1, 2 + b);
  }
}

QKGEOM_INLINE grip_plan plan_grip(const std::array<vector_view<const std::int32_t>, 2>& position,
                                  const std::array<vector_view<const std::int32_t>, 2>& document,
                                  const vector_view<const std::int32_t>& token, const std::optional<index_t>& window,
                                  const captured_rope& rope, bool counted, const grip_options& options) {
  const auto& [near, nearest, first, first_compete, lengths, tops, distances, reach_top, queries, seed] = options;
  require(nearest > 0 && near > nearest && first >= 0 && queries > 0, "grip: needs 0 < nearest < near, not ", nearest,
          " and ", near, ", and a query or more");
  require(!lengths.empty() && lengths[0] >= near && std::is_sorted(lengths.begin(), lengths.end()),
          "grip: lengths must be ascending numbers from `near`, ", near, " tokens");
  require(std::is_sorted(distances.begin(), distances.end()) && (distances.empty() || distances[0] >= nearest),
          "grip: distances must be ascending numbers from `nearest`, ", nearest, " tokens");
  grip_plan plan{.options = options, .seen = window ? *window - 1 : std::numeric_limits<index_t>::max()};
  auto& to = plan.needles;
  to.rotation = rotation_between(nullptr, rope);
  to.near = std::min(near, plan.seen);
  to.nearest = nearest;
  to.first = first;
  index_t q = 0, tokens = 0;
  for (index_t begin = 0, end = 0; begin < document[1].size; begin = end) {
    const std::int32_t number = document[1][begin];
    for (; end < document[1].size && document[1][end] == number; ++end)
      require(position[1][end] == end - begin, "grip: document ", number, " lacks the key at position ", end - begin,
              "; it needs the keys of every token in order (--sampler all)");
    needle_document one{.begin = begin, .tokens = end - begin, .windows = {to.near}};
    index_t longest = near;
    if (counted) {
      one.windows.clear();
      for (const index_t n : lengths)
        if (n + first + queries <= one.tokens) {
          one.windows.push_back(std::min(n, plan.seen));
          longest = n;
        }
      if (one.windows.empty()) continue;
    }
    std::vector<index_t> match(static_cast<std::size_t>(one.tokens), -1);
    if (token.size > 0) match = matched_needles(token.data + begin, one.tokens, options);
    if (!counted)
      for (index_t t = 0; t < one.tokens; ++t)
        if (t - match[t] > near) match[t] = -1;
    std::vector<index_t> all;  // rows of queries
    std::vector<std::size_t> with_match;
    for (; q < document[0].size && document[0][q] < number; ++q) {
    }
    for (; q < document[0].size && document[0][q] == number; ++q) {
      const index_t t = position[0][q];
      if (t < first + longest || t >= one.tokens) continue;
      if (match[t] >= 0) with_match.push_back(all.size());
      all.push_back(q);
    }
    const random_stream draws{seed, static_cast<std::uint32_t>(number), 0, draw::grip_query};
    const auto wins = spread_draw(all.size(), queries, draws, 0);
    const auto drawn = spread_draw(with_match.size(), queries, draws, static_cast<std::uint64_t>(queries));
    std::vector<bool> matches(all.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) matches[with_match[i]] = drawn[i];
    for (std::size_t i = 0; i < all.size(); ++i)
      if (wins[i] || matches[i])
        add_query(plan, one, number, counted,
                  {all[i], position[0][all[i]], wins[i], matches[i] ? match[position[0][all[i]]] : -1});
    if (one.row.empty()) continue;
    tokens = std::max(tokens, one.tokens);
    plan.documents.push_back(std::move(one));
  }
  to.own = to.positions;
  for (index_t t = 0; t < tokens; ++t) to.add(static_cast<double>(t));
  if (counted) return plan;
  to.far_keys = std::max<index_t>(0, tokens - first);
  to.far = to.positions;
  const random_stream draws{seed, 0, 0, draw::grip_distance};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const index_t low = std::min(i == 0 ? near : lengths[i - 1], plan.seen), high = std::min(lengths[i], plan.seen);
    to.weight.push_back(static_cast<double>(high - low));
    // Multiples of the golden ratio cover the shell evenly, whatever run of keys one looks at.
    const double start = draws.uniform(i);
    for (index_t j = 0; j < to.far_keys; ++j) {
      const double at = start + static_cast<double>(j) * (std::numbers::phi - 1);
      to.add(-(static_cast<double>(low) + (at - std::floor(at)) * to.weight.back()));
    }
  }
  if (!first_compete) return plan;
  to.sinks = to.positions;
  for (const index_t n : lengths)
    for (index_t t = 0; t < first; ++t) to.add(static_cast<double>(t - n));
  return plan;
}

/// The tail of far scores: the largest one, and the excesses over mean + 1.5 standard deviations.
struct score_tail {
  float top = 0;
  double start = 0, mean = 1, ratio = 2;  ///< mean excess; mean squared excess over its square
  double scale = 1, shape = 0;            ///< of the generalised Pareto distribution of excesses over `top`

  explicit score_tail(const score_excess& e) {
    top = e.top;
    start = e.start;
    if (!(e.sum > 0)) return;
    mean = e.sum / e.count;
    ratio = e.square / e.count / (mean * mean);
  }
  /// Takes the shape that belongs to a ratio by moments (Hosking and Wallis 1987).
  void fit(double mean_ratio) {
    shape = std::clamp(0.5 * (mean_ratio - 2) / std::max(0.1, mean_ratio - 1), -0.5, 0.45);
    scale = std::max(0.1 * mean, mean * (1 - shape) + shape * (top - start));
  }
  /// Returns the share beyond s of the scores above the largest one.
  double beyond(double s) const {
    const double z = (s - top) / scale;
    if (std::abs(shape) < 1e-6) return std::exp(-z);
    return std::pow(std::max(0.0, 1 + shape * z), -1 / shape);
  }
};

/// Returns log Gamma(x), x > 0, to 1e-10 (Stirling's series).
inline double log_gamma(double x) {
  double product = 1;
  for (; x < 12; ++x) product *= x;
  const double y = 1 / (x * x);
  return (x - 0.5) * std::log(x) - x + 0.91893853320467274 +
         (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260 - y / 1680))) / x - std::log(product);
}

QKGEOM_INLINE double share_free(index_t free, double n, double m, double far, double square) {
  if (free < 0) return 0;
  if (n <= static_cast<double>(free) || far <= 0) return 1;
  const double mean = std::min(far / (m + 1), 1 - 1e-12), variance = (square / (m + 1) - mean * mean) / (m + 2);
  const double size = variance > 0 ? std::clamp(mean * (1 - mean) / variance - 1, 1e-3, 1e8) : 1e8;
  const double a = mean * size, b = size - a;
  double p = std::exp(log_gamma(b + n) - log_gamma(b) + log_gamma(size) - log_gamma(size + n)), sum = p;
  for (index_t i = 0; i < free; ++i) {
    const auto x = static_cast<double>(i);
    p *= (n - x) * (a + x) / ((x + 1) * (b + n - x - 1));
    sum += p;
  }
  return std::min(1.0, sum);
}

/// Numbers of far gaps above a needle, summed over shells by their weights: all of them, the part of the needle's own
/// key, and the square of the other keys' shares. A needle above all scores counts in four ways: by its own key alone,
/// by the fitted tail, and as if all or none of the largest gap were above it.
struct far_gaps {
  enum way : std::size_t { counted, fitted, full, empty };
  std::array<double, 4> all{}, own{};
  double square = 0;

  /// `own_hit`: the needle's own key is above it; `next`: its own key is the highest one that is not.
  void add(double weight, double count, bool own_hit, bool next, const std::array<double, 4>& part) {
    for (std::size_t w = 0; w < 4; ++w) {
      all[w] += weight * (count + part[w]);
      own[w] += weight * ((own_hit ? 1 : 0) + (next ? part[w] : 0));
    }
  }
  /// Adds to a slot the probability that at most `free` of n far keys are above.
  void put(grip_slot& slot, index_t free, double n, double m) const {
    slot.n += 1;
    if (free < 0) return;
    const double scale = n > 0 ? 1 / n : 0;
    for (std::size_t w = 0; w < 4; ++w)
      slot.kept[w] += share_free(free, n, m, all[w] * scale, (square + own[w] * own[w]) * scale * scale);
  }
};

/// Returns the sums of a document's needles from the keys that were counted.
inline grip_sums counted_sums(const grip_plan& plan, const needle_document& document, const needle_scores& found) {
  const auto& o = plan.options;
  const auto windows = std::ssize(document.windows);
  grip_sums sums(plan.first_bin() + plan.bins());
  for (index_t a = 0; a < std::ssize(document.needles); ++a) {
    const needle& one = document.needles[a];
    const index_t* const near = found.near.data() + a * (windows + 1);
    const index_t first = o.first_compete && document.at[one.query] <= plan.seen ? near[windows] : 0;
    const auto put = [&](std::size_t slot, bool kept) {
      sums[slot].n += 1;
      for (double& sum_of_way : sums[slot].kept) sum_of_way += kept ? 1 : 0;
    };
    if (one.slot > 1) {
      put(plan.first_bin() + one.slot - 2, near[windows - 1] + first <= one.most);
      continue;
    }
    for (index_t i = 0; i < windows; ++i)
      for (std::size_t t = 0; t < o.tops.size(); ++t)
        put(plan.slot(static_cast<needle_kind>(one.slot), i, t), near[i] + first < o.tops[t]);
  }
  return sums;
}

QKGEOM_INLINE grip_sums sums_of(const grip_plan& plan, const needle_document& document, const needle_scores& found) {
  const auto& o = plan.options;
  const auto& weights = plan.needles.weight;
  if (weights.empty()) return counted_sums(plan, document, found);
  const auto queries = std::ssize(document.row), shells = std::ssize(weights);
  const auto m = static_cast<double>(document.tokens - o.first);
  grip_sums sums(plan.first_bin() + plan.bins());
  std::vector<score_tail> tails(found.excess.begin(), found.excess.end());
  for (index_t i = 0; i < shells; ++i) {  // the queries of a shell have one shape
    const auto of_shell = std::span(tails).subspan(i * queries, queries);
    double ratio = 0;
    for (const auto& t : of_shell) ratio += t.ratio / static_cast<double>(queries);
    for (auto& t : of_shell) t.fit(ratio);
  }
  for (index_t a = 0; a < std::ssize(document.needles); ++a) {
    const needle& one = document.needles[a];
    const float s = found.score[a];
    const index_t near = found.near[2 * a];
    far_gaps gaps;
    double n = 0;
    for (index_t i = 0; i < shells; ++i) {
      const double weight = weights[i];
      const auto& [p, own, first] = found.far[a * shells + i];
      const score_tail& tail = tails[i * queries + one.query];
      if (near <= one.most && s > tail.top) {
        const bool next = own == tail.top, tied = s - tail.top <= 1e-5f * (std::abs(s) + std::abs(tail.top));
        const double part = tail.beyond(s);
        gaps.add(weight, 0, false, next, {next ? part : 0, part, 1, tied ? 1.0 : 0.0});
      } else if (near <= one.most && weight > 0) {
        const bool next = own == p.below;
        const double part = !next ? 0 : p.count > 0 ? (p.above - s) / (p.above - p.below) : 1;
        gaps.add(weight, p.count, own > s, next, {part, part, part, part});
        gaps.square = p.square;
      }
      n += weight;
      if (one.slot > 1 && i + 1 == shells) gaps.put(sums[plan.first_bin() + one.slot - 2], one.most - near, n, m);
      if (one.slot > 1) continue;
      const index_t all = near + (o.lengths[i] <= plan.seen ? first : 0);
      for (std::size_t t = 0; t < o.tops.size(); ++t)
        gaps.put(sums[plan.slot(static_cast<needle_kind>(one.slot), i, t)], o.tops[t] - 1 - all, n, m);
    }
  }
  return sums;
}

/// Returns the distance at which shares (bins) fall below a half; NaN without a share.
inline double distance_at_half(const std::vector<double>& share, const std::vector<index_t>& edges) {
  double x = std::numeric_limits<double>::quiet_NaN(), y = x;  // the bin before
  for (std::size_t b = 0; b < share.size(); ++b) {
    if (std::isnan(share[b])) continue;
    const double middle = 0.5 * (std::log(static_cast<double>(edges[b])) + std::log(static_cast<double>(edges[b + 1])));
    if (share[b] < 0.5) return std::isnan(y) ? 0 : std::exp(x + (middle - x) * (y - 0.5) / (y - share[b]));
    x = middle;
    y = share[b];
  }
  return std::isnan(y) ? y : static_cast<double>(edges.back());
}

QKGEOM_INLINE head_grip grip_of(const grip_plan& plan, const std::vector<grip_sums>& documents) {
  const auto& o = plan.options;
  // Sums over the cases of each document.
  const auto kept = [&](std::size_t slot, std::size_t way) {
    std::vector<double> x;
    for (const auto& sums : documents) x.push_back(sums[slot].kept[way]);
    return x;
  };
  const auto number = [&](std::size_t slot) {
    std::vector<double> x;
    for (const auto& sums : documents) x.push_back(sums[slot].n);
    return x;
  };
  const auto of = [&](std::size_t slot, std::size_t way) { return ratio_of_sums(kept(slot, way), number(slot)); };
  const auto cases = [&](std::size_t slot) {
    const auto n = number(slot);
    return static_cast<index_t>(std::accumulate(n.begin(), n.end(), 0.0));
  };
  head_grip head;
  for (const auto kind : all_needle_kinds)
    for (std::size_t i = 0; i < o.lengths.size(); ++i)
      for (std::size_t t = 0; t < o.tops.size(); ++t) {
        const auto slot = plan.slot(kind, i, t);
        grip_value g;
        g.needle = kind;
        g.top = o.tops[t];
        g.length = o.lengths[i];
        g.cases = cases(slot);
        g.value = of(slot, far_gaps::counted);
        g.without = ratios_without(kept(slot, far_gaps::counted), number(slot));
        g.with_tail = of(slot, far_gaps::fitted).value;
        g.value.error = std::hypot(g.value.error, g.with_tail - g.value.value);
        g.least = of(slot, far_gaps::full).value;
        g.most = of(slot, far_gaps::empty).value;
        const index_t keys = std::min(g.length, plan.seen), found = plan.needles.near - o.nearest;
        double beaten = 1;
        for (index_t x = 0; x < g.top; ++x)
          beaten *= std::max(0.0, static_cast<double>(keys - found - x) / static_cast<double>(keys - x));
        g.chance = kind == needle_kind::winner ? 1 - beaten
                                               : std::min(1.0, static_cast<double>(g.top) / static_cast<double>(keys));
        head.grip.push_back(g);
      }
  if (plan.bins() == 0) return head;
  std::vector<double> share;
  std::vector<std::vector<double>> without(documents.size());
  for (std::size_t b = 0; b < plan.bins(); ++b) {
    const auto slot = plan.first_bin() + b;
    head.kept.push_back({o.distances[b], o.distances[b + 1], cases(slot), of(slot, far_gaps::counted)});
    share.push_back(head.kept.back().value.value);
    const auto shares = ratios_without(kept(slot, far_gaps::counted), number(slot));
    for (std::size_t e = 0; e < documents.size(); ++e)
      without[e].push_back(std::isnan(shares[e]) ? share.back() : shares[e]);
  }
  for (const auto& shares : without) head.reach_without.push_back(distance_at_half(shares, o.distances));
  head.reach = jackknife(distance_at_half(share, o.distances), head.reach_without);
  return head;
}

}  // namespace qkgeom::detail
