// SPDX-License-Identifier: MIT
#include "capture/evaluate/restore.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <ostream>
#include <set>

#include "capture/forward/layer_weights.hpp"
#include "capture/job/prepare.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;

const fs::path& in_safetensors(const fs::path& model) {
  require(find_gguf(model).empty(), model.string(), " is GGUF; heads are restored in models of safetensors alone");
  return model;
}

decoder_description describe(const fs::path& model) {
  return read_description(read_json(model / "config.json", std::size_t{1} << 20));
}

/// Heads of a layer that are restored.
struct layer_heads {
  std::set<index_t> query, key;
};

std::map<index_t, layer_heads> heads_of(const decoder_description& model, const condition& c) {
  std::map<index_t, layer_heads> layers;
  for (const head_change& change : c.changes) {
    if (!change.restore) continue;
    const auto [layer, head] = change.head;
    layers[layer].query.insert(head);
    if (change.restore == restored_part::query) continue;
    const layer_description& l = model.layers[layer];
    require(!l.values_of_keys, "the keys of layer ", layer, " cannot be restored: values come from the same matrix");
    const index_t readers = model.query_heads / model.heads_of(l).key_heads, key = head / readers;
    layers[layer].key.insert(key);
    for (index_t h = key * readers; h < (key + 1) * readers; ++h) layers[layer].query.insert(h);
  }
  return layers;
}

}  // namespace

restoring::restoring(const decoder_description& model, const fs::path& from)
    : model_(model), from_(in_safetensors(from)) {
  const decoder_description other = describe(from);
  require(!model.latent, "heads of latent attention cannot be restored: they share the matrices of their latent rows");
  const auto same = [](const layer_description& a, const layer_description& b) {
    return a.delta == b.delta && a.skipped == b.skipped && a.heads == b.heads;
  };
  require(other.model_type == model.model_type && other.hidden == model.hidden &&
              other.query_heads == model.query_heads && other.key_heads == model.key_heads &&
              other.head_dim == model.head_dim &&
              std::equal(model.layers.begin(), model.layers.end(), other.layers.begin(), other.layers.end(), same),
          from.string(), " has another shape: ", other.model_type, " of ", other.n_layers(), " layers with ",
          other.query_heads, " query heads and ", other.key_heads, " key heads of ", other.head_dim, " channels, not ",
          model.model_type, " of ", model.n_layers(), " with ", model.query_heads, ", ", model.key_heads, " and ",
          model.head_dim);
  prefix_ = find_prefix(model, from_);
}

checkpoint restoring::restored(const checkpoint& weights, const condition& c, std::ostream& notes) const {
  checkpoint mixed = weights;
  const std::string prefix = find_prefix(model_, weights);
  const auto take = [&](const std::string& name, index_t first, index_t count) {
    mixed.replace_rows(name, first, count, from_, prefix_ + name.substr(prefix.size()));
  };
  for (const auto& [layer, heads] : heads_of(model_, c)) {
    const head_shape shape = model_.heads_of(model_.layers[layer]);
    const auto take_head = [&](index_t number) {
      for (const auto& r : query_key_rows(model_, prefix, layer, number * shape.head_dim, shape.head_dim))
        take(r.name, r.first, r.count);
    };
    for (const index_t h : heads.query) take_head(h);
    for (const index_t h : heads.key) take_head(model_.query_heads + h);
    if (model_.qk != qk_norm::each_head && model_.qk != qk_norm::each_head_after_rotation) continue;
    const auto take_norm = [&](const std::string& name, const std::set<index_t>& of, index_t all) {
      if (static_cast<index_t>(of.size()) == all)
        take(prefix + "layers." + std::to_string(layer) + '.' + name + ".weight", 0, shape.head_dim);
      else if (!of.empty())
        notes << "note: condition " << c.name << ": all heads of layer " << layer << " share " << name
              << ", which stays as it is\n";
    };
    take_norm(model_.names.q_norm, heads.query, model_.query_heads);
    take_norm(model_.names.k_norm, heads.key, shape.key_heads);
  }
  return mixed;
}

void write_restored(const evaluation_options& options, const fs::path& folder, std::ostream& notes) {
  const fs::path& model = options.capture.model.path;
  std::error_code none;
  require(!fs::equivalent(model, folder, none), "--write must name another folder than --model");
  require(!options.capture.model.untrained, "--write needs weights that are read, not --untrained");
  const decoder_description d = describe(in_safetensors(model));
  const auto conditions = read_conditions(options.conditions, d);
  const auto restores = [](const head_change& c) { return c.restore.has_value(); };
  require(conditions.size() == 1 && std::all_of(conditions[0].changes.begin(), conditions[0].changes.end(), restores),
          options.conditions.string(), ": --write needs one condition, whose changes are all \"restore\"");
  const checkpoint mixed = restoring(d, options.restore_from).restored(checkpoint(model), conditions[0], notes);
  constexpr std::array<std::string_view, 8> copied{
      "config", "generation_config", "tokenizer",    "special_tokens_map", "vocab",
      "merges", "added_tokens",      "chat_template"};
  for (const auto& file : fs::directory_iterator(model)) {
    const std::string name = file.path().filename().string();
    if (file.is_regular_file() &&
        std::any_of(copied.begin(), copied.end(), [&](auto start) { return name.starts_with(start); }))
      fs::copy_file(file.path(), folder / name, fs::copy_options::overwrite_existing);
  }
  mixed.write(folder / "model.safetensors");
}

}  // namespace qkgeom
