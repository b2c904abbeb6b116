// SPDX-License-Identifier: MIT
#include "capture/forward/feed_forward.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "capture/forward/row_ops.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {
namespace {

void add_bias(std::span<float> row, const linear_weights& map, bool biased, bool rounds) {
  if (biased)
    add_into(row, map.b, rounds);
  else if (rounds)
    round_row(row);
}

/// One expert's share of a token.
struct expert_choice {
  index_t token;
  float weight;
};

/// The tokens of each expert, by router logits (rows, experts), which are rounded with `rounds`: the largest logits,
/// the first of equal ones.
std::vector<std::vector<expert_choice>> choose_experts(const experts_description& e, index_t rows,
                                                       std::vector<float>& logits, bool rounds) {
  if (rounds) round_row(std::span(logits).first(static_cast<std::size_t>(rows * e.count)));
  std::vector<std::vector<expert_choice>> tokens(e.count);
  std::vector<index_t> order(e.count);
  for (index_t r = 0; r < rows; ++r) {
    const float* const x = logits.data() + r * e.count;
    const float top = *std::max_element(x, x + e.count);
    std::iota(order.begin(), order.end(), index_t{0});
    std::partial_sort(order.begin(), order.begin() + e.chosen, order.end(),
                      [x](index_t a, index_t b) { return x[a] != x[b] ? x[a] > x[b] : a < b; });
    float sum = 0;
    for (index_t i = 0; i < (e.normalised ? e.chosen : e.count); ++i)
      sum += std::exp(x[e.normalised ? order[i] : i] - top);
    for (index_t i = 0; i < e.chosen; ++i) {
      const float weight = std::exp(x[order[i]] - top) / sum;
      tokens[order[i]].push_back({r, rounds ? static_cast<float>(bf16::round(weight)) : weight});
    }
  }
  return tokens;
}

}  // namespace

void feed_forward(const decoder_description& d, const feed_forward_weights& weights, index_t width, index_t rows,
                  const float* x, bool rounds, float* y, feed_forward_scratch& s) {
  const bool gated = d.feed_forward_form != feed_forward_kind::not_gated;
  const index_t wide = gated ? 2 * width : width;
  if (s.wide.size() < static_cast<std::size_t>(rows * wide)) s.wide.resize(rows * wide);
  weights.up.w.multiply(rows, wide, x, d.hidden, s.wide.data(), wide, s.product);
  for (index_t r = 0; r < rows; ++r) {
    const std::span<float> row(s.wide.data() + r * wide, static_cast<std::size_t>(wide));
    add_bias(row, weights.up, d.feed_forward_bias, rounds);
    if (gated)
      gate_into(d.act, row.first(static_cast<std::size_t>(width)), row.last(static_cast<std::size_t>(width)), rounds);
    else
      activate(d.act, row, rounds);
  }
  weights.down.w.multiply(rows, d.hidden, s.wide.data(), wide, y, d.hidden, s.product);
  for (index_t r = 0; r < rows; ++r)
    add_bias({y + r * d.hidden, static_cast<std::size_t>(d.hidden)}, weights.down, d.feed_forward_bias, rounds);
}

void mixture_of_experts(const decoder_description& d, const layer_weights& weights, index_t rows, const float* x,
                        bool rounds, float* y, feed_forward_scratch& s) {
  const experts_description& e = *d.experts;
  s.router.resize(rows * e.count);
  weights.router.w.multiply(rows, e.count, x, d.hidden, s.router.data(), e.count, s.product);
  std::fill_n(y, rows * d.hidden, 0.0f);
  const auto tokens = choose_experts(e, rows, s.router, rounds);
  for (index_t i = 0; i < e.count; ++i) {
    const auto& mine = tokens[i];
    const auto count = static_cast<index_t>(mine.size());
    if (count == 0) continue;
    s.rows.resize(count * d.hidden);
    s.out.resize(count * d.hidden);
    for (index_t r = 0; r < count; ++r)
      std::copy_n(x + mine[r].token * d.hidden, d.hidden, s.rows.data() + r * d.hidden);
    feed_forward(d, weights.experts[i], e.width, count, s.rows.data(), rounds, s.out.data(), s);
    for (index_t r = 0; r < count; ++r) {
      const std::span<float> row(s.out.data() + r * d.hidden, static_cast<std::size_t>(d.hidden));
      scale_row(row, mine[r].weight, rounds);
      add_into({y + mine[r].token * d.hidden, static_cast<std::size_t>(d.hidden)}, row, rounds);
    }
  }
}

}  // namespace qkgeom
