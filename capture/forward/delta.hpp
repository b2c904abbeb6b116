// SPDX-License-Identifier: MIT
#pragma once

#include "capture/forward/kernels.hpp"

/// Kernels of nets in place of attention, see `delta_description`. A document's rows follow one another.
namespace qkgeom::device_kernels {

/// Convolves each channel of queries, keys and values with the rows before and applies silu; a delta net scales queries
/// and keys to length 1 and queries by 1 / sqrt(key_dim). Writes after them, per value head, the factor by which its
/// state fades and its learning rate.
template <class T>
struct convolve_rows {
  /// (rows, width) with `kernel` - 1 rows before: queries, keys, values, gates of values, learning (delta nets),
  /// keeping
  const T* from;
  delta_description net;
  const float *weights, *keep_bias, *keep_log;  ///< (channels, kernel), (value heads), (value heads)
  float* to;                                    ///< (rows, net.state_width())
  const float* bias = nullptr;                  ///< (channels) of the convolution; null: no bias

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    using value = typename Team::value;
    const delta_description& d = net;
    const index_t width = d.width(), channels = d.channels(), kernel = d.kernel, heads = d.value_heads;
    const T* const x = from + row * width;
    float* const y = to + row * d.state_width();
    const float* const w = weights;
    for_columns(team, channels, [&](auto c) {
      value sum = bias ? load(bias, c) : value{};
      for (index_t j = 0; j < kernel; ++j) sum += load(x - (kernel - 1 - j) * width, c) * load(w + j, c, kernel);
      sum = rounded<T>(sum);
      store(y, c, rounded<T>(sum * value_functions<value>::sigmoid(sum)));
    });
    const T* const learning = x + channels + d.values();
    const auto softplus = [](float u) { return u > 20.0f ? u : std::log1p(std::exp(u)); };
    if (d.kind == net_kind::state_space) {
      for (index_t h = team.rank(); h < heads; h += team.size()) {
        const float soft = rounded<T>(softplus(rounded<T>(static_cast<float>(learning[h]) + keep_bias[h])));
        const float step = rounded<T>(std::fmin(std::fmax(soft, d.least_step), d.most_step));
        y[channels + h] = std::exp(-std::exp(keep_log[h]) * step);
        y[channels + heads + h] = step;
      }
      return;
    }
    team.sync();
    const auto lanes = team.lanes();
    for (index_t i = team.group(); i < 2 * d.key_heads; i += team.groups()) {
      float* const v = y + i * d.key_dim;
      value squares{};
      for_columns(lanes, d.key_dim, [&](auto c) {
        const value u = load(v, c);
        squares += u * u;
      });
      const float length = std::sqrt(lanes.sum(squares) + 1e-6f);
      const float scale = (i < d.key_heads ? 1.0f / std::sqrt(static_cast<float>(d.key_dim)) : 1.0f) / length;
      for_columns(lanes, d.key_dim, [&](auto c) { store(v, c, load(v, c) * scale); });
    }
    for (index_t h = team.rank(); h < heads; h += team.size()) {
      const float learn = static_cast<float>(learning[h]),
                  keep = static_cast<float>(learning[heads + h]) + keep_bias[h];
      y[channels + h] = std::exp(-std::exp(keep_log[h]) * softplus(keep));
      y[channels + heads + h] = d.most_learned * rounded<T>(value_functions<float>::sigmoid(learn));
    }
  }
};

/// Runs a value head over its rows in order: the state (key_dim, value_dim) fades, learns the value of the key (in a
/// delta net less the value that it gives already), and answers the query.
template <class T>
struct delta_rule {
  const float* rows;  ///< (count, net.state_width()) from `convolve_rows`
  delta_description net;
  index_t count;
  float* state;                 ///< (value heads, key_dim, value_dim)
  T* to;                        ///< (count, value heads, value_dim)
  const float* skip = nullptr;  ///< (value heads) share of the value in the answer; null: 0

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t head) const {
    using value = typename Team::value;
    const delta_description& d = net;
    const index_t channels = d.channels(), dim = d.key_dim, width = d.value_dim, row = d.state_width();
    const index_t group = head / (d.value_heads / d.key_heads);
    const float known_share = d.kind == net_kind::delta ? 1.0f : 0.0f;
    float* const s = state + head * dim * width;
    for_columns(team, width, [&](auto c) {
      for (index_t t = 0; t < count; ++t) {
        const float* const x = rows + t * row;
        const float *const query = x + group * dim, *const key = query + d.key_heads * dim;
        const float keep = x[channels + head], learn = x[channels + d.value_heads + head];
        value known{};
        for (index_t k = 0; k < dim; ++k) {
          const value faded = load(s + k * width, c) * keep;
          store(s + k * width, c, faded);
          known += faded * key[k];
        }
        const value taught = load(x + 2 * d.key_heads * dim + head * width, c);
        const value change = (taught - known * known_share) * learn;
        value answer = skip ? taught * skip[head] : value{};
        for (index_t k = 0; k < dim; ++k) {
          const value learned = load(s + k * width, c) + change * key[k];
          store(s + k * width, c, learned);
          answer += learned * query[k];
        }
        store(to + t * d.values() + head * width, c, answer);
      }
    });
  }
};

