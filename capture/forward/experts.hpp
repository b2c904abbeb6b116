// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "capture/forward/device_buffer.hpp"
#include "capture/forward/kernels.hpp"
#include "capture/forward/linear_map.hpp"
#include "capture/model/description.hpp"

namespace qkgeom::device_kernels {

/// Chooses each row's experts, by the largest logits (ties: the lower index; NaN comes last), and their shares.
template <class T>
struct choose_experts {
  const float* logits;  ///< (rows, experts)
  index_t experts, chosen;
  bool normalised;                        ///< shares add up to 1, or to `scale`
  std::int32_t* expert;                   ///< (rows, chosen)
  float* share;                           ///< the same
  const float* correction = nullptr;      ///< (experts) added to sigmoids of logits to rank experts; null: logits rank
  float scale = 1;                        ///< factor of shares if `correction` is given
  const float* bias = nullptr;            ///< (experts) added to logits; null: no bias
  index_t groups = 1, chosen_groups = 1;  ///< the best `chosen_groups` of `groups` groups supply experts
  bool apart = false;                     ///< shares are sigmoids of their logits, not a softmax
  float* ranks = nullptr;                 ///< (rows, experts + groups) working memory; needed with `correction`

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const float* const x = logits + row * experts;
    if (correction) return by_sigmoids(team, row, x);
    const auto logit = [=, this](index_t i) {
      const float v = rounded<T>(bias ? x[i] + bias[i] : x[i]);
      return v == v ? v : -HUGE_VALF;
    };
    float top = -HUGE_VALF;
    for (index_t i = team.rank(); i < experts; i += team.size()) top = std::fmax(top, logit(i));
    top = team.max(top);
    float* const shares = share + row * chosen;
    float sum = 0;
    for (index_t i = team.rank(); i < experts; i += team.size()) {
      const float mine = logit(i), weight = std::exp(mine - top);
      index_t place = 0;
      for (index_t j = 0; j < experts; ++j) place += logit(j) > mine || (logit(j) == mine && j < i);
      sum += weight;
      if (place >= chosen) continue;
      expert[row * chosen + place] = static_cast<std::int32_t>(i);
      shares[place] = weight;
    }
    sum = team.sum(sum);
    if (normalised) {
      sum = 0;
      for (index_t i = 0; i < chosen; ++i) sum += shares[i];
    }
    team.sync();
    for (index_t i = team.rank(); i < chosen; i += team.size())
      shares[i] =
          rounded<T>(apart ? value_functions<float>::sigmoid(logit(expert[row * chosen + i])) : shares[i] / sum);
  }

 private:
  /// Chooses by sigmoids plus `correction`, in f32 for every T.
  template <class Team>
  QKGEOM_HD void by_sigmoids(const Team& team, index_t row, const float* x) const {
    const auto sigmoid = [=](index_t i) { return x[i] == x[i] ? 1.0f / (1.0f + std::exp(-x[i])) : 0.0f; };
    float* const rank_by = ranks + row * (experts + groups);
    for (index_t i = team.rank(); i < experts; i += team.size()) rank_by[i] = sigmoid(i) + correction[i];
    team.sync();
    if (groups > 1) leave_groups(team, rank_by);
    float* const shares = share + row * chosen;
    for (index_t i = team.rank(); i < experts; i += team.size()) {
      const index_t place = place_of(rank_by, experts, i);
      if (place >= chosen) continue;
      expert[row * chosen + place] = static_cast<std::int32_t>(i);
      shares[place] = sigmoid(i);
    }
    team.sync();
    float sum = 1;
    if (normalised) {
      sum = 1e-20f;
      for (index_t i = 0; i < chosen; ++i) sum += shares[i];
    }
    team.sync();
    for (index_t i = team.rank(); i < chosen; i += team.size()) shares[i] = shares[i] / sum * scale;
  }

  /// Counts the entries before entry i: larger ones, and equal ones of lower index.
  QKGEOM_HD static index_t place_of(const float* x, index_t n, index_t i) {
    index_t place = 0;
    for (index_t j = 0; j < n; ++j) place += x[j] > x[i] || (x[j] == x[i] && j < i);
    return place;
  }

