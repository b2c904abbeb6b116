// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>

#include "capture/forward/team.hpp"
#include "qkgeom/core/cache_types.hpp"

/// Steps of a forward pass between its products, one row per team. T is the type of activations; In the type of a
/// product's result, float where a bias is added before rounding. This file decides what is rounded to bf16, and where.
namespace qkgeom::device_kernels {

/// Norms rows: from (rows, width) to result (rows, width).
template <class T>
struct norm_rows {
  const T* from;
  T* result;
  index_t width;
  norm_parameters norm;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const T* const x = from + row * width;
    T* const y = result + row * width;
    normalise<T>(
        team, norm, width, [=](auto c) { return load(x, c); }, [=](auto c, auto v) { store(y, c, v); });
  }
};

/// Layout of the queries of a document's chunk, (rows, query heads, dim), and of all keys of the document.
template <class T>
struct chunk_places {
  T *q, *k;
  index_t first;  ///< position of the chunk's first row
  index_t query_heads, key_heads, dim;
  index_t key_row, key_head;  ///< entries between keys of one head, and between heads; for values too

  QKGEOM_HD T* query(index_t row, index_t head) const { return q + (row * query_heads + head) * dim; }
  QKGEOM_HD T* of_key_head(T* side, index_t row, index_t head) const {
    return side + head * key_head + (first + row) * key_row;
  }
  /// Returns vector i of a row: query heads come first, then key heads.
  QKGEOM_HD T* vector(index_t row, index_t i) const {
    return i < query_heads ? query(row, i) : of_key_head(k, row, i - query_heads);
  }
  QKGEOM_HD index_t vectors() const { return query_heads + key_heads; }
};

/// Rotates a chunk's queries and keys by the rotary embedding and scales its queries by their growth.
template <class T>
struct rotate_rows {
  chunk_places<T> places;
  const float *cos = nullptr, *sin = nullptr;  ///< (positions, half); null: no rotation
  index_t half = 0;
  bool interleaved = false, exact = false;
  float growth = 0;  ///< 0: no growth
  index_t growth_context = 1;
  bool counts_from_1 = false;          ///< the growth counts positions from 1 and stays in f32
  norm_parameters q_norm{}, k_norm{};  ///< norms of each head after the rotation; without weights: no norm
  index_t rotated_from = 0;            ///< first rotated channel
  /// (query heads) Number of the table of each query head and of its own key head, -1: they stay; null: all have one.
  const std::int32_t* table_of = nullptr;
  index_t table_size = 0;  ///< entries of a table

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    using value = typename Team::value;
    struct angle_pair {  // two coordinates and their angle of rotation
      value a, b, cos, sin;
    };
    const index_t t = places.first + row;
    if (cos) {
      const index_t step = interleaved ? 2 : 1, second = interleaved ? 1 : half;
      const auto lanes = team.lanes();
      for (index_t i = team.group(); i < places.vectors(); i += team.groups()) {
        const index_t table = table_of ? table_of[i % places.query_heads] : 0;
        if (table < 0) continue;
        const float *const cosines = cos + table * table_size + t * half, *const sines = sin + (cosines - cos);
        T* const x = places.vector(row, i) + rotated_from;
        each_column(
            lanes, half,
            [=](auto j) {
              return angle_pair{load(x, j, step), load(x + second, j, step), load(cosines, j), load(sines, j)};
            },
            [=, this](auto j, const angle_pair& p) {
              store(x, j, product(p.a, p.cos) - product(p.b, p.sin), step);
              if (exact || !rounds_to_bf16<T>)  // a product that a CPU fuses, kept for the bits of earlier captures
                store(x + second, j, product(p.b, p.cos) + p.a * p.sin, step);
              else
                store(x + second, j, product(p.b, p.cos) + product(p.a, p.sin), step);
            });
      }
    }
    if (q_norm.w) {
      team.sync();
      const auto lanes = team.lanes();
      for (index_t i = team.group(); i < places.vectors(); i += team.groups()) {
        T* const x = places.vector(row, i);
        normalise<T>(
            lanes, i < places.query_heads ? q_norm : k_norm, places.dim, [=](auto c) { return load(x, c); },
            [=](auto c, auto v) { store(x, c, v); });
      }
    }
    if (growth == 0) return;
    team.sync();
    const auto times = static_cast<float>((t + counts_from_1) / growth_context);
    const float grown = 1.0f + growth * std::log(1.0f + times), factor = counts_from_1 ? grown : rounded<T>(grown);
    T* const q = places.query(row, 0);
    for_columns(team, places.query_heads * places.dim, [=](auto c) { store(q, c, load(q, c) * factor); });
  }

 private:
  template <class Value>
  QKGEOM_HD Value product(Value u, Value v) const {
    return exact ? rounded<float>(u * v) : rounded<T>(u * v);
  }
};

