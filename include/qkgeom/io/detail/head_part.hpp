// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/io/head_part.hpp"

namespace qkgeom {

namespace detail {

/// Coordinates [first, end) of a head.
struct coordinate_range {
  index_t first, end;
};

QKGEOM_INLINE coordinate_range find_head_part(const capture_manifest& m, const std::string& name,
                                              const std::string& where) {
  const auto parts = m.extra.find(head_parts_field);
  require(parts != m.extra.end() && parts->is_object(), where, " names no parts of its heads (head_parts)");
  std::string known;
  for (const auto& [key, range] : parts->items()) {
    known += (known.empty() ? "" : ", ") + key;
    if (key != name) continue;
    const json_value v(range, where + ": head_parts." + key);
    const auto bounds = v.integers(0, m.model.head_dim);
    v.expect(bounds.size() == 2 && bounds[0] < bounds[1], "the first coordinate and the end");
    return {bounds[0], bounds[1]};
  }
  fail(where, " has no part of heads '", name, "'; it has ", known);
}

/// The rotary embedding of a part; none if it turns nothing of it.
QKGEOM_INLINE std::optional<captured_rope> rope_of_part(const captured_rope& rope, const coordinate_range& part,
                                                        const std::string& where) {
  const index_t end = rope.first + rope.rotary_dim;
  if (end <= part.first || part.end <= rope.first) return std::nullopt;
  require(part.first <= rope.first && end <= part.end, where,
          ": the rotary embedding turns some coordinates of that part of heads and not others of its own");
  captured_rope own = rope;
  own.first -= part.first;
  return own;
}

QKGEOM_INLINE void keep_coordinates(captured_side& side, const coordinate_range& part) {
  const auto size = size_of(side.element);
  const index_t dim = part.end - part.first, heads = side.rows * side.heads;
  auto kept = std::make_shared<std::vector<std::byte>>(heads * dim * size);
  for (index_t i = 0; i < heads; ++i)
    std::memcpy(kept->data() + i * dim * size, side.data + (i * side.dim + part.first) * size, dim * size);
  side.data = kept->data();
  side.dim = dim;
  side.owners.push_back(std::move(kept));
}

}  // namespace detail

QKGEOM_INLINE capture_set head_part(const capture_set& source, const std::string& name) {
  auto manifest = source.manifest();
  const std::string where = source.captures()[0].path().string();
  const auto part = detail::find_head_part(manifest, name, where);
  if (!manifest.score_scale) manifest.score_scale = 1 / std::sqrt(static_cast<double>(manifest.model.head_dim));
  manifest.model.name += ", " + name + " part of heads";
  manifest.model.head_dim = part.end - part.first;
  const auto whole_rope = manifest.rope;
  if (manifest.rope) manifest.rope = detail::rope_of_part(*manifest.rope, part, where);
  for (auto& l : manifest.layers) {
    const auto& rope = l.rope_parameters ? l.rope_parameters : whole_rope;
    const auto own = rope ? detail::rope_of_part(*rope, part, where) : std::nullopt;
    l.rope = l.rope && (!rope || own);
    if (l.rope_parameters) l.rope_parameters = own;
  }
  manifest.extra.erase(head_parts_field);
  manifest.extra.erase("moments");
  auto rows = [part, now = manifest](captured_layer layer) {
    layer.rope = now.layer(layer.layer).rope;
    for (auto* side : {&layer.q, &layer.k}) detail::keep_coordinates(*side, part);
    return layer;
  };
  return source.changed({std::move(manifest), std::move(rows), [](index_t n) { return n; }});
}

}  // namespace qkgeom
