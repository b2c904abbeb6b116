// SPDX-License-Identifier: MIT
#include "qkgeom/io/what_if.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "qkgeom/core/random.hpp"

namespace qkgeom {

namespace {

/// Returns a b / c rounded up, for positions of 32 bits.
index_t share_up(index_t a, index_t b, index_t c) { return (a * b + c - 1) / c; }

/// Gives the rows of a side new positions.
void move_positions(captured_side& side, const rotary_change& change, index_t from, index_t to) {
  auto moved = std::make_shared<std::vector<std::int32_t>>();
  moved->reserve(side.rows);
  for (index_t i = 0; i < side.rows; ++i)
    moved->push_back(static_cast<std::int32_t>(stretched_position(
        side.position[i], from, to, static_cast<std::uint32_t>(side.document[i]), change.keep_first, change.seed)));
  side.position = {moved->data(), side.rows};
  side.owners.push_back(std::move(moved));
}

/// Reads the captures' field `query_growth`; no growth without it, or if it holds for layers without rotation alone.
query_growth growth_of_queries(const capture_manifest& m) {
  if (!m.extra.contains("query_growth")) return {};
  const json_value fields(m.extra["query_growth"], "query_growth");
  if (fields.has("layers")) return {};  // growth of layers without rotary embedding
  return {fields["beta"].number(), fields["context"].integer(1, largest_position)};
}

/// Rotates the rows of a side from their positions `was` to their present ones.
template <class From>
void rotate_side(captured_side& side, vector_view<const std::int32_t> was, const row_rotation& rotation) {
  using to = compute_t<From>;
  auto rotated = std::make_shared<std::vector<to>>(side.rows * side.heads * side.dim);
  const auto x = packed_tensor(reinterpret_cast<const From*>(side.data), side.rows, side.heads, side.dim);
  const auto slot =
      rotated_slot_of(x, was, rotation, side.position, packed_tensor(rotated->data(), side.rows, side.heads, side.dim),
                      rotation.planes.data());
  for (index_t i = 0; i < side.rows * slot.slots(); ++i) slot(i);
  side.data = reinterpret_cast<const std::byte*>(rotated->data());
  side.element = dtype_of<to>();
  side.owners.push_back(std::move(rotated));
}

/// Rotates the rows of a layer from their positions `was` (queries, keys) to their present ones.
captured_layer rotated_layer(captured_layer layer, std::array<vector_view<const std::int32_t>, 2> was,
                             row_rotation rotation) {
  const bool fits = std::all_of(rotation.planes.begin(), rotation.planes.end(),
                                [&](const rotated_plane& p) { return std::max(p.first, p.second) < layer.k.dim; });
  require(fits, layer.k.file, ": layer ", layer.layer,
          ": the rotary embedding rotates more coordinates than heads have");
  visit_element_type(layer.element, [&]<class From>() {
    rotate_side<From>(layer.q, was[0], rotation);
    rotation.from = rotation.to = {};  // only queries grow
    rotate_side<From>(layer.k, was[1], rotation);
  });
  layer.element = layer.k.element;
  return layer;
}

}  // namespace

index_t wanted_context(const capture_manifest& captured, index_t asked) {
  if (asked > 0) return asked;
  if (!captured.extra.contains("short_of")) return captured.context_length;
  return json_value(captured.extra["short_of"], "short_of").integer(captured.context_length, largest_position);
}

index_t stretched_position(index_t position, index_t from, index_t to, std::uint32_t document, index_t keep_first,
                           std::uint64_t seed) {
  if (position < keep_first || from == to) return position;
  const index_t first = share_up(position, to, from), end = share_up(position + 1, to, from);
  const random_stream draws{seed, document, 0, draw::stretched_position};
  return first + static_cast<index_t>(draws.below(position, static_cast<std::uint64_t>(end - first)));
}

capture_set what_if(const capture_set& source, const rotary_change& change) {
  auto manifest = source.manifest();
  const std::string where = source.captures()[0].path().string();
  const index_t from = manifest.context_length;
  const index_t to = change.context_length > 0 ? change.context_length : from;
  require(to >= from, where, ": a context of ", from, " tokens cannot be stretched to ", to);
  require(to <= largest_position, where, ": a context of ", to, " tokens is more than 32 bits count");
  const auto was = manifest;
  for (auto& l : manifest.layers) {
    manifest.rope_of(l);  // refuses a capture without its embedding
    if (!change.rope) continue;
    require(!l.rope_parameters || l.rope_parameters == manifest.rope, where, ": layer ", l.layer,
            " has a rotary embedding of its own, and one for all layers cannot replace it");
    l.rope_parameters.reset();
  }
  if (change.rope) manifest.rope = change.rope;
  if (change.rotating) {
    const auto hold = [&](captured_rope& rope) {
      for (double& f : rope.inv_freq)
        if (!change.rotating(f)) f = 0;
    };
    if (manifest.rope) hold(*manifest.rope);
    for (auto& l : manifest.layers)
      if (l.rope_parameters) hold(*l.rope_parameters);
  }
  const auto growth = manifest.extra.find("query_growth");
  require(growth == manifest.extra.end() || !growth->contains("layers") || from == to, where,
          ": queries of layers without rotary embedding grow with position in this model, which is not repeated at "
          "another context");
  manifest.rope_stage = "post";
  manifest.context_length = to;
  if (manifest.bucket.kind != "log2") manifest.bucket.size = share_up(was.usual_bucket_size(), to, from);
  manifest.extra.erase("moments");
  auto rows = [change, was, now = manifest, from, to](captured_layer layer) {
    const auto applied = was.rope_of(was.layer(layer.layer)), wanted = now.rope_of(now.layer(layer.layer));
    const std::array positions{layer.q.position, layer.k.position};
    for (auto* side : {&layer.q, &layer.k}) move_positions(*side, change, from, to);
    if (!wanted) return layer;
    const bool rotated = was.rope_stage == "post";
    auto rotation = rotation_between(rotated ? &*applied : nullptr, *wanted);
    rotation.to = growth_of_queries(was);
    if (rotated) rotation.from = rotation.to;
    return rotated_layer(std::move(layer), positions, std::move(rotation));
  };
  auto tokens = [from, to](index_t n) { return share_up(n, to, from); };
  return source.changed({std::move(manifest), std::move(rows), std::move(tokens)});
}

capture_set what_if_as_in(const capture_set& source, const capture_manifest& other, index_t keep_first,
                          std::uint64_t seed) {
  const index_t to = other.context_length;
  const rotary_change change{.context_length = to, .rope = other.rope, .keep_first = keep_first, .seed = seed};
  return what_if(source.manifest().context_length > to ? source.before(to) : source, change);
}

capture_set before_rope(const capture_set& source) {
  auto manifest = source.manifest();
  if (manifest.rope_stage == "pre") return source;
  const auto was = manifest;
  for (const auto& l : manifest.layers) was.rope_of(l);
  manifest.rope_stage = "pre";
  manifest.extra.erase("moments");
  auto rows = [was](captured_layer layer) {
    const auto applied = was.rope_of(was.layer(layer.layer));
    if (!applied) return layer;
    captured_rope none{applied->style, applied->rotary_dim, 1, std::vector<double>(applied->inv_freq.size()),
                       applied->first};
    auto rotation = rotation_between(&*applied, none);
    rotation.from = growth_of_queries(was);
    return rotated_layer(layer, {layer.q.position, layer.k.position}, std::move(rotation));
  };
  return source.changed({std::move(manifest), std::move(rows), [](index_t n) { return n; }});
}

}  // namespace qkgeom