/// Makes queries, keys and values of the product of hidden states with the weights of q, k and v: adds the bias, norms
/// them and, if `rotates`, applies `rotate_rows`.
template <class In, class T>
struct finish_projection {
  In* wide;             ///< (rows, width): all heads of q, of k, of v; then gates of the output
  index_t width, kept;  ///< `kept`: columns of q, k and v
  const float* bias;    ///< null: no bias
  T* values;            ///< laid out as keys; null: wide has no values
  qk_norm normed;
  norm_parameters q_norm, k_norm, v_norm;  ///< without weights of v_norm: no norm of values
  bool rotates;
  rotate_rows<T> rotation;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const chunk_places<T>& places = rotation.places;
    const auto lanes = team.lanes();
    In* const x = wide + row * width;
    const bool all_at_once = normed == qk_norm::all_heads;
    if (all_at_once) {
      norm_in_place(team, q_norm, x, bias, places.query_heads * places.dim);
      const index_t keys = places.query_heads * places.dim;
      norm_in_place(team, k_norm, x + keys, bias ? bias + keys : nullptr, places.key_heads * places.dim);
      team.sync();
    }
    for (index_t i = team.group(); i * places.dim < kept; i += team.groups()) {
      const bool is_value = i >= places.vectors();
      const float* const b = bias && (is_value || !all_at_once) ? bias + i * places.dim : nullptr;
      const biased_row<In, T> from{x + i * places.dim, b};
      T* const goal = is_value ? places.of_key_head(values, row, i - places.vectors()) : places.vector(row, i);
      const auto put = [=](auto c, auto v) { store(goal, c, v); };
      if (is_value ? v_norm.w != nullptr : normed == qk_norm::each_head)
        normalise<T>(lanes, is_value ? v_norm : i < places.query_heads ? q_norm : k_norm, places.dim, from, put);
      else
        each_column(lanes, places.dim, from, put);
    }
    if (rotates) {
      team.sync();
      rotation(team, row);
    }
  }

 private:
  template <class Team>
  QKGEOM_HD static void norm_in_place(const Team& team, const norm_parameters& norm, In* x, const float* bias,
                                      index_t n) {
    normalise<T>(team, norm, n, biased_row<In, T>{x, bias}, [=](auto c, auto v) { store(x, c, rounded<T>(v)); });
  }
};

/// Ends a block after the output matrix of attention or feed-forward: adds bias, norms, adds `other`, then adds to the
/// hidden states or stores; norms the result too if `next` has weights.
template <class In, class T>
struct finish_block {
  const In* wide;
  index_t width;
  const float* bias;     ///< null: no bias
  norm_parameters norm;  ///< without weights: no norm
  const T* other;        ///< (rows, width) to add; null: nothing
  bool adds;
  T* result;
  norm_parameters next;  ///< norm of `result` into `normed`; without weights: no norm
  T* normed;
  float scale = 1;                ///< factor of the block's output
  const T* row_gate = nullptr;    ///< (rows) gates: rows of `wide` are multiplied by their sigmoids; null: no gates
  const float* factor = nullptr;  ///< (1) factor of the sum; null: 1

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    using value = typename Team::value;
    const biased_row<In, T> x{wide + row * width, bias};
    T* const y = result + row * width;
    const T* const more = other ? other + row * width : y;
    const float gate = row_gate ? rounded<T>(value_functions<float>::sigmoid(static_cast<float>(row_gate[row]))) : 1.0f;
    const float times = factor ? *factor : 1.0f;
    const auto put = [=, adds = adds, scale = scale, has_more = other != nullptr, has_gate = row_gate != nullptr](
                         auto c, value v, value also, value before) {
      v = rounded<T>(v);
      if (has_gate) v = rounded<T>(v * gate);
      if (scale != 1) v = rounded<T>(v * scale);
      if (has_more) v = rounded<T>(v + also);
      if (adds) v = before + v;
      store(y, c, times == 1 ? v : rounded<T>(v) * times);
    };
    struct column {
      value x, more, before;
    };
    if (norm.w)
      normalise<T>(team, norm, width, x, [=](auto c, value v) { put(c, v, load(more, c), load(y, c)); });
    else
      each_column(
          team, width,
          [=](auto c) {
            return column{x(c), load(more, c), load(y, c)};
          },
          [=](auto c, const column& entry) { put(c, entry.x, entry.more, entry.before); });
    if (!next.w) return;
    T* const z = normed + row * width;
    normalise<T>(
        team, next, width, [=](auto c) { return load(y, c); }, [=](auto c, value v) { store(z, c, v); });
  }
};

template <class Value>
QKGEOM_HD Value activated(activation act, Value x) {
  using functions = value_functions<Value>;
  switch (act) {
    case activation::silu:
      return x * functions::sigmoid(x);
    case activation::gelu_tanh:  // (1 + tanh u) / 2 is the sigmoid of 2 u
      return x * functions::sigmoid(1.5957691216057308f * x * (1.0f + 0.044715f * x * x));
    default:
      return functions::gelu(x);
  }
}

/// Returns (up + 1) gate sigmoid(1.702 gate), gate at most `limit`, up in [-limit, limit] (GPT-OSS' model code).
template <class T, class Value>
QKGEOM_HD Value clamped_product(Value gate, Value up, float limit) {
  const Value most = Value{} + limit;
  gate = gate > most ? most : gate;
  up = up > most ? most : up < -most ? -most : up;
  const Value share = rounded<T>(value_functions<Value>::sigmoid(rounded<T>(gate * 1.702f)));
  return rounded<T>(up + 1.0f) * rounded<T>(gate * share);
}

