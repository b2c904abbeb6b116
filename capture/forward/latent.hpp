// SPDX-License-Identifier: MIT
#pragma once

#include "capture/forward/kernels.hpp"

/// Row kernels of latent attention, see `latent_description`.
namespace qkgeom::device_kernels {

/// Norms the latent rows of queries and keys and copies the rotated part of a key after them, (rows, width).
template <class In, class T>
struct norm_latents {
  const In* wide;     ///< (rows, width) before the norms
  const float* bias;  ///< null: no bias
  index_t query_rank, key_rank, width;
  norm_parameters query_norm, key_norm;
  T* result;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const auto part = [&](index_t first) {
      return biased_row<In, T>{wide + row * width + first, bias ? bias + first : nullptr};
    };
    T* const y = result + row * width;
    if (query_rank > 0) normalise<T>(team, query_norm, query_rank, part(0), [=](auto c, auto v) { store(y, c, v); });
    T* const keys = y + query_rank;
    normalise<T>(team, key_norm, key_rank, part(query_rank), [=](auto c, auto v) { store(keys, c, v); });
    T* const rotated = keys + key_rank;
    each_column(team, width - query_rank - key_rank, part(query_rank + key_rank),
                [=](auto c, auto v) { store(rotated, c, v); });
  }
};

/// Copies a head from a product: `plain` channels, then the rotated ones; with `pairs` these are reordered to halves.
template <class T>
struct head_parts {
  index_t plain, rotated;
  bool pairs;

  template <class Lanes>
  QKGEOM_HD void put_plain(const Lanes& lanes, const T* from, T* head) const {
    each_column(
        lanes, plain, [=](auto c) { return load(from, c); }, [=](auto c, auto v) { store(head, c, v); });
  }
  template <class Lanes>
  QKGEOM_HD void put_rotated(const Lanes& lanes, const T* from, T* head) const {
    const index_t step = pairs ? 2 : 1, half = rotated / 2, second = pairs ? 1 : half;
    T* const first_half = head + plain;
    T* const second_half = first_half + half;
    each_column(
        lanes, half, [=](auto c) { return load(from, c, step); }, [=](auto c, auto v) { store(first_half, c, v); });
    each_column(
        lanes, half, [=](auto c) { return load(from + second, c, step); },
        [=](auto c, auto v) { store(second_half, c, v); });
  }
};

/// Copies the queries of a chunk from a product (rows, query heads, dim).
template <class T>
struct place_latent_queries {
  const T* wide;
  chunk_places<T> places;
  head_parts<T> parts;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const auto lanes = team.lanes();
    for (index_t h = team.group(); h < places.query_heads; h += team.groups()) {
      const T* const x = wide + (row * places.query_heads + h) * places.dim;
      T* const q = places.query(row, h);
      parts.put_plain(lanes, x, q);
      parts.put_rotated(lanes, x + parts.plain, q);
    }
  }
};

/// Copies keys and values of a chunk: each head's plain channels and value from `wide` (rows, heads, plain +
/// value_dim), the channels that all heads share from `rotated`, rows `stride` apart; then, if `rotates`, applies
/// `rotate_rows`. Zeros fill values up to the length of a key.
template <class T>
struct place_latent_keys {
  const T *wide, *rotated;
  index_t stride, value_dim;
  T* values;  ///< null: no values
  head_parts<T> parts;
  bool rotates;
  rotate_rows<T> rotation;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const chunk_places<T>& places = rotation.places;
    const auto lanes = team.lanes();
    for (index_t h = team.group(); h < places.key_heads; h += team.groups()) {
      const T* const x = wide + (row * places.key_heads + h) * (parts.plain + value_dim);
      T* const k = places.of_key_head(places.k, row, h);
      parts.put_plain(lanes, x, k);
      parts.put_rotated(lanes, rotated + row * stride, k);
      if (!values) continue;
      const T* const value = x + parts.plain;
      T* const v = places.of_key_head(values, row, h);
      T* const rest = v + value_dim;
      each_column(
          lanes, value_dim, [=](auto c) { return load(value, c); }, [=](auto c, auto y) { store(v, c, y); });
      for_columns(lanes, places.dim - value_dim, [=](auto c) { store(rest, c, typename Team::value{}); });
    }
    if (!rotates) return;
    team.sync();
    rotation(team, row);
  }
};

/// Drops the channels that values lack: from (rows, heads, dim), to (rows, heads, kept).
template <class T>
struct keep_channels {
  const T* from;
  index_t heads, dim, kept;
  T* to;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const auto lanes = team.lanes();
    for (index_t h = team.group(); h < heads; h += team.groups()) {
      const T* const x = from + (row * heads + h) * dim;
      T* const y = to + (row * heads + h) * kept;
      each_column(
          lanes, kept, [=](auto c) { return load(x, c); }, [=](auto c, auto v) { store(y, c, v); });
    }
  }
};

}  // namespace qkgeom::device_kernels
