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
#include "qkgeom/linalg/products.hpp"
#include "qkgeom/linalg/scores.hpp"
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

QKGEOM_INLINE std::vector<grip_document> grip_documents(const std::array<vector_view<const std::int32_t>, 2>& position,
                                                        const std::array<vector_view<const std::int32_t>, 2>& document,
                                                        const vector_view<const std::int32_t>& token,
                                                        const captured_rope& rope, bool counted,
                                                        const grip_options& options) {
  const auto& [near, nearest, first, first_compete, lengths, tops, distances, reach_top, queries, seed] = options;
  require(nearest > 0 && near > nearest && first >= 0 && queries > 0, "grip: needs 0 < nearest < near, not ", nearest,
          " and ", near, ", and a query or more");
  require(!lengths.empty() && lengths[0] >= near && std::is_sorted(lengths.begin(), lengths.end()),
          "grip: lengths must be ascending numbers from `near`, ", near, " tokens");
  require(std::is_sorted(distances.begin(), distances.end()) && (distances.empty() || distances[0] >= nearest),
          "grip: distances must be ascending numbers from `nearest`, ", nearest, " tokens");
  std::vector<grip_document> found;
  index_t q = 0;
  for (index_t begin = 0, end = 0; begin < document[1].size; begin = end) {
    const std::int32_t number = document[1][begin];
    for (; end < document[1].size && document[1][end] == number; ++end)
      require(position[1][end] == end - begin, "grip: document ", number, " lacks the key at position ", end - begin,
              "; it needs the keys of every token in order (--sampler all)");
    grip_document one{.begin = begin, .tokens = end - begin, .longest = lengths.back()};
    if (counted) {
      one.longest = 0;
      for (const index_t n : lengths)
        if (n + first + queries <= one.tokens) one.longest = n;
      if (one.longest == 0) continue;
    }
    const index_t from = first + (counted ? one.longest : near);
    std::vector<index_t> match(static_cast<std::size_t>(one.tokens), -1);
    if (token.size > 0) match = matched_needles(token.data + begin, one.tokens, options);
    if (!counted)
      for (index_t t = 0; t < one.tokens; ++t)
        if (t - match[t] > near) match[t] = -1;
    std::vector<grip_case> all;
    std::vector<std::size_t> with_match;
    for (; q < document[0].size && document[0][q] < number; ++q) {
    }
    for (; q < document[0].size && document[0][q] == number; ++q) {
      const index_t t = position[0][q];
      if (t < from || t >= one.tokens) continue;
      if (match[t] >= 0) with_match.push_back(all.size());
      all.push_back({.row = q, .at = t});
    }
    const random_stream draws{seed, static_cast<std::uint32_t>(number), 0, draw::grip_query};
    const auto wins = spread_draw(all.size(), queries, draws, 0);
    const auto matches = spread_draw(with_match.size(), queries, draws, static_cast<std::uint64_t>(queries));
    for (std::size_t i = 0; i < all.size(); ++i) all[i].winner = wins[i];
    for (std::size_t i = 0; i < with_match.size(); ++i)
      if (matches[i]) all[with_match[i]].match = match[all[with_match[i]].at];
    for (auto& c : all) {
      if (!c.winner && c.match < 0) continue;
      const random_stream turns{seed, static_cast<std::uint32_t>(number), 0, draw::grip_distance};
      for (std::size_t b = 0; !counted && c.match >= 0 && b + 1 < distances.size(); ++b) {
        const auto width = static_cast<double>(distances[b + 1] - distances[b]);
        const auto i = static_cast<std::uint64_t>(c.at) * distances.size() + b;
        c.distance.push_back(static_cast<double>(distances[b]) + width * turns.uniform(i));
        c.far.emplace_back(rotation_between(nullptr, rope), 0, -c.distance.back());
      }
      one.cases.push_back(std::move(c));
    }
    if (!one.cases.empty()) found.push_back(std::move(one));
  }
  return found;
}

