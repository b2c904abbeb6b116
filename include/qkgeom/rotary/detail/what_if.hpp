// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "qkgeom/core/random.hpp"
#include "qkgeom/rotary/turn.hpp"
#include "qkgeom/rotary/what_if.hpp"

namespace qkgeom {

namespace detail {

/// a b / c rounded up, for positions of 32 bits.
inline index_t share_up(index_t a, index_t b, index_t c) { return (a * b + c - 1) / c; }

/// Gives the rows of a side new positions.
inline void move_positions(captured_side& side, const rotary_change& change, index_t from, index_t to) {
  auto moved = std::make_shared<std::vector<std::int32_t>>();
  moved->reserve(side.rows);
  for (index_t i = 0; i < side.rows; ++i)
    moved->push_back(static_cast<std::int32_t>(stretched_position(
        side.position[i], from, to, static_cast<std::uint32_t>(side.document[i]), change.keep_first, change.seed)));
  side.position = {moved->data(), side.rows};
  side.owners.push_back(std::move(moved));
}

/// Rotated queries of some families (Ministral 3) are multiplied by 1 + beta ln(1 + floor(position / context)).
struct growth_of_queries {
  double beta = 0;
  index_t context = 1;

  /// Of the captures' field `query_growth`; none: 1 everywhere.
  explicit growth_of_queries(const capture_manifest& m) {
    if (!m.extra.contains("query_growth")) return;
    const json_value fields(m.extra["query_growth"], "query_growth");
    beta = fields["beta"].number();
    context = fields["context"].integer(1, largest_position);
  }
  double at(index_t position) const {
    return beta == 0 ? 1 : 1 + beta * std::log(1 + std::floor(static_cast<double>(position / context)));
  }
};

/// Turns the rows of a side, which stood at `was`, to the positions that they have now, and multiplies each by `scale`
/// of both. Elements become T.
template <class T, class From, class Scale>
void turn_rows(captured_side& side, vector_view<const std::int32_t> was, const captured_rope* applied,
               const captured_rope& wanted, const Scale& scale) {
  auto turned = std::make_shared<std::vector<T>>(side.rows * side.heads * side.dim);
  const auto* const from = reinterpret_cast<const From*>(side.data);
  for (index_t i = 0; i < side.rows; ++i) {
    const auto turn = rotary_turn::between(applied, was[i], wanted, side.position[i]);
    const auto factor = static_cast<T>(scale(was[i], side.position[i]));
    for (index_t h = 0; h < side.heads; ++h) {
      T* const to = turned->data() + (i * side.heads + h) * side.dim;
      std::transform(from + (to - turned->data()), from + (to - turned->data()) + side.dim, to,
                     [](From x) { return static_cast<T>(x); });
      turn(to);
      if (factor != 1) std::for_each(to, to + side.dim, [=](T& x) { x *= factor; });
    }
  }
  side.data = reinterpret_cast<const std::byte*>(turned->data());
  side.element = dtype_of<T>();
  side.owners.push_back(std::move(turned));
}

/// A layer whose rows stood at `was`, (queries, keys), turned from `applied` (null: not turned yet) to `wanted`;
/// queries are multiplied by `scale(was, position)`.
template <class Scale>
captured_layer turned_layer(captured_layer layer, std::array<vector_view<const std::int32_t>, 2> was,
                            const captured_rope* applied, const captured_rope& wanted, const Scale& scale) {
  require(2 * static_cast<index_t>(wanted.inv_freq.size()) <= layer.k.dim, layer.k.file, ": layer ", layer.layer,
          ": the rotary embedding turns more coordinates than heads have");
  visit_element_type(layer.element, [&]<class From>() {
    using to = compute_t<From>;
    turn_rows<to, From>(layer.q, was[0], applied, wanted, scale);
    turn_rows<to, From>(layer.k, was[1], applied, wanted, [](index_t, index_t) { return 1.0; });
  });
  layer.element = layer.k.element;
  return layer;
}

}  // namespace detail

inline index_t wanted_context(const capture_manifest& captured, index_t asked) {
  if (asked > 0) return asked;
  if (!captured.extra.contains("short_of")) return captured.context_length;
  return json_value(captured.extra["short_of"], "short_of").integer(captured.context_length, largest_position);
}

inline index_t stretched_position(index_t position, index_t from, index_t to, std::uint32_t document,
                                  index_t keep_first, std::uint64_t seed) {
  if (position < keep_first || from == to) return position;
  const index_t first = detail::share_up(position, to, from), end = detail::share_up(position + 1, to, from);
  const random_stream draws{seed, document, 0, draw::stretched_position};
  return first + static_cast<index_t>(draws.below(position, static_cast<std::uint64_t>(end - first)));
}

inline capture_set what_if(const capture_set& source, const rotary_change& change) {
  auto manifest = source.manifest();
  const std::string where = source.captures()[0].path().string();
  const index_t from = manifest.context_length;
  const index_t to = change.context_length > 0 ? change.context_length : from;
  require(to >= from, where, ": a context of ", from, " tokens cannot be stretched to ", to);
  require(to <= largest_position, where, ": a context of ", to, " tokens is more than 32 bits count");
  const auto was = manifest;
  for (auto& l : manifest.layers) {
    manifest.rope_of(l);  // refuses a capture that does not say
    if (!change.rope) continue;
    require(!l.rope_parameters || l.rope_parameters == manifest.rope, where, ": layer ", l.layer,
            " has a rotary embedding of its own, and one for all layers cannot replace it");
    l.rope_parameters.reset();
  }
  if (change.rope) manifest.rope = change.rope;
  if (change.turning) {
    const auto hold = [&](captured_rope& rope) {
      for (double& f : rope.inv_freq)
        if (!change.turning(f)) f = 0;
    };
    if (manifest.rope) hold(*manifest.rope);
    for (auto& l : manifest.layers)
      if (l.rope_parameters) hold(*l.rope_parameters);
  }
  manifest.rope_stage = "post";
  manifest.context_length = to;
  if (manifest.bucket.kind != "log2") manifest.bucket.size = detail::share_up(was.usual_bucket_size(), to, from);
  manifest.extra.erase("moments");
  auto rows = [change, was, now = manifest, from, to](captured_layer layer) {
    const auto applied = was.rope_of(was.layer(layer.layer)), wanted = now.rope_of(now.layer(layer.layer));
    const std::array positions{layer.q.position, layer.k.position};
    for (auto* side : {&layer.q, &layer.k}) detail::move_positions(*side, change, from, to);
    if (!wanted) return layer;
    const bool turned = was.rope_stage == "post";
    const detail::growth_of_queries growth(was);
    return detail::turned_layer(
        std::move(layer), positions, turned ? &*applied : nullptr, *wanted,
        [&](index_t at, index_t to_position) { return growth.at(to_position) / (turned ? growth.at(at) : 1); });
  };
  auto tokens = [from, to](index_t n) { return detail::share_up(n, to, from); };
  return source.changed({std::move(manifest), std::move(rows), std::move(tokens)});
}

inline capture_set what_if_as_in(const capture_set& source, const capture_manifest& other, index_t keep_first,
                                 std::uint64_t seed) {
  const index_t to = other.context_length;
  const rotary_change change{.context_length = to, .rope = other.rope, .keep_first = keep_first, .seed = seed};
  return what_if(source.manifest().context_length > to ? source.before(to) : source, change);
}

inline capture_set before_rope(const capture_set& source) {
  auto manifest = source.manifest();
  if (manifest.rope_stage == "pre") return source;
  const auto was = manifest;
  for (const auto& l : manifest.layers) was.rope_of(l);
  manifest.rope_stage = "pre";
  manifest.extra.erase("moments");
  auto rows = [was](captured_layer layer) {
    const auto applied = was.rope_of(was.layer(layer.layer));
    if (!applied) return layer;
    captured_rope none{applied->style, applied->rotary_dim, 1, std::vector<double>(applied->inv_freq.size())};
    const detail::growth_of_queries growth(was);
    return detail::turned_layer(layer, {layer.q.position, layer.k.position}, &*applied, none,
                                [&](index_t at, index_t) { return 1 / growth.at(at); });
  };
  return source.changed({std::move(manifest), std::move(rows), [](index_t n) { return n; }});
}

}  // namespace qkgeom
