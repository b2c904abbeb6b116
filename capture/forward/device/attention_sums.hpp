// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "capture/forward/attention/attention_statistics.hpp"
#include "capture/forward/blockwise_attention.hpp"
#include "capture/forward/products/product.hpp"
#include "qkgeom/core/buffer.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/view.hpp"
#include "qkgeom/sampling/head_draw.hpp"

namespace qkgeom {

/// What is summed of each query: mass on the first tokens, entropy, mass by distance.
struct attention_measures {
  static constexpr int firsts = static_cast<int>(first_tokens.size()), entropy = firsts, distances = entropy + 1;
  index_t first[firsts];
  index_t bins;

  explicit attention_measures(index_t distance_bins) : bins(distance_bins) {
    std::copy(first_tokens.begin(), first_tokens.end(), first);
  }
  QKGEOM_HD index_t count() const { return distances + bins; }
};

namespace device_kernels {

/// One block of keys of what the softmax gives, a query of a head each: sums of weights relative to the largest score
/// so far, to which those of the blocks before are brought. Of (heads, rows) queries.
struct measure_scores {
  const float* scores;  ///< (heads, rows, keys)
  float* top;           ///< (heads, rows) the largest score so far, in powers of two
  double* sums;         ///< (heads, rows, measures + 1) their weights, the last one the sum of all
  index_t rows, keys;
  index_t first, first_key;  ///< positions of the first row and key
  index_t window;            ///< tokens a query sees, itself included
  float scale;               ///< log2(e) times that of the scores
  float cap;                 ///< x, scaled, becomes c tanh(x / c); 0: no cap
  attention_measures measures;
  bool begins, ends;   ///< no block was before, or none is to come: sums become masses and the entropy
  const float* sinks;  ///< (heads) logits of sinks, which the sums of all weights have too; or none

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t item) const {
    const index_t t = first + item % rows, total = measures.count();
    const index_t low = t - window + 1 > first_key ? t - window + 1 : first_key;
    const index_t high = t + 1 < first_key + keys ? t + 1 : first_key + keys;
    const float* const s = scores + item * keys;
    const auto score = [=, this](index_t j) { return capped(s[j - first_key] * scale, cap); };
    double* const to = sums + item * (total + 1);
    const bool leads = team.rank() == 0;
    const float before = !begins ? top[item] : sinks ? sinks[item / rows] * bits_per_nat : -HUGE_VALF;
    float largest = before;
    for (index_t j = low + team.rank(); j < high; j += team.size()) largest = std::fmax(largest, score(j));
    largest = team.max(largest);
    if (leads) {
      if (begins) {
        for (index_t m = 0; m <= total; ++m) to[m] = 0;
        if (sinks) to[total] = 1;
      }
      if (largest > before) bring(to, before, largest);
      top[item] = largest;
    }
    int bin = 0;
    while (low < high && (index_t{1} << bin) <= t - low) ++bin;
    for (index_t j = low, end; j < high; j = end) {
      while (bin > 0 && t - j < index_t{1} << (bin - 1)) --bin;
      end = bin > 0 ? t + 1 - (index_t{1} << (bin - 1)) : t + 1;  // what follows is nearer
      end = end < high ? end : high;
      for (const index_t f : measures.first)
        if (j < f && f < end) end = f;
      float weight = 0, exponent = 0;
      for (index_t i = j + team.rank(); i < end; i += team.size()) {
        const float x = score(i) - largest, w = std::exp2(x);
        weight += w;
        exponent += w * x;
      }
      weight = team.sum(weight);
      exponent = team.sum(exponent);
      if (!leads) continue;
      for (int f = 0; f < attention_measures::firsts; ++f)
        if (j < measures.first[f]) to[f] += static_cast<double>(weight);
      to[attention_measures::entropy] += static_cast<double>(exponent);
      to[attention_measures::distances + bin] += static_cast<double>(weight);
      to[total] += static_cast<double>(weight);
    }
    if (leads && ends) finish(to);
  }

