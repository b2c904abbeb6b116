// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>

#include "capture/forward/device/team.hpp"

/// The steps of a forward pass between its products, a row each, by a team. T is the type of activations, float or
/// bf16; In that of a product's result, float where something is added before it is rounded. What is rounded to bf16,
/// and where, is what `row_ops.hpp` does.
namespace qkgeom::device_kernels {

/// to (rows, width) = the norm of from.
template <class T>
struct norm_rows {
  const T* from;
  T* to;
  index_t width;
  norm_parameters norm;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const T* const x = from + row * width;
    T* const y = to + row * width;
    normalise<T>(
        team, norm, width, [=](index_t c) { return static_cast<float>(x[c]); },
        [=](index_t c, float v) { y[c] = to_element<T>(v); });
  }
};

/// Where the queries of a chunk of a document lie, (rows, query heads, dim), and the keys of all of it, (key heads,
/// capacity, dim).
template <class T>
struct chunk_places {
  T *q, *k;
  index_t first;  ///< position of the chunk's first row
  index_t query_heads, key_heads, dim, capacity;

  QKGEOM_HD T* query(index_t row, index_t head) const { return q + (row * query_heads + head) * dim; }
  QKGEOM_HD T* key(index_t row, index_t head) const { return k + (head * capacity + first + row) * dim; }
  /// Query heads, then key heads.
  QKGEOM_HD T* vector(index_t row, index_t i) const {
    return i < query_heads ? query(row, i) : key(row, i - query_heads);
  }
  QKGEOM_HD index_t vectors() const { return query_heads + key_heads; }
};

/// Rotary embedding of a chunk's queries and keys, and the growth of its queries.
template <class T>
struct rotate_rows {
  chunk_places<T> at;
  const float *cos = nullptr, *sin = nullptr;  ///< (positions, half); none: no rotation
  index_t half = 0;
  bool interleaved = false, exact = false;
  float growth = 0;  ///< 0: none
  index_t growth_context = 1;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const index_t t = at.first + row;
    if (cos) {
      const auto lanes = team.lanes();
      for (index_t i = team.group(); i < at.vectors(); i += team.groups()) {
        T* const x = at.vector(row, i);
        each_column(
            lanes, half,
            [&](index_t j) {
              return angle_pair{x[place(j)], x[place(j, true)], cos[t * half + j], sin[t * half + j]};
            },
            [&](index_t j, const angle_pair& p) { turn(x, j, p); });
      }
    }
    if (growth == 0) return;
    team.sync();
    const auto times = static_cast<float>(t / growth_context);
    const float factor = rounded<T>(1.0f + growth * std::log(1.0f + times));
    T* const q = at.query(row, 0);
    for (index_t c = team.rank(); c < at.query_heads * at.dim; c += team.size())
      q[c] = to_element<T>(static_cast<float>(q[c]) * factor);
  }

 private:
  /// Two coordinates and the angle by which they turn.
  struct angle_pair {
    T first, second;
    float cos, sin;
  };
  QKGEOM_HD index_t place(index_t j, bool second = false) const {
    return interleaved ? 2 * j + second : j + (second ? half : 0);
  }
  QKGEOM_HD void turn(T* x, index_t j, const angle_pair& p) const {
    const float a = p.first, b = p.second;
    const bool rounds = !exact;
    const auto product = [rounds](float u, float v) { return rounds ? rounded<T>(u * v) : u * v; };
    const float y = product(a, p.cos) - product(b, p.sin), z = product(b, p.cos) + product(a, p.sin);
    x[place(j)] = to_element<T>(y);
    x[place(j, true)] = to_element<T>(z);
  }
};

/// What a product of hidden states with the weights of q, k and v gives becomes queries, keys and values: bias, norms
/// of queries and keys, and, if `rotates`, what `rotate_rows` does.
template <class In, class T>
struct finish_projection {
  const In* wide;  ///< (rows, width): all heads of q, of k, of v
  index_t width;
  const float* bias;  ///< or none
  T* values;          ///< as keys; none: wide has no values
  qk_norm normed;
  norm_parameters q_norm, k_norm;
  bool rotates;
  rotate_rows<T> turn;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const chunk_places<T>& at = turn.at;
    const auto lanes = team.lanes();
    for (index_t i = team.group(); i * at.dim < width; i += team.groups()) {
      const In* const x = wide + row * width + i * at.dim;
      const float* const b = bias ? bias + i * at.dim : nullptr;
      T* const to =
          i < at.vectors() ? at.vector(row, i) : values + ((i - at.vectors()) * at.capacity + at.first + row) * at.dim;
      each_column(
          lanes, at.dim, [=](index_t c) { return x[c]; },
          [=](index_t c, In v) { to[c] = to_element<T>(static_cast<float>(v) + (b ? b[c] : 0.0f)); });
    }
    if (normed != qk_norm::none) norm_vectors(team, row);
    if (rotates) {
      team.sync();
      turn(team, row);
    }
  }

 private:
  template <class Team>
  QKGEOM_HD void norm_vectors(const Team& team, index_t row) const {
    const chunk_places<T>& at = turn.at;
    const auto in_place = [&](const auto& threads, const norm_parameters& p, index_t n, const auto& place) {
      normalise<T>(
          threads, p, n, [&](index_t c) { return static_cast<float>(*place(c)); },
          [&](index_t c, float y) { *place(c) = to_element<T>(y); });
    };
    if (normed == qk_norm::each_head) {  // a thread reads what it has put there itself
      for (index_t i = team.group(); i < at.vectors(); i += team.groups()) {
        T* const x = at.vector(row, i);
        in_place(team.lanes(), i < at.query_heads ? q_norm : k_norm, at.dim, [=](index_t c) { return x + c; });
      }
      return;
    }
    team.sync();
    in_place(team, q_norm, at.query_heads * at.dim, [&](index_t c) { return at.query(row, 0) + c; });
    in_place(team, k_norm, at.key_heads * at.dim, [&](index_t c) { return at.key(row, c / at.dim) + c % at.dim; });
  }
};