QKGEOM_INLINE grip_plan plan_grip(const std::vector<grip_document>& documents, const std::optional<index_t>& window,
                                  const captured_rope& rope, bool counted, const grip_options& options) {
  grip_plan plan{.options = options, .seen = window ? *window - 1 : std::numeric_limits<index_t>::max()};
  index_t tokens = 0;
  for (const auto& e : documents) tokens = std::max(tokens, e.tokens);
  const auto rotation = rotation_between(nullptr, rope);
  plan.far_keys = std::max<index_t>(0, tokens - options.first);
  for (index_t t = 0; t < tokens; ++t) plan.own.emplace_back(rotation, 0, static_cast<double>(t));
  if (counted) return plan;
  const random_stream draws{options.seed, 0, 0, draw::grip_distance};
  for (std::size_t i = 0; i < options.lengths.size(); ++i) {
    const index_t low = std::min(i == 0 ? options.near : options.lengths[i - 1], plan.seen),
                  high = std::min(options.lengths[i], plan.seen);
    plan.weight.push_back(static_cast<double>(high - low));
    // Multiples of the golden ratio cover the shell evenly, whatever run of keys one looks at.
    const double start = draws.uniform(i);
    for (index_t j = 0; j < plan.far_keys; ++j) {
      const double at = start + static_cast<double>(j) * (std::numbers::phi - 1);
      const double distance = static_cast<double>(low) + (at - std::floor(at)) * plan.weight.back();
      plan.far.emplace_back(rotation, 0, -distance);
    }
    for (index_t t = 0; t < options.first && options.first_compete; ++t)
      plan.sinks.emplace_back(rotation, 0, static_cast<double>(t - options.lengths[i]));
  }
  return plan;
}

/// Returns the rows of x (n, d), each under its rotation.
inline std::vector<float> rotated_rows(const float* x, index_t d, const vector_rotation* rotations, index_t n) {
  std::vector<float> y(x, x + n * d);
  for (index_t i = 0; i < n; ++i) rotations[i](y.data() + i * d);
  return y;
}

/// Scores of far keys (n): the largest, and the excesses of those over mean + 1.5 standard deviations.
struct score_tail {
  float top = 0;
  double start = 0, mean = 1, ratio = 2;  ///< mean excess; mean squared excess over its square
  double scale = 1, shape = 0;            ///< of the generalised Pareto distribution of excesses over `top`

