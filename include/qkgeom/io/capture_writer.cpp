// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture_writer.hpp"

#include <algorithm>
#include <optional>

namespace qkgeom {

namespace detail {

void add_side(std::vector<tensor_to_write>& tensors, const capture_manifest& manifest, const std::string& target,
              const std::string& name, dtype element, index_t heads, const side_to_write& side,
              const allowed_documents& allowed) {
  const auto rows = static_cast<index_t>(side.position.size());
  const std::vector<index_t> shape{rows, heads, manifest.model.head_dim};
  const auto bytes = tensor_size(shape, size_of(element));
  require(bytes && side.data.size() == *bytes, "cannot write ", target, ": tensor ", name, " of shape ",
          shape_text(shape), " and dtype ", name_of(element), " was given ", side.data.size(), " bytes");
  require(
      side.document.size() == side.position.size() && (side.token.empty() || side.token.size() == side.position.size()),
      "cannot write ", target, ": tensor ", name, " has ", rows, " positions, ", side.document.size(), " examples and ",
      side.token.size(), " tokens");
  const int32_view document{side.document.data(), rows};
  check_rows(target, name, {side.position.data(), rows}, document, manifest.context_length, allowed);
  tensors.push_back({name, std::string(name_of(element)), shape, side.data, {}});
  tensors.push_back(tensor_of(name + ".position", {rows}, side.position.data()));
  tensors.push_back(tensor_of(name + ".example", {rows}, side.document.data()));
  if (!side.token.empty()) tensors.push_back(tensor_of(name + ".token", {rows}, side.token.data()));
}

}  // namespace detail

std::string write_capture_file(const std::filesystem::path& path, capture_manifest manifest,
                               std::span<const layer_to_write> layers, const std::vector<tensor_to_write>& extra) {
  const std::string target = path.string();
  manifest.shards.clear();
  const std::string text = manifest_text(manifest);
  parse_manifest(text, target + " (manifest)");  // refuses a manifest that no reader accepts before it is on disk
  const auto allowed = detail::allowed_by(manifest, std::nullopt);
  std::vector<tensor_to_write> tensors;
  require(layers.size() == manifest.layers.size(), "cannot write ", target, ": ", layers.size(),
          " layers were given, the manifest lists ", manifest.layers.size());
  for (const auto& info : manifest.layers) {
    const auto l = std::find_if(layers.begin(), layers.end(), [&](const auto& x) { return x.layer == info.layer; });
    require(l != layers.end(), "cannot write ", target, ": layer ", info.layer, " of the manifest was not given");
    const std::string name = "layer." + std::to_string(info.layer);
    const auto add = [&](const char* kind, const std::vector<index_t>& heads, const side_to_write& side) {
      detail::add_side(tensors, manifest, target, name + kind, l->element, static_cast<index_t>(heads.size()), side,
                       allowed);
    };
    add(".q", info.query_heads, l->q);
    add(".k", info.key_heads, l->k);
  }
  tensors.insert(tensors.end(), extra.begin(), extra.end());
  return write_safetensors(path, std::move(tensors), {{"qkgeom", text}});
}

}  // namespace qkgeom