/// What the output matrix of attention or feed-forward gives: bias, norm, what `other` holds added, then added to the
/// hidden states or stored; and the norm of the result, if it is asked for.
template <class In, class T>
struct finish_block {
  const In* wide;
  index_t width;
  const float* bias;     ///< or none
  norm_parameters norm;  ///< without weights: none
  const T* other;        ///< or none
  bool adds;
  T* to;
  norm_parameters next;  ///< of `to`, into `normed`; without weights: none
  T* normed;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const In* const x = wide + row * width;
    T* const y = to + row * width;
    const T* const more = other ? other + row * width : y;
    const auto value = [=, b = bias](In v, index_t c) { return rounded<T>(static_cast<float>(v) + (b ? b[c] : 0.0f)); };
    const auto put = [=, adds = adds, has_more = other != nullptr](index_t c, float v, T also, T before) {
      v = rounded<T>(v);
      if (has_more) v = rounded<T>(v + static_cast<float>(also));
      y[c] = to_element<T>(adds ? static_cast<float>(before) + v : v);
    };
    struct column {
      In x;
      T more, before;
    };
    if (norm.w)
      normalise<T>(
          team, norm, width, [=](index_t c) { return value(x[c], c); },
          [=](index_t c, float v) { put(c, v, more[c], y[c]); });
    else
      each_column(
          team, width,
          [=](index_t c) {
            return column{x[c], more[c], y[c]};
          },
          [=](index_t c, const column& at) { put(c, value(at.x, c), at.more, at.before); });
    if (!next.w) return;
    T* const z = normed + row * width;
    normalise<T>(
        team, next, width, [=](index_t c) { return static_cast<float>(y[c]); },
        [=](index_t c, float v) { z[c] = to_element<T>(v); });
  }
};

QKGEOM_HD inline float activated(activation act, float x) {
  switch (act) {
    case activation::silu:
      return x / (1.0f + std::exp(-x));
    case activation::gelu_tanh: {  // (1 + tanh u) / 2 is the sigmoid of 2 u
      const float u = 1.5957691216057308f * x * (1.0f + 0.044715f * x * x);
      return x / (1.0f + std::exp(-u));
    }
    default:
      return 0.5f * x * (1.0f + std::erf(x * 0.70710678118654752f));
  }
}

/// to (rows, width) = act(gate) up of wide (rows, 2 width), or act(up) of wide (rows, width).
template <class In, class T>
struct activate_rows {
  const In* wide;
  index_t width;
  const float* bias;  ///< or none
  activation act;
  bool gated;
  T* to;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const In* const gate = wide + row * (gated ? 2 : 1) * width;
    const In* const up = gated ? gate + width : gate;
    T* const y = to + row * width;
    const auto value = [=, b = bias](In x, index_t c) { return rounded<T>(static_cast<float>(x) + (b ? b[c] : 0.0f)); };
    struct column {
      In gate, up;
    };
    each_column(
        team, width,
        [=](index_t c) {
          return column{gate[c], up[c]};
        },
        [&](index_t c, const column& at) {
          float v = rounded<T>(activated(act, value(at.gate, c)));
          if (gated) v *= value(at.up, width + c);
          y[c] = to_element<T>(v);
        });
  }
};

/// Some rows of some heads: to (rows, heads, dim) = from at those positions and heads.
template <class T>
struct gather_rows {
  const T* from;
  index_t row_stride, head_stride, dim;
  const std::int32_t *row, *head;
  index_t heads;
  T* to;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t item) const {
    const T* const x = from + row[item / heads] * row_stride + head[item % heads] * head_stride;
    for (index_t c = team.rank(); c < dim; c += team.size()) to[item * dim + c] = x[c];
  }
};

}  // namespace qkgeom::device_kernels