/// Computes act(gate) up of wide (rows, 2 width), or act(up) of wide (rows, width).
template <class In, class T>
struct activate_rows {
  const In* wide;
  index_t width;
  const float* bias;  ///< null: no bias
  activation act;
  bool gated;
  T* result;              ///< may overlap `wide`
  index_t result_stride;  ///< entries from row to row
  float limit = 0;        ///< not 0: `clamped_product` of gate and up

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    using value = typename Team::value;
    const biased_row<In, T> gate{wide + row * (gated ? 2 : 1) * width, bias};
    const biased_row<In, T> up{gate.x + width, bias ? bias + width : nullptr};
    T* const y = result + row * result_stride;
    struct column {
      value gate, up;
    };
    each_column(
        team, width,
        [=, gated = gated](auto c) {
          return column{gate(c), gated ? up(c) : value{}};
        },
        [=, act = act, gated = gated, limit = limit](auto c, const column& entry) {
          if (limit > 0) return store(y, c, clamped_product<T>(entry.gate, entry.up, limit));
          const value v = rounded<T>(activated(act, entry.gate));
          store(y, c, gated ? v * entry.up : v);
        });
  }
};

/// Copies keys and values for each query head, (query heads, ...) in the layout of `from`; changes the keys of some
/// heads by their position or rounds them as a cache does.
template <class T>
struct change_keys {
  chunk_places<T> from;
  const T* values;
  T *own_keys, *own_values;
  const std::int32_t* slope_of;   ///< (query heads) row of `slopes`, or -1
  const double* slopes;           ///< (changed heads, dim) per token, subtracted from keys
  const double* centres;          ///< (changed heads) tokens
  const std::int32_t* cached_as;  ///< (query heads) a `cache_type`, or -1

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const index_t group = from.query_heads / from.key_heads, t = from.first + row;
    for (index_t h = 0; h < from.query_heads; ++h) {
      const index_t old = h / group * from.key_head + t * from.key_row, own = h * from.key_head + t * from.key_row;
      const index_t which = slope_of[h], type = cached_as[h];
      for (index_t c = team.rank(); c < from.dim; c += team.size()) {
        own_values[own + c] = values[old + c];
        if (type >= 0) continue;  // the second loop writes it, block by block
        T key = from.k[old + c];
        if (which >= 0) {
          const auto x = static_cast<double>(static_cast<float>(key));
          const double change = slopes[which * from.dim + c] * (static_cast<double>(t) - centres[which]);
          key = to_element<T>(static_cast<float>(x - change));
        }
        own_keys[own + c] = key;
      }
      if (type < 0) continue;
      const auto form = static_cast<cache_type>(type);
      const index_t step = is_rotated(form) ? rotation_size(from.dim) : cache_block;
      for (index_t c = team.rank() * step; c < from.dim; c += team.size() * step) {
        const index_t n = from.dim - c < step ? from.dim - c : step;
        float x[most_rotation];
        for (index_t i = 0; i < n; ++i) x[i] = static_cast<float>(from.k[old + c + i]);
        round_as_cached(form, x, n, x);
        for (index_t i = 0; i < n; ++i) own_keys[own + c + i] = to_element<T>(x[i]);
      }
    }
  }
};

/// Copies keys and values of some rows of each head to another layout.
template <class T>
struct copy_keys {
  const T *keys, *values;
  index_t row, head;  ///< entries between rows and between heads
  T *own_keys, *own_values;
  index_t own_row, own_head, heads, dim;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t r) const {
    for (index_t h = 0; h < heads; ++h)
      for (index_t c = team.rank(); c < dim; c += team.size()) {
        own_keys[h * own_head + r * own_row + c] = keys[h * head + r * row + c];
        own_values[h * own_head + r * own_row + c] = values[h * head + r * row + c];
      }
  }
};

template <class T>
struct clear_keys {
  T *keys, *values;
  index_t dim;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    for (index_t c = team.rank(); c < dim; c += team.size()) keys[row * dim + c] = values[row * dim + c] = T{};
  }
};

/// Sets the outputs (rows, heads, dim) of some heads to 0.
template <class T>
struct clear_heads {
  T* x;
  index_t heads, dim;
  const std::int32_t* cleared;
  index_t count;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    for (index_t i = 0; i < count; ++i)
      for (index_t c = team.rank(); c < dim; c += team.size()) x[(row * heads + cleared[i]) * dim + c] = T{};
  }
};

/// Packs some rows of some heads: result (rows, heads, dim).
template <class T>
struct gather_rows {
  const T* from;
  index_t row_stride, head_stride, dim;
  const std::int32_t *row, *head;
  index_t heads;
  T* result;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t item) const {
    const T* const x = from + row[item / heads] * row_stride + head[item % heads] * head_stride;
    for (index_t c = team.rank(); c < dim; c += team.size()) result[item * dim + c] = x[c];
  }
};

}  // namespace qkgeom::device_kernels