 private:
  QKGEOM_HD void bring(double* to, float before, float largest) const {
    const double shift = static_cast<double>(before) - static_cast<double>(largest), factor = std::exp2(shift);
    if (to[measures.count()] == 0) return;  // nothing was seen: before is not finite
    to[attention_measures::entropy] += shift * to[measures.count()];
    for (index_t m = 0; m <= measures.count(); ++m) to[m] *= factor;
  }
  QKGEOM_HD void finish(double* to) const {
    const double all = to[measures.count()];
    for (index_t m = 0; m < measures.count(); ++m) to[m] /= all;
    double& entropy = to[attention_measures::entropy];
    entropy = std::log(all) - std::numbers::ln2 * entropy;
  }
};

/// Adds what the queries of a block give to the sums of their buckets, in their order. Of (heads, pieces) of the block.
struct add_measures {
  const double* from;    ///< (heads, rows, measures + 1)
  const index_t* edges;  ///< (buckets + 1)
  double* to;            ///< (heads, buckets, measures)
  index_t rows, measures, first;
  index_t pieces, first_bucket, buckets;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t item) const {
    const index_t head = item / pieces, bucket = first_bucket + item % pieces;
    const index_t begin = edges[bucket] > first ? edges[bucket] - first : 0;
    const index_t end = edges[bucket + 1] - first < rows ? edges[bucket + 1] - first : rows;
    for (index_t m = team.rank(); m < measures; m += team.size()) {
      double& sum = to[(head * buckets + bucket) * measures + m];
      double all = sum;
      for (index_t r = begin; r < end; ++r) all += from[(head * rows + r) * (measures + 1) + m];
      sum = all;
    }
  }
};

}  // namespace device_kernels

/// The sums of `measure_attention` on a device, of a document whose queries come chunk by chunk: batched products give
/// the scores of a block of rows and keys, whose size alone sets the memory that is needed.
template <class Device, class T>
class device_attention_sums {
 public:
  using view = tensor_view<const T, Device::memory_type::space>;
  static constexpr index_t default_block_heads = 32;

  /// The scores of so many rows, keys and heads are held.
  device_attention_sums(Device& m, index_t block_rows, index_t block_keys, index_t block_heads = default_block_heads)
      : device_(&m),
        block_rows_(block_rows),
        block_keys_(block_keys),
        block_heads_(block_heads),
        scores_(m.memory(), 0),
        top_(m.memory(), 0),
        rows_(m.memory(), 0),
        sums_(m.memory(), 0),
        edges_(m.memory(), 0),
        sinks_(m.memory(), 0) {}

  /// What it holds on the device for so many query heads, besides the sums of a document.
  static index_t working_bytes(index_t heads, index_t block_rows, index_t block_keys, index_t bins,
                               index_t block_heads = default_block_heads) {
    const index_t a_query = (block_keys + 1) * static_cast<index_t>(sizeof(float)) +
                            (attention_measures(bins).count() + 1) * static_cast<index_t>(sizeof(double));
    return std::min(heads, block_heads) * block_rows * a_query;
  }

  /// Queries from position `first` on, q (rows, query heads, d), of a document of which k (tokens, key heads, d) holds
  /// the keys up to the last one. Those from position 0 begin a document.
  void add(index_t first, const view& q, const view& k, const measured_heads& what) {
    const auto heads = static_cast<index_t>(what.heads.size()), buckets = what.buckets.count();
    const attention_measures measures(what.options.bins);
    if (first == 0) {
      edges_.set(what.buckets.edges());
      sums_.set(std::vector<double>(heads * buckets * measures.count()));
      if (!what.options.sinks.empty()) sinks_.set(what.options.sinks);
    }
    for (index_t r = 0; r < q.rows; r += block_rows_)
      for (index_t h = 0; h < heads; h += block_heads_) {
        view some = q;
        some.data += r * q.row_stride;
        some.rows = std::min(block_rows_, q.rows - r);
        const std::span of(what.heads.data() + h, static_cast<std::size_t>(std::min(block_heads_, heads - h)));
        measure(first + r, some, k, of, what.options, what.options.sinks.empty() ? nullptr : sinks_.data() + h);
        add_up(first + r, some.rows, of, what, sums_.data() + h * buckets * measures.count());
      }
    tokens_ = first + q.rows;
  }

