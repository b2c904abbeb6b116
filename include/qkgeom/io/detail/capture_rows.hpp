// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/captured_layer.hpp"
#include "qkgeom/io/safetensors_file.hpp"

namespace qkgeom::detail {

using int32_view = vector_view<const std::int32_t>;

/// A document whose rows a file may hold, and its tokens.
struct allowed_document {
  index_t number = 0, tokens = 0;
};
/// The documents of a file, ascending; none: any.
using allowed_documents = std::optional<std::vector<allowed_document>>;

/// The documents of a manifest as those of a file: `numbers` of them, or all. One without an entry may be as long as
/// the context.
inline allowed_documents allowed_by(const capture_manifest& manifest,
                                    const std::optional<std::vector<index_t>>& numbers) {
  std::map<index_t, index_t> tokens;
  if (manifest.documents)
    for (const captured_document& d : *manifest.documents) tokens.emplace(d.index, d.tokens);
  std::vector<allowed_document> list;
  if (numbers) {
    for (const index_t n : *numbers) {
      const auto known = tokens.find(n);
      list.push_back({n, known == tokens.end() ? manifest.context_length : known->second});
    }
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
    return list;
  }
  if (!manifest.documents) return std::nullopt;
  for (const auto& [number, count] : tokens) list.push_back({number, count});
  return list;
}

/// Throws `error` naming tensor and row unless rows are in (document, position) order, documents among the `allowed`
/// ones, and positions in [0, tokens of the document) and [0, context_length).
inline void check_rows(const std::string& file, const std::string& tensor, int32_view position, int32_view document,
                       index_t context_length, const allowed_documents& allowed) {
  index_t tokens = context_length;
  for (index_t i = 0; i < position.size; ++i) {
    const bool new_document = i == 0 || document[i] != document[i - 1];
    if (new_document) {
      bool listed = document[i] >= 0;
      if (allowed && listed) {
        const auto at = std::lower_bound(allowed->begin(), allowed->end(), index_t{document[i]},
                                         [](const allowed_document& d, index_t n) { return d.number < n; });
        listed = at != allowed->end() && at->number == document[i];
        if (listed) tokens = at->tokens;
      }
      require(listed, file, ": tensor ", tensor, ".example row ", i, ": the manifest lists no example ", document[i],
              " here");
      require(i == 0 || document[i] > document[i - 1], file, ": tensor ", tensor, ".example row ", i, ": example ",
              document[i], " follows ", i ? document[i - 1] : 0, ", but rows must be in (example, position) order");
    }
    require(position[i] >= 0 && position[i] < context_length, file, ": tensor ", tensor, ".position row ", i,
            ": position ", position[i], " is not in [0, ", context_length, "), the context length");
    require(position[i] < tokens, file, ": tensor ", tensor, ".position row ", i, ": position ", position[i],
            " lies past the end of example ", document[i], ", which has ", tokens, " tokens by the manifest");
    require(new_document || position[i] >= position[i - 1], file, ": tensor ", tensor, ".position row ", i,
            ": position ", position[i], " follows ", i ? position[i - 1] : 0, " in example ", document[i],
            ", but rows must be in (example, position) order");
  }
}

/// Integers of a shard as 32-bit ones: in place where the file has I32 and is aligned, else copied.
inline int32_view read_integers(const std::shared_ptr<const safetensors_file>& file, const tensor_entry& entry,
                                std::vector<std::shared_ptr<const void>>& owners) {
  const std::string where = file->path().string() + ": tensor " + entry.name;
  if (entry.dtype == "I32") {
    const auto values = std::make_shared<const tensor_values<std::int32_t>>(file->values<std::int32_t>(entry));
    owners.push_back(values);
    return {values->data(), static_cast<index_t>(values->size())};
  }
  require(entry.dtype == "I64", where, " must have dtype I32 or I64, not ", printable(entry.dtype));
  const auto wide = file->values<std::int64_t>(entry);
  auto values = std::make_shared<std::vector<std::int32_t>>(wide.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    require(wide[i] >= INT32_MIN && wide[i] <= INT32_MAX, where, " row ", i, ": ", wide[i], " does not fit in 32 bits");
    (*values)[i] = static_cast<std::int32_t>(wide[i]);
  }
  owners.push_back(values);
  return {values->data(), static_cast<index_t>(values->size())};
}

/// The row vector `<tensor>.<kind>` of a shard, which must have `rows` entries.
inline int32_view read_row_vector(const std::shared_ptr<const safetensors_file>& file, captured_side& side,
                                  const char* kind) {
  const auto& entry = file->at(side.tensor + '.' + kind);
  require(entry.shape == std::vector<index_t>{side.rows}, side.file, ": tensor ", entry.name, " must have shape (",
          side.rows, ",), one entry for each row of ", side.tensor, ", not ", shape_text(entry.shape));
  return read_integers(file, entry, side.owners);
}

/// Dtype of a tensor of rows. Throws `error` naming the tensor if rows may not have it.
inline dtype row_dtype(const std::string& file, const tensor_entry& entry) {
  for (const dtype t : {dtype::bf16, dtype::f16, dtype::f32, dtype::f64})
    if (entry.dtype == name_of(t)) return t;
  fail(file, ": tensor ", entry.name, " must have dtype BF16, F16, F32 or F64, not ", printable(entry.dtype));
}

/// Throws `error` unless the file has this number of rows, queries and keys of all layers together.
inline void require_rows(const safetensors_file& file, const capture_manifest& manifest, index_t rows) {
  index_t found = 0;
  for (const captured_layer_info& l : manifest.layers)
    for (const char* side : {".q", ".k"}) {
      const auto& shape = file.at("layer." + std::to_string(l.layer) + side).shape;
      found += shape.empty() ? 0 : shape[0];
    }
  require(found == rows, file.path().string(), ": it holds ", found, " rows of queries and keys, ", rows,
          " by the capture's list of shards");
}

/// One side of a layer from one shard; `kind` is 'q' or 'k'. Checks everything but finiteness.
inline captured_side read_side(const std::shared_ptr<const safetensors_file>& file, const capture_manifest& manifest,
                               const captured_layer_info& info, char kind, const allowed_documents& allowed) {
  captured_side side;
  side.file = file->path().string();
  side.tensor = "layer." + std::to_string(info.layer) + '.' + kind;
  const auto& entry = file->at(side.tensor);
  side.element = row_dtype(side.file, entry);
  side.heads = static_cast<index_t>((kind == 'q' ? info.query_heads : info.key_heads).size());
  side.dim = manifest.model.head_dim;
  require(entry.shape.size() == 3 && entry.shape[1] == side.heads && entry.shape[2] == side.dim, side.file, ": tensor ",
          side.tensor, " must have shape (rows, ", side.heads, ", ", side.dim, ") after the manifest, not ",
          shape_text(entry.shape));
  side.rows = entry.shape[0];
  require(side.rows <= largest_position, side.file, ": tensor ", side.tensor, " has more rows than 32 bits can count");
  side.owners.push_back(file);
  side.data = entry.data;
  if (reinterpret_cast<std::uintptr_t>(entry.data) % size_of(side.element) != 0) {
    const auto copy = std::make_shared<const std::vector<std::byte>>(entry.data, entry.data + entry.bytes);
    side.data = copy->data();
    side.owners.push_back(copy);
  }
  side.position = read_row_vector(file, side, "position");
  side.document = read_row_vector(file, side, "example");
  if (file->find(side.tensor + ".token")) side.token = read_row_vector(file, side, "token");
  check_rows(side.file, side.tensor, side.position, side.document, manifest.context_length, allowed);
  return side;
}

/// Rows of several shards, one after another. Token ids are kept if every shard has them.
inline captured_side join(std::vector<captured_side> shards, const std::string& where) {
  if (shards.size() == 1) return std::move(shards.front());
  captured_side all = shards.front();
  std::size_t bytes = 0;
  index_t rows = 0;
  bool tokens = true;
  for (const auto& shard : shards) {
    require(shard.element == all.element, shard.file, ": tensor ", shard.tensor, " has dtype ", name_of(shard.element),
            ", but ", name_of(all.element), " in ", all.file);
    bytes += shard.bytes();
    rows += shard.rows;
    tokens = tokens && shard.token.size == shard.rows;
  }
  require(rows <= largest_position, where, ": tensor ", all.tensor, " has more rows than 32 bits count");
  const auto data = std::make_shared<std::vector<std::byte>>();
  const auto position = std::make_shared<std::vector<std::int32_t>>();
  const auto document = std::make_shared<std::vector<std::int32_t>>();
  const auto token = std::make_shared<std::vector<std::int32_t>>();
  data->reserve(bytes);
  for (const auto& shard : shards) {
    require(document->empty() || shard.rows == 0 || shard.document[0] > document->back(), shard.file, ": tensor ",
            shard.tensor, " starts with example ", shard.rows ? shard.document[0] : 0,
            " where the shards before it end with ", document->empty() ? 0 : document->back(),
            ", but rows must be in (example, position) order");
    data->insert(data->end(), shard.data, shard.data + shard.bytes());
    position->insert(position->end(), shard.position.begin(), shard.position.end());
    document->insert(document->end(), shard.document.begin(), shard.document.end());
    if (tokens) token->insert(token->end(), shard.token.begin(), shard.token.end());
  }
  const auto view = [](const auto& v) { return int32_view{v->data(), static_cast<index_t>(v->size())}; };
  all.file = where;
  all.rows = rows;
  all.data = data->data();
  all.position = view(position), all.document = view(document), all.token = view(token);
  all.owners = {data, position, document, token};
  return all;
}

}  // namespace qkgeom::detail
