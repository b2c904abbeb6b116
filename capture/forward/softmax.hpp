// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <numbers>
#include <vector>

#include "capture/forward/blockwise_attention.hpp"
#include "capture/forward/kernels.hpp"
#include "capture/forward/products/product.hpp"
#include "capture/forward/softmax_request.hpp"
#include "capture/forward/team.hpp"
#include "qkgeom/core/buffer.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/view.hpp"
#include "qkgeom/sampling/head_draw.hpp"

namespace qkgeom {

namespace device_kernels {

/// Measures the softmax of a query in two passes over its scores. Item i is the query at `start + place[i]`.
struct measure_softmax {
  const float* scores;        ///< (queries, keys) with the keys from `first_key` on
  const std::int32_t* place;  ///< (queries)
  double* found;              ///< (queries, measures)
  index_t keys, first_key, start;
  index_t window;     ///< tokens a query sees, itself included
  float scale, cap;   ///< times log2(e): logits are to base 2
  const float* sink;  ///< logit of the sink to base e; null: no sink
  softmax_measures measures;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t item) const {
    using value = typename Team::value;
    const index_t t = start + place[item], seen = t - window + 1, low = seen > first_key ? seen : first_key;
    const float* const s = scores + item * keys - first_key;
    value most = value{} - HUGE_VALF;
    for_columns(team, t + 1 - low, [&](auto c) {
      most = value_functions<value>::larger(within_row(logits(load(s + low, c)), c, -HUGE_VALF), most);  // never a NaN
    });
    float top = team.max(most);
    const float logit_of_sink = sink ? *sink * bits_per_nat : top;
    if (logit_of_sink > top) top = logit_of_sink;
    double* const to = found + item * measures.count();
    const bool leads = team.rank() == 0;
    for (index_t m = 0; leads && m < measures.count(); ++m) to[m] = 0;
    double all = 0, exponents = 0;  // sums of the weights w = 2^x, x = logit - top, and of w x
    if (sink) {
      const double x = static_cast<double>(logit_of_sink) - static_cast<double>(top);
      all = std::exp2(x);
      exponents = all * x;
    }
    index_t bin = 0;
    while (index_t{1} << bin <= t - low) ++bin;
    for (index_t j = low, end; j <= t; j = end) {
      while (bin > 0 && t - j < index_t{1} << (bin - 1)) --bin;
      end = bin > 0 ? t + 1 - (index_t{1} << (bin - 1)) : t + 1;  // later keys have a smaller bin
      for (const index_t f : measures.first)
        if (j < f && f < end) end = f;
      if (end > j + most_in_f32) end = j + most_in_f32;
      value weight{}, exponent{};
      for_columns(team, end - j, [&](auto c) {
        const value x = logits(load(s + j, c)) - top, w = within_row(value_functions<value>::exp2(x), c);
        weight += w;
        exponent += w * x;
      });
      const auto mass = static_cast<double>(team.sum(weight));
      exponents += static_cast<double>(team.sum(exponent));
      all += mass;
      if (!leads) continue;
      for (int f = 0; f < softmax_measures::firsts; ++f)
        if (j < measures.first[f]) to[f] += mass;
      to[softmax_measures::distances + bin] += mass;
    }
    if (!leads) return;
    for (index_t m = 0; m < measures.count(); ++m) to[m] /= all;
    to[softmax_measures::entropy] = std::log(all) - std::numbers::ln2 * exponents / all;
  }

 private:
  static constexpr index_t most_in_f32 = 4096;  ///< keys whose weights are summed in f32

  /// Scales scores and caps them: c tanh(x / c) = c (1 - e) / (1 + e) with e = exp(-2 |x| / c) and the sign of x.
  template <class Value>
  QKGEOM_HD Value logits(Value x) const {
    x = x * scale;
    if (cap == 0) return x;
    const Value e = value_functions<Value>::exp2(value_functions<Value>::larger(x, -x) * (-2 * bits_per_nat / cap));
    const Value y = (1.0f - e) / (1.0f + e) * cap;
    return x < Value{} ? -y : y;
  }
};

}  // namespace device_kernels

/// Measures the softmax of chosen queries on a device: a product of a head's queries and the keys that they see gives
/// the scores, and a kernel measures each query. The results do not depend on the number of threads.
template <class Device, class T>
class sampled_softmax {
 public:
  using view = tensor_view<const T, Device::memory_type::space>;

