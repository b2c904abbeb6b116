// SPDX-License-Identifier: MIT
#include "capture/job/stores/row_store.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "qkgeom/core/random.hpp"

namespace qkgeom {
namespace {

template <class T>
void append(std::vector<std::byte>& bytes, const float* row, index_t n) {
  const std::size_t begin = bytes.size();
  bytes.resize(begin + n * sizeof(T));
  for (index_t c = 0; c < n; ++c) {
    T x;
    if constexpr (std::is_same_v<T, bf16>)
      x = bf16::round(row[c]);
    else
      x = row[c];
    std::memcpy(bytes.data() + begin + c * sizeof(T), &x, sizeof(T));
  }
}

}  // namespace

row_store::row_store(const capture_manifest& manifest, token_sampler sampler, compute_type compute, bool same_positions,
                     index_t skipped)
    : manifest_(&manifest),
      sampler_(sampler),
      compute_(compute),
      same_positions_(same_positions),
      skipped_(skipped),
      rows_(manifest.layers.size()) {}

void row_store::add_side(side& rows, const std::vector<std::int32_t>& positions, tensor_view<const float> x,
                         const std::vector<index_t>& heads, index_t layer, std::int32_t document,
                         std::span<const std::int32_t> ids) const {
  for (index_t r = 0; r < x.rows; ++r) {
    const std::int32_t t = positions[r];
    rows.position.push_back(t);
    rows.document.push_back(document);
    rows.token.push_back(ids[t]);
    for (const index_t h : heads) {
      const float* row = x.head(h).row(r);
      const bool finite = std::all_of(row, row + x.dim, [](float v) { return std::isfinite(v); });
      require(finite, "the model computes NaN or Inf: layer ", layer, ", head ", h, ", document ", document,
              ", position ", t);
      if (compute_ == compute_type::bf16)
        append<bf16>(rows.data, row, x.dim);
      else
        append<float>(rows.data, row, x.dim);
    }
  }
}

row_choice row_store::choose(index_t layer, std::int32_t document, index_t tokens) const {
  if (manifest_->find_layer(layer) < 0) return {};
  random_stream stream{manifest_->seed, static_cast<std::uint32_t>(document + skipped_),
                       static_cast<std::uint32_t>(layer), draw::query_token};
  row_choice choice{draw_tokens(sampler_, tokens, stream), {}};
  if (!same_positions_) stream.use = draw::key_token;
  choice.k = draw_tokens(sampler_, tokens, stream);
  return choice;
}

void row_store::add(index_t layer, const row_choice& choice, tensor_view<const float> q, tensor_view<const float> k,
                    std::int32_t document, std::span<const std::int32_t> ids) {
  const index_t index = manifest_->find_layer(layer);
  add_side(rows_[index].q, choice.q, q, manifest_->layers[index].query_heads, layer, document, ids);
  add_side(rows_[index].k, choice.k, k, manifest_->layers[index].key_heads, layer, document, ids);
}

std::vector<layer_to_write> row_store::layers() const {
  std::vector<layer_to_write> list;
  const auto view = [](const side& s) { return side_to_write{s.data, s.position, s.document, s.token}; };
  const dtype element = compute_ == compute_type::bf16 ? dtype::bf16 : dtype::f32;
  for (std::size_t i = 0; i < rows_.size(); ++i)
    list.push_back({manifest_->layers[i].layer, element, view(rows_[i].q), view(rows_[i].k)});
  return list;
}

void row_store::clear() {
  for (layer_rows& l : rows_)
    for (side* s : {&l.q, &l.k}) {
      s->data.clear();
      s->position.clear();
      s->document.clear();
      s->token.clear();
    }
}

}  // namespace qkgeom
