// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <deque>

#include "capture/forward/blockwise_attention.hpp"
#include "capture/forward/latent.hpp"
#include "capture/forward/products/product.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/core/buffer.hpp"
#include "qkgeom/core/error.hpp"

/// Sparse attention, see `indexer_description`.
namespace qkgeom::device_kernels {

/// Copies queries or the key of an indexer from a product (rows, heads, dim), which it norms first, to the same layout;
/// the rotated channels come first.
template <class T>
struct place_index_rows {
  T *wide, *to;
  index_t heads, dim;
  norm_parameters norm;  ///< without weights: no norm
  head_parts<T> rotated, plain;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const auto lanes = team.lanes();
    T *const from = wide + row * heads * dim, *const result = to + row * heads * dim;
    if (norm.w) {
      for (index_t h = team.group(); h < heads; h += team.groups()) {
        T* const x = from + h * dim;
        normalise<T>(
            lanes, norm, dim, [=](auto c) { return load(x, c); }, [=](auto c, auto v) { store(x, c, v); });
      }
      team.sync();
    }
    for (index_t h = team.group(); h < heads; h += team.groups()) {
      rotated.put_rotated(lanes, from + h * dim, result + h * dim);
      plain.put_plain(lanes, from + h * dim + rotated.rotated, result + h * dim + rotated.rotated);
    }
  }
};

/// Sums the scores of a row's keys over the heads of an indexer.
template <class T>
struct sum_index_scores {
  const float* scores;  ///< (rows, heads, keys): q.k
  const T* weights;     ///< (rows, heads)
  float* sums;          ///< (rows, `stride`) from the first of the keys on
  index_t heads, keys, stride;
  float scale, weight_scale;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    using value = typename Team::value;
    const float* const s = scores + row * heads * keys;
    float* const to = sums + row * stride;
    for_columns(team, keys, [=, this](auto c) {
      value sum{};
      for (index_t h = 0; h < heads; ++h)
        sum += value_functions<value>::larger(load(s + h * keys, c) * scale, value{}) *
               (static_cast<float>(weights[row * heads + h]) * weight_scale);
      store(to, c, sum);
    });
  }
};

/// Lists the positions of the `width` largest scores of a row among the keys that it sees, ascending; of equal scores
/// the earlier keys.
struct choose_keys {
  const float* scores;  ///< (rows, stride)
  index_t stride, first, width;
  std::int32_t* chosen;  ///< (rows, width); rows that see fewer keys have all of them

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const index_t seen = first + row + 1;
    const float* const s = scores + row * stride;
    std::int32_t* const to = chosen + row * width;
    if (seen <= width) {
      for (index_t j = team.rank(); j < seen; j += team.size()) to[j] = static_cast<std::int32_t>(j);
      return;
    }
    // The score at place `width` by its bits, from the highest: the largest number that so many scores reach.
    std::uint32_t least = 0;
    for (int bit = 31; bit >= 0; --bit) {
      const std::uint32_t tried = least | std::uint32_t{1} << bit;
      if (count(team, seen, [=](index_t j) { return order(s[j]) >= tried; }) >= static_cast<float>(width))
        least = tried;
    }
    index_t equals = width - static_cast<index_t>(count(team, seen, [=](index_t j) { return order(s[j]) > least; }));
    if (team.rank() > 0) return;
    for (index_t j = 0, place = 0; j < seen && place < width; ++j)
      if (order(s[j]) > least || (order(s[j]) == least && equals-- > 0)) to[place++] = static_cast<std::int32_t>(j);
  }

 private:
  /// Maps floats to integers of the same order.
  QKGEOM_HD static std::uint32_t order(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
  }
  /// Counts the keys for which is(j); exact up to 2^24 of them.
  template <class Team, class Is>
  QKGEOM_HD static float count(const Team& team, index_t n, const Is& is) {
    std::int32_t found = 0;  // the CPU counts many at once
    for (index_t j = team.rank(); j < n; j += team.size()) found += is(j) ? 1 : 0;
    return team.sum(static_cast<float>(found));
  }
};