/// Norms the answers (rows, value heads, value_dim) head by head and multiplies them by silu of their gates; a state
/// space multiplies first and norms the heads of a key head together.
template <class T>
struct gate_answers {
  const T* from;  ///< as `convolve_rows::from`
  delta_description net;
  norm_parameters norm;
  T* answers;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    using value = typename Team::value;
    const auto lanes = team.lanes();
    if (net.kind == net_kind::state_space) {
      const index_t width = net.values() / net.key_heads;
      for (index_t h = team.group(); h < net.key_heads; h += team.groups()) {
        T* const y = answers + row * net.values() + h * width;
        const T* const gate = from + row * net.width() + net.channels() + h * width;
        normalise<T>(
            lanes, {norm.w + h * width, nullptr, norm.kind, norm.eps}, width,
            [=](auto c) {
              const value g = load(gate, c);
              return load(y, c) * (g * value_functions<value>::sigmoid(g));
            },
            [=](auto c, value v) { store(y, c, v); });
      }
      return;
    }
    for (index_t h = team.group(); h < net.value_heads; h += team.groups()) {
      T* const y = answers + row * net.values() + h * net.value_dim;
      const T* const gate = from + row * net.width() + net.channels() + h * net.value_dim;
      normalise<T>(
          lanes, norm, net.value_dim, [=](auto c) { return load(y, c); },
          [=](auto c, value v) {
            const value g = load(gate, c);
            store(y, c, rounded<T>(v) * (g * value_functions<value>::sigmoid(g)));
          });
    }
  }
};

/// Convolves the products of two rows over the last tokens and multiplies by a third (LFM).
template <class T>
struct convolve_products {
  const T* from;  ///< (rows, 3 values) with `kernel` - 1 rows before: factor, factor of the result, factor
  delta_description net;
  const float* weights;  ///< (values, kernel)
  T* to;                 ///< (rows, values)

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    using value = typename Team::value;
    const index_t width = net.values(), kernel = net.kernel;
    const T* const x = from + row * net.width();
    const float* const w = weights;
    T* const y = to + row * width;
    for_columns(team, width, [=, all = net.width()](auto c) {
      value sum{};
      for (index_t j = 0; j < kernel; ++j) {
        const T* const then = x - (kernel - 1 - j) * all;
        sum += rounded<T>(load(then, c) * load(then + 2 * width, c)) * load(w + j, c, kernel);
      }
      store(y, c, load(x + width, c) * rounded<T>(sum));
    });
  }
};

template <class T>
struct clear_row {
  T* to;
  index_t width;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    for (index_t c = team.rank(); c < width; c += team.size()) to[row * width + c] = T{};
  }
};

/// Copies rows to another place that does not overlap them.
template <class T>
struct copy_row {
  const T* from;
  T* to;
  index_t width;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    for (index_t c = team.rank(); c < width; c += team.size()) to[row * width + c] = from[row * width + c];
  }
};

/// Takes the sigmoids (rows, count) of columns [first, first + count) of a product (rows, width).
template <class In, class T>
struct take_gates {
  const In* wide;
  index_t width, first, count;
  const float* bias;  ///< null: no bias
  T* gates;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    using value = typename Team::value;
    const biased_row<In, T> x{wide + row * width + first, bias ? bias + first : nullptr};
    T* const y = gates + row * count;
    each_column(team, count, x, [=](auto c, value v) { store(y, c, value_functions<value>::sigmoid(v)); });
  }
};

/// Multiplies x (rows, width) by gates (rows, width).
template <class T>
struct multiply_row {
  const T* gates;
  T* x;
  index_t width;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const T* const g = gates + row * width;
    T* const y = x + row * width;
    for_columns(team, width, [=](auto c) { store(y, c, load(y, c) * load(g, c)); });
  }
};

/// Multiplies each head of x (rows, heads, dim) by its gate (rows, heads).
template <class T>
struct multiply_heads {
  const T* gates;
  T* x;
  index_t heads, dim;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const auto lanes = team.lanes();
    for (index_t h = team.group(); h < heads; h += team.groups()) {
      T* const y = x + (row * heads + h) * dim;
      const auto gate = static_cast<float>(gates[row * heads + h]);
      for_columns(lanes, dim, [=](auto c) { store(y, c, load(y, c) * gate); });
    }
  }
};

}  // namespace qkgeom::device_kernels
