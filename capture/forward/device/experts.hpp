// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "capture/forward/device/attention.hpp"
#include "capture/forward/device/kernels.hpp"
#include "capture/forward/device/weights.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/core/buffer.hpp"

namespace qkgeom::device_kernels {

/// The experts that take a row, by the largest logits, the first of equal ones, and their shares of it. Logits that are
/// not numbers come last.
template <class T>
struct choose_experts {
  const float* logits;  ///< (rows, experts)
  index_t experts, chosen;
  bool normalised;       ///< shares add up to 1
  std::int32_t* expert;  ///< (rows, chosen)
  float* share;          ///< the same

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const float* const x = logits + row * experts;
    const auto logit = [=](index_t i) {
      const float v = rounded<T>(x[i]);
      return v == v ? v : -HUGE_VALF;
    };
    float top = -HUGE_VALF;
    for (index_t i = team.rank(); i < experts; i += team.size()) top = std::fmax(top, logit(i));
    top = team.max(top);
    const auto place = [=, n = experts](index_t i) {
      const float mine = logit(i);
      index_t before = 0;
      for (index_t j = 0; j < n; ++j) before += logit(j) > mine || (logit(j) == mine && j < i);
      return before;
    };
    float sum = 0;
    for (index_t i = team.rank(); i < experts; i += team.size())
      if (!normalised || place(i) < chosen) sum += std::exp(logit(i) - top);
    sum = team.sum(sum);
    for (index_t i = team.rank(); i < experts; i += team.size()) {
      const index_t at = place(i);
      if (at >= chosen) continue;
      expert[row * chosen + at] = static_cast<std::int32_t>(i);
      share[row * chosen + at] = rounded<T>(std::exp(logit(i) - top) / sum);
    }
  }
};

/// Rows for the experts, to (rows chosen, width): row i is that of choice number `choice[i]`.
template <class T>
struct take_rows {
  const T* from;               ///< (rows, width)
  const std::int32_t* choice;  ///< (rows chosen), of (rows, chosen)
  index_t chosen, width;
  T* to;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t i) const {
    const T* const x = from + choice[i] / chosen * width;
    T* const y = to + i * width;
    each_column(
        team, width, [=](index_t c) { return x[c]; }, [=](index_t c, T v) { y[c] = v; });
  }
};

/// to (rows, width) = what a row's experts give times their shares, added up expert after expert.
template <class T>
struct add_expert_rows {
  const T* from;                       ///< (rows chosen, width)
  const std::int32_t *place, *choice;  ///< (rows, chosen) rows of `from`, by their experts; as above
  const float* share;                  ///< (rows, chosen), by choice
  index_t chosen, width;
  T* to;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    for (index_t c = team.rank(); c < width; c += team.size()) {
      float y = 0;
      for (index_t k = row * chosen; k < (row + 1) * chosen; ++k) {
        const float v = rounded<T>(static_cast<float>(from[place[k] * width + c]) * share[choice[place[k]]]);
        y = rounded<T>(y + v);
      }
      to[row * width + c] = to_element<T>(y);
    }
  }
};

}  // namespace qkgeom::device_kernels

namespace qkgeom {

/// The choices (rows, chosen) of experts by expert: those of expert e are [begin[e], begin[e + 1]), by row.
struct choices_by_expert {
  std::vector<index_t> begin;
  std::vector<std::int32_t> choice;  ///< their numbers
  std::vector<std::int32_t> place;   ///< (rows, chosen) where those of a row stand, ascending