/// Computes the attention of a query to its chosen keys. One item per (head, row), since rows that follow
/// one another choose alike; the result may replace the query.
template <class T>
struct attend_to_chosen {
  attention_call<T> call;
  index_t key_row, key_head;   ///< entries between keys of one head, and between heads
  const std::int32_t* chosen;  ///< (rows, width)
  index_t width;
  float* weights;  ///< (heads, rows, width)

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t item) const {
    using value = typename Team::value;
    const index_t h = item / call.rows, row = item % call.rows, seen = call.first + row + 1,
                  n = seen < width ? seen : width;
    const index_t head = h / (call.heads / call.key_heads) * key_head, dim = call.dim;
    const std::int32_t* const at = chosen + row * width;
    const T *const q = call.q + (row * call.heads + h) * dim, *const k = call.k + head, *const v = call.v + head;
    T* const out = call.out + (row * call.heads + h) * dim;
    float* const w = weights + item * width;
    const auto lanes = team.lanes();
    for (index_t i = team.group(); i < n; i += team.groups()) {
      const T* const key = k + at[i] * key_row;
      value sum{};
      for_columns(lanes, dim, [&](auto c) { sum += load(q, c) * load(key, c); });
      const float score = lanes.sum(sum);
      if (lanes.rank() == 0) w[i] = score * static_cast<float>(call.scale);
    }
    team.sync();
    float top = -HUGE_VALF, all = 0;
    for (index_t i = team.rank(); i < n; i += team.size()) top = w[i] > top ? w[i] : top;
    top = team.max(top);
    for (index_t i = team.rank(); i < n; i += team.size()) {
      const float weight = std::exp(w[i] - top);
      all += weight;
      w[i] = rounded<T>(weight);  // as the other kernels round them
    }
    all = team.sum(all);
    team.sync();
    for_columns(team, dim, [=, this](auto c) {
      value sums[4]{};  // apart, so that one sum need not wait for another
      for (index_t i = 0; i < n; ++i) sums[i % 4] += load(v + at[i] * key_row, c) * w[i];
      store(out, c, (sums[0] + sums[1] + sums[2] + sums[3]) * (1.0f / all));
    });
  }
};

}  // namespace qkgeom::device_kernels

namespace qkgeom {

/// Chooses keys by an indexer and attends to them alone, some rows at a time, so that its memory grows with the length
/// of a document alone.
template <class Device, class T>
class sparse_attention {
 public:
  explicit sparse_attention(Device& m) : device_(&m), weights_(m) {
    for (int i = 0; i < m.workers(); ++i) scores_.emplace_back(m), sums_.emplace_back(m);
  }

  /// Returns the bytes on the device for documents of `tokens` tokens and `rows` rows at a time.
  static index_t working_bytes(const decoder_description& d, index_t tokens, index_t rows, int workers = 1) {
    if (!d.indexer || tokens <= d.indexer->chosen) return 0;
    const index_t together = std::min(rows, rows_together(d.indexer->heads * block_keys)),
                  attended = std::min(rows, rows_together(d.query_heads * d.indexer->chosen));
    return 4 * (workers * together * (d.indexer->heads * std::min(block_keys, tokens) + tokens) +
                attended * d.query_heads * d.indexer->chosen);
  }

  /// Chooses the keys of rows at positions from `first` on: chosen (rows, d.chosen). q (rows, heads, dim), weights
  /// (rows, heads), k (first + rows, dim).
  void choose(const indexer_description& d, const T* q, const T* weights, const T* k, index_t first, index_t rows,
              std::int32_t* chosen) {
    require(first + rows <= index_t{1} << 24, "indexers take documents of at most 2^24 tokens");
    const index_t together = rows_together(d.heads * block_keys);
    device_->each((rows + together - 1) / together, [&](index_t piece, int worker) {
      const index_t begin = piece * together, n = std::min(together, rows - begin), keys = first + begin + n;
      auto &scores = scores_[worker], &sums = sums_[worker];
      scores.reserve(n * d.heads * std::min(block_keys, keys));
      sums.reserve(n * keys);
      for (index_t key = 0; key < keys && keys > d.chosen; key += block_keys) {
        const index_t some = std::min(block_keys, keys - key);
        device_->multiply(product_shape{n * d.heads, some, d.dim, {d.dim}, {d.dim}, {some}},
                          q + begin * d.heads * d.dim, k + key * d.dim, scores.data());
        device_->rows(
            n, device_kernels::sum_index_scores<T>{scores.data(), weights + begin * d.heads, sums.data() + key, d.heads,
                                                   some, keys, inverse_root(d.dim), inverse_root(d.heads)});
      }
      device_->rows(n,
                    device_kernels::choose_keys{sums.data(), keys, first + begin, d.chosen, chosen + begin * d.chosen});
    });
  }

  /// Attends to the chosen keys (rows, width), whose rows and heads are so many entries apart.
  void attend(const attention_call<T>& call, index_t key_row, index_t key_head, const std::int32_t* chosen,
              index_t width) {
    const index_t together = std::min(call.rows, rows_together(call.heads * width));
    weights_.reserve(together * call.heads * width);
    for (index_t r = 0; r < call.rows; r += together) {
      attention_call<T> some = call;
      some.q += r * call.heads * call.dim;
      some.out += r * call.heads * call.dim;
      some.first += r;
      some.rows = std::min(together, call.rows - r);
      device_->rows(some.rows * call.heads, device_kernels::attend_to_chosen<T>{
                                                some, key_row, key_head, chosen + r * width, width, weights_.data()});
    }
  }

 private:
  static constexpr index_t block_keys = 2048;
  /// Returns the rows whose floats, so many of each, take 4 MB.
  static index_t rows_together(index_t each) { return std::clamp<index_t>((index_t{1} << 20) / each, 1, 64); }
  static float inverse_root(index_t n) { return 1 / std::sqrt(static_cast<float>(n)); }

  Device* device_;
  std::deque<device_buffer<Device, float>> scores_, sums_;  // by worker
  device_buffer<Device, float> weights_;
};

}  // namespace qkgeom