  explicit sampled_softmax(Device& m) : device_(&m), places_(m), heads_(m), sinks_(m), gathered_(m), found_(m) {
    for (int i = 0; i < m.workers(); ++i) scores_.emplace_back(m);
  }

  static index_t working_bytes(index_t heads, index_t dim, index_t tokens, index_t bins, int workers) {
    const index_t queries = std::min(most_queries, tokens);
    return workers * 4 * std::max(tokens, std::min(most_together * tokens, most_scores)) + 4 * (queries + 2 * heads) +
           queries * heads * (dim * static_cast<index_t>(sizeof(T)) + 8 * softmax_measures(bins).count());
  }

  /// Measures the queries of `what` that are rows of q (rows, query heads, d), which holds the document's rows from
  /// position `first` on; k (first + rows, key heads, d). Calls found(number of the first query, measures) in batches.
  template <class Found>
  void operator()(index_t first, const view& q, const view& k, const softmax_request& what, const Found& found) {
    const auto& positions = what.positions;
    auto at = std::lower_bound(positions.begin(), positions.end(), first);
    const auto end = std::lower_bound(at, positions.end(), first + q.rows);
    while (at != end) {
      const auto stop = at + std::min<index_t>(most_queries, end - at);
      std::vector<std::int32_t> places(at, stop);
      for (std::int32_t& p : places) p -= static_cast<std::int32_t>(first);
      measure(first, q, k, what, places);
      found(static_cast<index_t>(at - positions.begin()),
            found_.host(static_cast<index_t>(what.heads.size() * places.size()) * softmax_measures(what.bins).count()));
      at = stop;
    }
  }

 private:
  static constexpr index_t most_queries = 512;
  static constexpr index_t most_together = 64, most_scores = index_t{1} << 22;  // of a product
  static index_t queries_together(index_t keys) { return std::clamp<index_t>(most_scores / keys, 1, most_together); }

  void measure(index_t first, const view& q, const view& k, const softmax_request& what,
               const std::vector<std::int32_t>& places) {
    const auto heads = static_cast<index_t>(what.heads.size()), queries = static_cast<index_t>(places.size());
    const softmax_measures measures(what.bins);
    places_.set(places);
    heads_.set({what.heads.begin(), what.heads.end()});
    sinks_.set(what.sinks);
    gathered_.reserve(queries * heads * q.dim);
    found_.reserve(heads * queries * measures.count());
    device_->rows(queries * heads,
                  device_kernels::gather_rows<T>{q.data, q.row_stride, q.head_stride, q.dim, places_.data(),
                                                 heads_.data(), heads, gathered_.data()});
    const index_t together = queries_together(k.rows), pieces = (queries + together - 1) / together;
    const index_t window = std::min(what.window.value_or(k.rows), k.rows);
    device_->each(heads * pieces, [&](index_t task, int worker) {
      const index_t h = task % heads, begin = task / heads * together, rows = std::min(together, queries - begin);
      const index_t low = std::max<index_t>(0, first + places[begin] - window + 1);
      const index_t keys = first + places[begin + rows - 1] + 1 - low;
      auto& scores = scores_[worker];
      scores.reserve(rows * keys);
      device_->multiply(product_shape{rows, keys, q.dim, {heads * q.dim}, {k.row_stride}, {keys}},
                        gathered_.data() + (begin * heads + h) * q.dim,
                        k.data + key_head_of(what.heads[h], q.heads, k.heads) * k.head_stride + low * k.row_stride,
                        scores.data());
      device_->rows(rows,
                    device_kernels::measure_softmax{scores.data(), places_.data() + begin,
                                                    found_.data() + (h * queries + begin) * measures.count(), keys, low,
                                                    first, window, static_cast<float>(what.scale * std::numbers::log2e),
                                                    static_cast<float>(what.cap * std::numbers::log2e),
                                                    what.sinks.empty() ? nullptr : sinks_.data() + h, measures});
    });
  }

  Device* device_;
  device_buffer<Device, std::int32_t> places_, heads_;
  device_buffer<Device, float> sinks_;
  device_buffer<Device, T> gathered_;
  device_buffer<Device, double> found_;
  std::deque<device_buffer<Device, float>> scores_;  // by worker
};

}  // namespace qkgeom