  /// Ranks the experts outside the chosen groups last. A group's rank is the sum of its two best experts.
  template <class Team>
  QKGEOM_HD void leave_groups(const Team& team, float* rank_by) const {
    const index_t each = experts / groups;
    float* const of_group = rank_by + experts;
    for (index_t g = team.rank(); g < groups; g += team.size()) {
      float best = -HUGE_VALF, second = -HUGE_VALF;
      for (index_t i = g * each; i < (g + 1) * each; ++i) {
        second = std::fmax(second, std::fmin(best, rank_by[i]));
        best = std::fmax(best, rank_by[i]);
      }
      of_group[g] = best + second;
    }
    team.sync();
    for (index_t i = team.rank(); i < experts; i += team.size())
      if (place_of(of_group, groups, i / each) >= chosen_groups) rank_by[i] = -HUGE_VALF;
    team.sync();
  }
};

/// Gathers rows for the experts into (rows chosen, width): row i is the row of choice number `choice[i]`.
template <class T>
struct take_rows {
  const T* from;               ///< (rows, width)
  const std::int32_t* choice;  ///< (rows chosen) numbers of entries of (rows, chosen)
  index_t chosen, width;
  T* to;
  const float* share = nullptr;  ///< (rows, chosen) factors of the rows; null: 1

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t i) const {
    const T* const x = from + choice[i] / chosen * width;
    T* const y = to + i * width;
    const float times = share ? share[choice[i]] : 1.0f;
    each_column(
        team, width, [=](auto c) { return load(x, c); }, [=](auto c, auto v) { store(y, c, v * times); });
  }
};

/// Adds up the outputs of a row's experts times their shares, expert after expert, into to (rows, width).
template <class T>
struct add_expert_rows {
  const T* from;                       ///< (rows chosen, width)
  const std::int32_t *place, *choice;  ///< (rows, chosen) rows of `from`, ascending; as in `take_rows`
  const float* share;                  ///< (rows, chosen), by choice; null: 1
  index_t chosen, width;
  T* to;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    using value = typename Team::value;
    for_columns(team, width, [&](auto c) {
      value y{};
      for (index_t k = row * chosen; k < (row + 1) * chosen; ++k)
        y = rounded<T>(y + rounded<T>(load(from + place[k] * width, c) * (share ? share[choice[place[k]]] : 1.0f)));
      store(to + row * width, c, y);
    });
  }
};

}  // namespace qkgeom::device_kernels

namespace qkgeom {

/// Choices (rows, chosen) sorted by expert: expert e has [begin[e], begin[e + 1]), in the order of rows.
struct choices_by_expert {
  std::vector<index_t> begin;
  std::vector<std::int32_t> choice;  ///< numbers of the choices
  std::vector<std::int32_t> place;   ///< (rows, chosen) places of a row's choices, ascending

  choices_by_expert(const std::vector<std::int32_t>& expert, index_t experts, index_t chosen)
      : begin(static_cast<std::size_t>(experts) + 1), choice(expert.size()), place(expert.size()) {
    for (const std::int32_t e : expert) ++begin[static_cast<std::size_t>(e) + 1];
    for (std::size_t e = 1; e < begin.size(); ++e) begin[e] += begin[e - 1];
    auto next = begin;
    for (std::size_t i = 0; i < expert.size(); ++i) {
      const index_t slot = next[expert[i]]++;
      choice[slot] = static_cast<std::int32_t>(i);
      place[i] = static_cast<std::int32_t>(slot);
    }
    for (auto row = place.begin(); row < place.end(); row += chosen) std::sort(row, row + chosen);
  }
};

/// Computes a layer's mixture of experts. It waits for the device once per chunk: the number of rows of an expert sets
/// the shape of its products.
template <class Device, class T>
class mixture_of_experts {
 public:
  explicit mixture_of_experts(Device& m) : device_(&m) {}