  choices_by_expert(const std::vector<std::int32_t>& expert, index_t experts, index_t chosen)
      : begin(static_cast<std::size_t>(experts) + 1), choice(expert.size()), place(expert.size()) {
    for (const std::int32_t e : expert) ++begin[static_cast<std::size_t>(e) + 1];
    for (std::size_t e = 1; e < begin.size(); ++e) begin[e] += begin[e - 1];
    auto next = begin;
    for (std::size_t i = 0; i < expert.size(); ++i) {
      const index_t at = next[expert[i]]++;
      choice[at] = static_cast<std::int32_t>(i);
      place[i] = static_cast<std::int32_t>(at);
    }
    for (auto row = place.begin(); row < place.end(); row += chosen) std::sort(row, row + chosen);
  }
};

/// A layer's mixture of experts on a device. The device is waited for once a chunk: how many rows an expert takes
/// sets the shape of its products.
template <class Device, class T>
class device_experts {
 public:
  explicit device_experts(Device& m)
      : device_(&m),
        router_(m.memory(), 0),
        share_(m.memory(), 0),
        rows_(m.memory(), 0),
        active_(m.memory(), 0),
        wide_(m.memory(), 0),
        sum_(m.memory(), 0),
        expert_(m.memory(), 0),
        choice_(m.memory(), 0),
        place_(m.memory(), 0) {}

  /// What it holds on the device for so many rows.
  static index_t working_bytes(const decoder_description& d, index_t rows) {
    const experts_description& e = *d.experts;
    return rows * (static_cast<index_t>(sizeof(T)) * (d.hidden + e.chosen * (d.hidden + 3 * e.width)) + 4 * e.count +
                   16 * e.chosen);
  }

  /// The sum (rows, hidden) of what the chosen experts make of x (rows, hidden). Valid until the next call.
  const T* operator()(const device_layer<Device, T>& weights, const decoder_description& d, index_t rows, const T* x) {
    const experts_description& e = *d.experts;
    const index_t choices = rows * e.chosen;
    router_.reserve(rows * e.count);
    expert_.reserve(choices);
    share_.reserve(choices);
    multiply(rows, e.count, d.hidden, x, weights.router.w.data(), router_.data());
    device_->rows(rows, device_kernels::choose_experts<T>{router_.data(), e.count, e.chosen, e.normalised,
                                                          expert_.data(), share_.data()});
    const choices_by_expert sorted(expert_.host(choices), e.count, e.chosen);
    choice_.set(sorted.choice);
    place_.set(sorted.place);
    rows_.reserve(choices * d.hidden);
    wide_.reserve(choices * 2 * e.width);
    active_.reserve(choices * e.width);
    sum_.reserve(rows * d.hidden);
    // f(weights, first row, rows) of each expert that takes any
    const auto each = [&](const auto& f) {
      for (std::size_t i = 0; i + 1 < sorted.begin.size(); ++i)
        if (const index_t count = sorted.begin[i + 1] - sorted.begin[i]; count > 0)
          f(weights.experts[i], sorted.begin[i], count);
    };
    device_->rows(choices, device_kernels::take_rows<T>{x, choice_.data(), e.chosen, d.hidden, rows_.data()});
    each([&](const auto& expert, index_t first, index_t count) {
      multiply(count, 2 * e.width, d.hidden, rows_.data() + first * d.hidden, expert.up.w.data(),
               wide_.data() + first * 2 * e.width);
    });
    device_->rows(choices,
                  device_kernels::activate_rows<T, T>{wide_.data(), e.width, nullptr, d.act, true, active_.data()});
    each([&](const auto& expert, index_t first, index_t count) {
      multiply(count, d.hidden, e.width, active_.data() + first * e.width, expert.down.w.data(),
               rows_.data() + first * d.hidden);
    });
    device_->rows(rows, device_kernels::add_expert_rows<T>{rows_.data(), place_.data(), choice_.data(), share_.data(),
                                                           e.chosen, d.hidden, sum_.data()});
    return sum_.data();
  }

 private:
  template <class Out>
  void multiply(index_t rows, index_t out, index_t in, const T* x, const T* w, Out* y) {
    device_->multiply(product_shape{rows, out, in, {in, 0}, {in, 0}, {out, 0}}, x, w, y);
  }

  Device* device_;
  buffer<float, typename Device::memory_type> router_, share_;
  buffer<T, typename Device::memory_type> rows_, active_, wide_, sum_;  // rows for the experts, then of them
  buffer<std::int32_t, typename Device::memory_type> expert_, choice_, place_;
};

}  // namespace qkgeom