  score_tail(const float* v, index_t n) {
    const auto e = linalg::excess_of(v, n);
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

/// Returns the rows of q (cases, d) rotated to the queries' own positions.
inline std::vector<float> at_own_position(const grip_plan& plan, const grip_document& document, const float* q,
                                          index_t d) {
  std::vector<float> y(q, q + std::ssize(document.cases) * d);
  for (std::size_t c = 0; c < document.cases.size(); ++c)
    plan.own[document.cases[c].at](y.data() + static_cast<index_t>(c) * d);
  return y;
}

inline index_t count_above(const float* begin, const float* end, float s) {
  return std::count_if(begin, end, [s](float x) { return x > s; });
}

QKGEOM_INLINE std::vector<grip_sums> predicted_cases(const grip_plan& plan, const grip_document& document,
                                                     const std::vector<float>& q, const std::vector<float>& k,
                                                     index_t d) {
  const auto& o = plan.options;
  const auto cases = std::ssize(document.cases), shells = std::ssize(o.lengths);
  const index_t m = document.tokens - o.first, width = round_up(m, linalg::score_lanes), near = plan.near();
  const auto near_k = rotated_rows(k.data(), d, plan.own.data(), document.tokens);
  std::vector<float> far_k(shells * width * d), sinks;
  for (index_t i = 0; i < shells; ++i) {
    const auto rows = rotated_rows(k.data() + o.first * d, d, plan.far.data() + i * plan.far_keys, m);
    std::copy(rows.begin(), rows.end(), far_k.begin() + i * width * d);
    if (!o.first_compete) continue;
    const auto first = rotated_rows(k.data(), d, plan.sinks.data() + i * o.first, o.first);
    sinks.insert(sinks.end(), first.begin(), first.end());
  }
  const std::vector<vector_rotation> none(cases, plan.own[0]);
  std::vector<float> near_scores(cases * document.tokens), far_scores(cases * shells * width),
      sink_scores(cases * shells * o.first), share(width);
  std::vector<grip_sums> result(q.size() / (cases * d), grip_sums(plan.first_bin() + plan.bins()));
  for (std::size_t h = 0; h < result.size(); ++h) {
    const float* const rows = q.data() + static_cast<index_t>(h) * cases * d;
    const auto still = rotated_rows(rows, d, none.data(), cases);
    linalg::row_products(at_own_position(plan, document, rows, d).data(), cases, near_k.data(), document.tokens, d,
                         near_scores.data());
    for (index_t i = 0; i < shells; ++i)
      if (plan.weight[i] > 0)
        linalg::row_products(still.data(), cases, far_k.data() + i * width * d, width, d,
                             far_scores.data() + i * cases * width);
    if (o.first_compete)
      linalg::row_products(still.data(), cases, sinks.data(), shells * o.first, d, sink_scores.data());
    std::vector<score_tail> tails;  // (shells, cases); the cases of a shell have one shape
    for (index_t i = 0; i < shells; ++i) {
      double ratio = 0;
      for (index_t c = 0; c < cases; ++c) {
        float* const v = far_scores.data() + (i * cases + c) * width;
        std::fill(v + m, v + width, linalg::no_score);
        tails.emplace_back(v, m);
        ratio += tails.back().ratio / static_cast<double>(cases);
      }
      for (auto& t : std::span(tails).last(cases)) t.fit(ratio);
    }
    for (index_t c = 0; c < cases; ++c) {
      const auto& one = document.cases[c];
      const float* const near_end = near_scores.data() + c * document.tokens + one.at;
      const float* const near_begin = near_end - near;
      const float* const far = far_scores.data() + c * width;  // (shells), a step of cases * width
      // Calls at(length, gaps, far keys) for a needle of score s and position `own`.
      const auto gaps_above = [&](float s, index_t own, const auto& at) {
        far_gaps gaps;
        double n = 0;
        std::fill(share.begin(), share.end(), 0.f);
        for (index_t i = 0; i < shells; ++i) {
          const double weight = plan.weight[i];
          const score_tail& tail = tails[i * cases + c];
          const float *const v = far + i * cases * width, top = tail.top;
          const float itself = v[own - o.first];
          if (s > top) {
            const bool next = itself == top, tied = s - top <= 1e-5f * (std::abs(s) + std::abs(top));
            const double part = tail.beyond(s);
            gaps.add(weight, 0, false, next, {next ? part : 0, part, 1, tied ? 1.0 : 0.0});
          } else if (weight > 0) {
            const auto p = linalg::split_at(v, width, s, static_cast<float>(weight), share.data());
            const bool next = itself == p.below;
            const double part = !next ? 0 : p.count > 0 ? (p.above - s) / (p.above - p.below) : 1;
            gaps.add(weight, p.count, itself > s, next, {part, part, part, part});
            gaps.square = p.square - share[own - o.first] * share[own - o.first];
          }
          n += weight;
          at(i, gaps, n);
        }
      };
      const auto put_grip = [&](needle_kind kind, float s, index_t own) {
        const index_t base = count_above(near_begin, near_end, s);
        gaps_above(s, own, [&](index_t i, const far_gaps& gaps, double n) {
          const float* const first = sink_scores.data() + (c * shells + i) * o.first;
          const bool competes = o.first_compete && o.lengths[i] <= plan.seen;
          const index_t all = base + (competes ? count_above(first, first + o.first, s) : 0);
          for (std::size_t t = 0; t < o.tops.size(); ++t)
            gaps.put(result[h][plan.slot(kind, i, t)], o.tops[t] - 1 - all, n, static_cast<double>(m));
        });
      };
      if (one.winner && near > o.nearest) {
        const float* const best = std::max_element(near_begin, near_end - o.nearest);
        put_grip(needle_kind::winner, *best, one.at + (best - near_end));
      }
      if (one.match < 0) continue;
      if (one.at - one.match <= near) put_grip(needle_kind::matched, near_end[one.match - one.at], one.match);
      for (std::size_t b = 0; b < plan.bins(); ++b) {
        auto& slot = result[h][plan.first_bin() + b];
        std::vector<float> key(k.data() + one.match * d, k.data() + (one.match + 1) * d);
        one.far[b](key.data());
        float s = 0;
        for (index_t x = 0; x < d; ++x) s += still[c * d + x] * key[x];
        index_t free = o.reach_top - 1 - count_above(near_begin, near_end, s);
        if (one.at - one.match <= near && near_end[one.match - one.at] > s) ++free;  // it stands elsewhere
        if (one.distance[b] > static_cast<double>(plan.seen)) free = -1;
        if (free < 0)
          slot.n += 1;
        else
          gaps_above(s, one.match, [&](index_t i, const far_gaps& gaps, double n) {
            if (i + 1 == shells) gaps.put(slot, free, n, static_cast<double>(m));
          });
      }
    }
  }
  return result;
}

QKGEOM_INLINE std::vector<grip_sums> counted_cases(const grip_plan& plan, const grip_document& document,
                                                   const std::vector<float>& q, const std::vector<float>& k,
                                                   index_t d) {
  const auto& o = plan.options;
  const auto cases = std::ssize(document.cases);
  const auto own_k = rotated_rows(k.data(), d, plan.own.data(), document.tokens);
  std::vector<float> scores(cases * document.tokens);
  std::vector<grip_sums> result(q.size() / (cases * d), grip_sums(plan.first_bin() + plan.bins()));
  for (std::size_t h = 0; h < result.size(); ++h) {
    const auto own_q = at_own_position(plan, document, q.data() + static_cast<index_t>(h) * cases * d, d);
    linalg::row_products(own_q.data(), cases, own_k.data(), document.tokens, d, scores.data());
    for (index_t c = 0; c < cases; ++c) {
      const auto& one = document.cases[c];
      const float *const begin = scores.data() + c * document.tokens, *const end = begin + one.at;
      const auto above = [&](float s, index_t n) {
        const bool sees_first = o.first_compete && one.at <= plan.seen;
        return count_above(end - std::min(n, plan.seen), end, s) +
               (sees_first ? count_above(begin, begin + o.first, s) : 0);
      };
      const auto put = [&](std::size_t slot, bool kept) {
        const double x = kept ? 1 : 0;
        auto& sum = result[h][slot];
        sum.n += 1;
        for (double& sum_of_way : sum.kept) sum_of_way += x;
      };
      const auto put_grip = [&](needle_kind kind, float s) {
        for (std::size_t i = 0; i < o.lengths.size() && o.lengths[i] <= document.longest; ++i) {
          const index_t count = above(s, o.lengths[i]);
          for (std::size_t t = 0; t < o.tops.size(); ++t) put(plan.slot(kind, i, t), count < o.tops[t]);
        }
      };
      if (one.winner && plan.near() > o.nearest)
        put_grip(needle_kind::winner, *std::max_element(end - plan.near(), end - o.nearest));
      if (one.match < 0) continue;
      const index_t distance = one.at - one.match;
      if (distance <= plan.near()) put_grip(needle_kind::matched, begin[one.match]);
      if (distance > o.lengths.back() || document.longest < o.lengths.back()) continue;
      const bool kept = distance <= plan.seen && above(begin[one.match], o.lengths.back()) < o.reach_top;
      for (std::size_t b = 0; b < plan.bins(); ++b)
        if (o.distances[b] <= distance && distance < o.distances[b + 1]) put(plan.first_bin() + b, kept);
    }
  }
  return result;
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
        const index_t keys = std::min(g.length, plan.seen), found = plan.near() - o.nearest;
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