  static index_t working_bytes(const decoder_description& d, index_t rows) {
    const experts_description& e = *d.experts;
    return rows * (static_cast<index_t>(sizeof(T)) * (d.hidden + e.chosen * (d.hidden + 2 * e.width)) +
                   4 * (e.sigmoids ? 2 * e.count + e.groups : e.count) + 16 * e.chosen);
  }

  /// Returns the sum (rows, hidden) of the chosen experts' outputs for x (rows, hidden), times their shares; valid
  /// until the next call.
  template <class Layer>
  const T* operator()(const Layer& weights, const decoder_description& d, index_t rows, const T* x,
                      product_scratch& scratch) {
    const experts_description& e = *d.experts;
    const index_t choices = rows * e.chosen;
    router_.reserve(rows * e.count);
    if (e.sigmoids) ranks_.reserve(rows * (e.count + e.groups));
    expert_.reserve(choices);
    share_.reserve(choices);
    multiply_map(*device_, weights.router.w, {rows, e.count, d.hidden, d.hidden}, x, router_.data(), scratch);
    device_->rows(rows, device_kernels::choose_experts<T>{
                            router_.data(), e.count, e.chosen, e.normalised, expert_.data(), share_.data(),
                            e.sigmoids ? weights.router.b.data() : nullptr, static_cast<float>(e.scale),
                            e.biases ? weights.router.b.data() : nullptr, e.groups, e.chosen_groups, e.scales_inputs,
                            ranks_.data()});
    const choices_by_expert sorted(expert_.host(choices), e.count, e.chosen);
    choice_.set(sorted.choice);
    place_.set(sorted.place);
    rows_.reserve(choices * d.hidden);
    wide_.reserve(choices * 2 * e.width);
    sum_.reserve(rows * d.hidden);
    // Calls f(weights, rows, their first row in rows_, and in wide_) for each expert that has rows.
    const auto each = [&](const auto& f) {
      for (index_t i = 0; i < e.count; ++i)
        if (const index_t first = sorted.begin[i], count = sorted.begin[i + 1] - first; count > 0)
          f(weights.experts[i], count, rows_.data() + first * d.hidden, wide_.data() + first * 2 * e.width);
    };
    const auto activate = [&](index_t count, T* wide, const float* bias) {
      device_->rows(count, device_kernels::activate_rows<T, T>{wide, e.width, bias, d.act, true, wide, 2 * e.width,
                                                               static_cast<float>(e.limit)});
    };
    device_->rows(choices, device_kernels::take_rows<T>{x, choice_.data(), e.chosen, d.hidden, rows_.data(),
                                                        e.scales_inputs ? share_.data() : nullptr});
    each([&](const auto& expert, index_t count, T* here, T* wide) {
      multiply_map(*device_, expert.up.w, {count, 2 * e.width, d.hidden, d.hidden}, here, wide, scratch);
      if (e.biases) activate(count, wide, expert.up.b.data());
    });
    if (!e.biases) activate(choices, wide_.data(), nullptr);
    each([&](const auto& expert, index_t count, T* here, T* wide) {
      multiply_map(*device_, expert.down.w, {count, d.hidden, e.width, 2 * e.width}, wide, here, scratch);
      if (e.biases)
        device_->rows(count, device_kernels::finish_block<T, T>{
                                 here, d.hidden, expert.down.b.data(), {}, nullptr, false, here, {}, nullptr});
    });
    device_->rows(rows, device_kernels::add_expert_rows<T>{rows_.data(), place_.data(), choice_.data(),
                                                           e.scales_inputs ? nullptr : share_.data(), e.chosen,
                                                           d.hidden, sum_.data()});
    return sum_.data();
  }

 private:
  Device* device_;
  device_buffer<Device, float> router_{*device_}, ranks_{*device_}, share_{*device_};  // ranks: see `choose_experts`
  device_buffer<Device, T> rows_{*device_}, wide_{*device_}, sum_{*device_};  // inputs, then outputs of the experts
  device_buffer<Device, std::int32_t> expert_{*device_}, choice_{*device_}, place_{*device_};
};

}  // namespace qkgeom
