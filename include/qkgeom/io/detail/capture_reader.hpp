// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <set>

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/capture_manifest_text.hpp"
#include "qkgeom/io/capture_reader.hpp"
#include "qkgeom/io/detail/capture_rows.hpp"
#include "qkgeom/io/detail/each_once.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom {

namespace detail {

QKGEOM_INLINE capture_manifest manifest_of(const safetensors_file& file) {
  const auto it = file.metadata().find("qkgeom");
  require(it != file.metadata().end(), file.path().string(), ": not a capture: its metadata has no field qkgeom");
  return parse_manifest(it->second, file.path().string() + " (manifest)");
}

QKGEOM_INLINE void check_same_capture(const capture_manifest& folder, const capture_manifest& shard,
                                      const std::string& name) {
  const auto same = [&](bool equal, const char* field) {
    require(equal, name, ": the shard's ", field, " differs from that in manifest.json: it belongs to another capture");
  };
  same(folder.model == shard.model, "model");
  same(folder.context_length == shard.context_length, "context_length");
  same(folder.bucket == shard.bucket, "bucket");
  same(folder.rate == shard.rate, "rate");
  same(folder.rope_stage == shard.rope_stage, "rope_stage");
  same(folder.seed == shard.seed, "seed");
  same(folder.layers == shard.layers, "layers");
}

/// The documents that the rows of a shard may have.
QKGEOM_INLINE allowed_documents documents_of(const capture_manifest& m, index_t shard) {
  if (m.shards.empty()) return allowed_by(m, std::nullopt);
  return allowed_by(m, m.shards[shard].documents);
}

}  // namespace detail

QKGEOM_INLINE capture capture::open(const std::filesystem::path& path) {
  auto s = std::make_shared<state>();
  s->path = path;
  std::error_code none;
  if (std::filesystem::is_directory(path, none))
    open_folder(*s);
  else
    open_file(*s);
  return capture(std::move(s));
}

QKGEOM_INLINE std::vector<index_t> capture::layers() const {
  std::vector<index_t> list;
  for (const auto& l : manifest().layers) list.push_back(l.layer);
  return list;
}

QKGEOM_INLINE captured_layer capture::read_layer(index_t layer, index_t shard) const {
  const auto file = this->file(shard);
  const auto allowed = detail::documents_of(manifest(), shard);
  return assemble(layer, [&](const captured_layer_info& info, char kind) {
    return detail::read_side(file, manifest(), info, kind, allowed);
  });
}

QKGEOM_INLINE captured_layer capture::read_layer(index_t layer) const {
  if (n_shards() == 1) return read_layer(layer, 0);
  return assemble(layer, [&](const captured_layer_info& info, char kind) {
    std::vector<captured_side> sides;
    for (index_t s = 0; s < n_shards(); ++s)
      sides.push_back(detail::read_side(file(s), manifest(), info, kind, detail::documents_of(manifest(), s)));
    return detail::join(std::move(sides), path().string());
  });
}

QKGEOM_INLINE index_t capture::bytes(index_t shard) const {
  std::error_code missing;
  const auto& listed = manifest().shards;
  const auto size = std::filesystem::file_size(listed.empty() ? path() : path() / listed[shard].file, missing);
  return missing ? 0 : static_cast<index_t>(size);
}

QKGEOM_INLINE std::shared_ptr<const safetensors_file> capture::file(index_t shard) const {
  require(shard >= 0 && shard < n_shards(), path().string(), ": there is no shard ", shard, " of ", n_shards());
  const std::lock_guard lock(state_->mutex);
  auto& file = state_->files[shard];
  if (!file) {
    const auto name = state_->path / manifest().shards[shard].file;
    auto opened = std::make_shared<const safetensors_file>(name);
    detail::check_same_capture(manifest(), detail::manifest_of(*opened), name.string());
    detail::require_rows(*opened, manifest(), manifest().shards[shard].rows);
    file = std::move(opened);
  }
  return file;
}

QKGEOM_INLINE void capture::open_file(state& s) {
  s.files.push_back(std::make_shared<const safetensors_file>(s.path));
  s.manifest = detail::manifest_of(*s.files[0]);
  // A single file that was a shard has its manifest, but not the other shards.
  s.manifest.shards.clear();
}

QKGEOM_INLINE void capture::open_folder(state& s) {
  const auto name = s.path / "manifest.json";
  require(std::filesystem::exists(name), s.path.string(),
          ": no manifest.json in this folder: it is not a capture, or one that is not finished");
  s.manifest = parse_manifest(read_text(name, max_manifest_bytes), name.string());
  require(!s.manifest.shards.empty(), name.string(), ": shards must list at least one file");
  detail::require_each_once(s.manifest.shards, name.string(), "shard", [](const auto& x) { return x.file; });
  if (s.manifest.documents) {
    std::set<index_t> listed;
    for (const auto& e : *s.manifest.documents) listed.insert(e.index);
    for (const auto& shard : s.manifest.shards)
      for (const index_t e : shard.documents)
        require(listed.count(e) == 1, name.string(), ": ", shard.file, " holds example ", e,
                ", which examples does not list");
  }
  s.files.resize(s.manifest.shards.size());
}

template <class Read>
captured_layer capture::assemble(index_t number, Read read) const {
  const auto known = layers();
  require(std::find(known.begin(), known.end(), number) != known.end(), path().string(), ": layer ", number,
          " is not in this capture");
  const auto& info = manifest().layer(number);
  captured_layer l;
  l.layer = info.layer, l.rope = info.rope, l.window = info.window;
  l.query_heads = info.query_heads, l.key_heads = info.key_heads;
  l.key_of_query = manifest().key_of_query(info);
  l.q = read(info, 'q');
  l.k = read(info, 'k');
  require(l.q.element == l.k.element, l.k.file, ": tensor ", l.k.tensor, " must have the dtype of ", l.q.tensor, ", ",
          name_of(l.q.element), ", not ", name_of(l.k.element));
  l.element = l.q.element;
  return l;
}

}  // namespace qkgeom