  /// The sums of the document that was added.
  attention_sums finish(const measured_heads& what) const {
    const index_t buckets = what.buckets.count(), measures = attention_measures(what.options.bins).count();
    const auto found = sums_.host(static_cast<index_t>(what.heads.size()) * buckets * measures);
    attention_sums sums;
    for (index_t b = 0; b < buckets; ++b) {
      const index_t start = what.buckets.start(b);
      sums.count.push_back(static_cast<double>(std::clamp(tokens_, start, what.buckets.end(b)) - start));
    }
    for (auto at = found.begin(); at < found.end(); at += measures) {
      sums.first.insert(sums.first.end(), at, at + attention_measures::firsts);
      sums.entropy.push_back(at[attention_measures::entropy]);
      sums.distance.insert(sums.distance.end(), at + attention_measures::distances, at + measures);
    }
    return sums;
  }

 private:
  using head_span = std::span<const index_t>;

  void measure(index_t first, const view& q, const view& k, head_span heads,
               const attention_statistics_options& options, const float* sinks) {
    const attention_measures measures(options.bins);
    const index_t rows = static_cast<index_t>(heads.size()) * q.rows;
    const index_t end = first + q.rows, window = std::min(options.window.value_or(end), end);
    require(end <= k.rows, "queries up to position ", end, " meet ", k.rows, " keys");
    scores_.reserve(rows * block_keys_);
    top_.reserve(rows);
    rows_.reserve(rows * (measures.count() + 1));
    const index_t begin = std::max<index_t>(0, first - window + 1);
    for (index_t key = begin; key < end; key += block_keys_) {
      const index_t keys = std::min(block_keys_, end - key);
      multiply(q, k, heads, key, keys);
      const auto scale = static_cast<float>(options.scale * std::numbers::log2e),
                 cap = static_cast<float>(options.cap * std::numbers::log2e);
      device_->rows(
          rows, device_kernels::measure_scores{scores_.data(), top_.data(), rows_.data(), q.rows, keys, first, key,
                                               window, scale, cap, measures, key == begin, key + keys == end, sinks});
    }
  }

  /// One batch for heads that follow one another and read the same keys.
  void multiply(const view& q, const view& k, head_span heads, index_t key, index_t keys) {
    const index_t a_head = q.rows * keys;
    for (std::size_t h = 0, end; h < heads.size(); h = end) {
      const index_t of = key_head_of(heads[h], q.heads, k.heads);
      for (end = h + 1; end < heads.size(); ++end)
        if (heads[end] != heads[end - 1] + 1 || key_head_of(heads[end], q.heads, k.heads) != of) break;
      product_shape shape{q.rows, keys, q.dim, {q.row_stride, q.head_stride}, {k.row_stride, 0}, {keys, a_head}};
      shape.batch = static_cast<index_t>(end - h);
      device_->multiply(shape, q.data + heads[h] * q.head_stride, k.data + of * k.head_stride + key * k.row_stride,
                        scores_.data() + static_cast<index_t>(h) * a_head);
    }
  }

  void add_up(index_t first, index_t rows, head_span heads, const measured_heads& what, double* to) {
    const bucket_edges& buckets = what.buckets;
    index_t begin = 0, end;
    while (begin < buckets.count() && buckets.end(begin) <= first) ++begin;
    for (end = begin; end < buckets.count() && buckets.start(end) < first + rows;) ++end;
    if (begin == end) return;
    device_->rows(static_cast<index_t>(heads.size()) * (end - begin),
                  device_kernels::add_measures{rows_.data(), edges_.data(), to, rows,
                                               attention_measures(what.options.bins).count(), first, end - begin, begin,
                                               buckets.count()});
  }

  Device* device_;
  index_t block_rows_, block_keys_, block_heads_;
  buffer<float, typename Device::memory_type> scores_, top_;
  buffer<double, typename Device::memory_type> rows_, sums_;  // of the queries of a block, of a document
  buffer<index_t, typename Device::memory_type> edges_;
  buffer<float, typename Device::memory_type> sinks_;
  index_t tokens_ = 0;
};

}  // namespace qkgeom
