// SPDX-License-Identifier: MIT
#include "capture/gguf/gguf_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

#include "qkgeom/core/budget.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/rope_config.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;

constexpr index_t largest_count = index_t{1} << 30;

/// Counts a file's blocks, without those that predict several tokens behind the last layer.
index_t layers_of(const architecture_keys& keys) {
  constexpr const char* more = "nextn_predict_layers";
  const index_t blocks = keys["block_count"].integer(1, largest_count);
  const index_t behind = keys.has(more) ? keys[more].integer(0, largest_count) : 0;
  require(behind < blocks, keys.where(), ": ", more, " must be less than block_count, ", blocks);
  return blocks - behind;
}

/// Returns the number of key heads of a layer; empty where layers differ.
std::optional<index_t> key_heads_of(const gguf_architecture& architecture, const architecture_keys& keys,
                                    index_t heads) {
  constexpr const char* counts = "attention.head_count_kv";
  if (!keys.has(counts) || !keys[counts].raw().is_array()) return keys.integer(counts, heads);
  auto list = keys[counts].integers(0, largest_count);
  if (architecture.attends_at_times) std::erase(list, 0);
  if (list.empty() || list[0] == 0 || std::count(list.begin(), list.end(), list[0]) != std::ssize(list)) return {};
  return list[0];
}

/// Returns whether a tensor belongs to block `first` or a later one.
bool is_behind(std::string_view name, index_t first) {
  index_t block = 0;
  if (!name.starts_with("blk.")) return false;
  const auto digits = std::from_chars(name.data() + 4, name.data() + name.size(), block);
  return digits.ec == std::errc() && block >= first;
}

/// Returns the key of the factor of the rotary scaling, which has another name in old files.
std::string key_of_factor(const architecture_keys& keys) {
  constexpr const char* old = "rope.scale_linear";
  return keys.has("rope.scaling.factor") || !keys.has(old) ? "rope.scaling.factor" : old;
}

}  // namespace

index_t named_tensor::stored_row(index_t row) const {
  if (tiled && !tiled->columns) return tiled->stored(row);
  if (order == row_order::paired) {
    const index_t d = tensor.shape[0] / heads, j = row % d;
    return row - j + (j < d / 2 ? 2 * j : 2 * (j - d / 2) + 1);
  }
  if (order == row_order::by_kind) {
    const index_t d = tensor.shape[0] / (3 * heads), j = row % d, kind = row / d % 3, h = row / (3 * d);
    return (kind * heads + h) * d + j;
  }
  return row;
}

void named_tensor::widen(index_t first, index_t count, index_t width, float* out) const {
  if (values) return widen_latent(first, count, width, out);
  const index_t bytes = width / tensor.type->elements * tensor.type->bytes;
  std::vector<float> stored(tiled && tiled->columns ? width : 0);
  for (index_t i = 0; i < count; ++i, out += width) {
    const std::byte* const row = tensor.data + stored_row(first + i) * bytes;
    widen_blocks(*tensor.type, row, width, stored.empty() ? out : stored.data());
    if (!stored.empty())
      for (index_t c = 0; c < width; ++c) out[c] = stored[tiled->stored(c)];
    for (index_t c = 0; c < width; ++c) out[c] = decays ? std::log(-out[c]) : out[c] - plus;
  }
}

void named_tensor::widen_latent(index_t first, index_t count, index_t width, float* out) const {
  const index_t rows = tensor.shape[0] / heads, value_dim = rows - plain;
  std::vector<float> keys;  // of a head, (width, plain)
  index_t head = -1;
  for (index_t r = first; r < first + count; ++r, out += width) {
    const index_t h = r / rows, i = r % rows;
    if (i >= plain) {
      values->widen(h * value_dim + i - plain, 1, width, out);
      continue;
    }
    if (h != head) {
      const auto& type = *tensor.type;
      keys.resize(width * plain);
      widen_blocks(type, tensor.data + h * width * (plain / type.elements * type.bytes), width * plain, keys.data());
      head = h;
    }
    for (index_t c = 0; c < width; ++c) out[c] = keys[c * plain + i];
  }
}

gguf_model::gguf_model(const fs::path& path) : where_(path.string()) {
  for (const auto& part : parts_of_gguf(path)) files_.push_back(std::make_shared<const gguf_file>(part));
  check_parts();
  const std::string name = value("general.architecture").string();
  const auto& architecture = find_architecture(name, metadata(), where_);
  const architecture_keys keys(metadata(), name, where_);
  name_tensors(architecture, keys);
  read_config(architecture, keys);
}

json_value gguf_model::value(const std::string& key) const { return json_value(metadata(), where_)[key.c_str()]; }

void gguf_model::check_parts() const {
  index_t tensors = 0;
  std::set<std::string_view> names;
  for (const auto& file : files_) {
    tensors += static_cast<index_t>(file->tensors().size());
    for (const auto& t : file->tensors())
      require(names.insert(t.first).second, where_, ": tensor ", printable(t.first), " is in two parts");
  }
  if (has("split.count")) {
    const index_t parts = value("split.count").integer(0, 99999);
    require(parts <= 1 || parts == static_cast<index_t>(files_.size()), where_, " is one of ", parts,
            " parts by split.count; the name must end with ", fmt::format("-00001-of-{:05}.gguf", parts),
            ", the others beside it");
  }
  if (has("split.tensors.count"))
    require(value("split.tensors.count").integer(0, largest_count) == tensors, where_, ": the parts have ", tensors,
            " tensors, not the ", value("split.tensors.count").raw().dump(), " of split.tensors.count");
}

void gguf_model::read_config(const gguf_architecture& architecture, const architecture_keys& keys) {
  const auto number = [&](const std::string& key) { return keys[key].integer(1, largest_count); };
  const index_t heads = number("attention.head_count"), hidden = number("embedding_length");
  const index_t d = keys.integer("attention.key_length", hidden / heads);
  const bool latent = keys.has("attention.key_length_mla");
  require(latent || keys.integer("attention.value_length", d) == d, where_, ": attention.value_length is not ", d,
          ", the length of keys");
  const bool dense = keys.has("feed_forward_length") || !keys.has("expert_feed_forward_length");
  config_ = {{"model_type", architecture.model_type},
             {"hidden_size", hidden},
             {"intermediate_size", number(dense ? "feed_forward_length" : "expert_feed_forward_length")},
             {"num_hidden_layers", layers_of(keys)},
             {"num_attention_heads", heads},
             {"head_dim", d},
             {"max_position_embeddings", number("context_length")},
             {"hidden_act", "silu"},
             {"torch_dtype", "float32"}};
  if (const auto n = key_heads_of(architecture, keys, heads)) config_["num_key_value_heads"] = *n;
  if (architecture.layer_norm)
    config_["layer_norm_eps"] = keys["attention.layer_norm_epsilon"].positive();
  else if (!architecture.may_lack_eps || keys.has("attention.layer_norm_rms_epsilon"))
    config_["rms_norm_eps"] = keys["attention.layer_norm_rms_epsilon"].positive();
  const auto holds = [&](std::string_view name) {
    return std::any_of(tensors_.begin(), tensors_.end(), [&](const named_tensor& t) { return t.name.ends_with(name); });
  };
  config_["tie_word_embeddings"] = !holds("lm_head.weight") && !holds("embed_out.weight");
  config_["attention_bias"] =
      holds("layers.0.self_attn.q_proj.bias") || holds("layers.0.attention.query_key_value.bias");
  config_["attention_out_bias"] = holds("layers.0.self_attn.o_proj.bias");
  config_["use_qk_norm"] = holds("layers.0.self_attn.q_norm.weight");
  config_["mamba_conv_bias"] = holds(".mamba.conv1d.bias");
  config_["mlp_bias"] = holds("layers.0.mlp.up_proj.bias");
  for (const auto& t : tensors_)
    if (t.name.ends_with("embed_tokens.weight") || t.name.ends_with("embed_in.weight"))
      config_["vocab_size"] = t.tensor.shape.front();
  require(config_.contains("vocab_size"), where_, ": there is no tensor token_embd.weight");
  if (has("general.name")) config_["_name_or_path"] = value("general.name").string();
  if (has("tokenizer.ggml.bos_token_id"))
    config_["bos_token_id"] = value("tokenizer.ggml.bos_token_id").integer(0, largest_count);
  if (keys.has("attention.causal")) config_["is_causal"] = keys["attention.causal"].boolean();
  read_rope(keys);
  if (architecture.add_fields) architecture.add_fields(keys, config_);
  require(config_.contains("num_key_value_heads"), where_, ": a number of key heads for each layer ",
          "(attention.head_count_kv) is not supported for this architecture in GGUF");
  if (config_.contains("per_layer_config"))
    config_["attention_k_eq_v"] = !holds("layers." + std::to_string(layers_of(keys) - 1) + ".self_attn.v_proj.weight");
  name_dense_layers();
}

/// Lists the layers without experts in a model that has experts.
void gguf_model::name_dense_layers() {
  if (!config_.contains("num_experts")) return;
  json dense = json::array();
  const index_t layers = config_["num_hidden_layers"];
  for (index_t i = 0; i < std::min(layers, index_t{4096}); ++i) {
    const std::string router = "model.layers." + std::to_string(i) + ".mlp.gate.weight";
    if (std::none_of(tensors_.begin(), tensors_.end(), [&](const named_tensor& t) { return t.name == router; }))
      dense.push_back(i);
  }
  config_["mlp_only_layers"] = dense;
}

void gguf_model::read_rope(const architecture_keys& keys) {
  const index_t d = config_["head_dim"], rotated = keys.integer("rope.dimension_count", d);
  require(rotated <= d && rotated % 2 == 0, where_, ": a rotary embedding of ", rotated, " of ", d,
          " channels is not possible");
  // The reader rounds the number of channels down.
  if (rotated < d) config_["partial_rotary_factor"] = std::nextafter(double(rotated) / double(d), 1.0);
  config_["rope_theta"] = keys.positive("rope.freq_base", 10000);
  // A factor without a type means a linear scaling; 0 means 1.
  const std::string factor = key_of_factor(keys);
  const bool scales = keys.has(factor) && keys[factor].number() != 0;
  const std::string type = keys.has("rope.scaling.type") ? keys["rope.scaling.type"].string()
                           : scales                      ? "linear"
                                                         : "none";
  if (type != "none" && type != "longrope") config_["rope_scaling"] = read_scaling(keys, type);
  // Reads the divisors of the frequencies.
  const auto divisors = [&](const char* name) {
    std::vector<float> found;
    for (const auto& file : files_)
      if (const auto at = file->tensors().find(name); at != file->tensors().end()) {
        const auto& t = at->second;
        require(t.shape == std::vector<index_t>{rotated / 2} && std::string_view(t.type->name) == "F32", where_, ": ",
                name, " must be ", rotated / 2, " numbers in F32");
        found.resize(static_cast<std::size_t>(rotated / 2));
        widen_blocks(*t.type, t.data, rotated / 2, found.data());
      }
    return found;
  };
  if (const auto all = divisors("rope_freqs.weight"); !all.empty())
    config_["rope_scaling"] = {{"rope_type", "divisors"}, {"divisors", all}};
  const auto of_short = divisors("rope_factors_short.weight"), of_long = divisors("rope_factors_long.weight");
  require(of_short.empty() == of_long.empty() && (type != "longrope" || !of_long.empty()), where_,
          ": longrope takes the tensors rope_factors_short.weight and rope_factors_long.weight");
  if (of_long.empty()) return;
  config_["rope_scaling"] = {{"rope_type", "longrope"}, {"short_factor", of_short}, {"long_factor", of_long}};
  if (keys.has("rope.scaling.attn_factor"))
    config_["rope_scaling"]["attention_factor"] = keys["rope.scaling.attn_factor"].positive();
  config_["original_max_position_embeddings"] = keys["rope.scaling.original_context_length"].integer(1, largest_count);
}

json gguf_model::read_scaling(const architecture_keys& keys, const std::string& type) const {
  require(type == "linear" || type == "yarn", where_, ": rotary scaling '", printable(type),
          "' is not supported in GGUF; supported: none, linear, yarn, longrope");
  const std::string a = "rope.scaling.";
  const double factor = keys[key_of_factor(keys)].positive();
  json scaling{{"rope_type", type}, {"factor", factor}};
  if (type == "linear") return scaling;
  if (keys.has(a + "original_context_length"))
    scaling["original_max_position_embeddings"] = keys.integer(a + "original_context_length", 0);
  require(keys.positive(a + "yarn_ext_factor", 1) == 1, where_, ": ", a, "yarn_ext_factor must be 1");
  for (const auto& [key, field] : {std::pair{"yarn_beta_fast", "beta_fast"}, {"yarn_beta_slow", "beta_slow"}})
    if (keys.has(a + key)) scaling[field] = keys[a + key].positive();
  // The converter writes transformers' attention_factor as yarn_attn_factor; attn_factor multiplies ggml's own.
  if (keys.has(a + "yarn_log_multiplier")) {
    scaling["mscale"] = 1.0;
    scaling["mscale_all_dim"] = keys[a + "yarn_log_multiplier"].number();
  } else if (keys.has(a + "yarn_attn_factor")) {
    scaling["attention_factor"] = keys[a + "yarn_attn_factor"].positive();
  } else if (keys.has(a + "attn_factor")) {
    scaling["attention_factor"] = keys[a + "attn_factor"].positive() * (1 + 0.1 * std::log(factor));
  }
  return scaling;
}

void gguf_model::name_tensors(const gguf_architecture& architecture, const architecture_keys& keys) {
  const index_t heads = keys["attention.head_count"].integer(1, 1 << 20);
  const index_t layers = layers_of(keys);
  const bool more = layers < keys["block_count"].integer(1, largest_count);
  const auto tile = [&](named_tensor& t) {
    const auto number = [&](const char* key) { return keys[key].integer(1, largest_count); };
    const auto is = [&](std::string_view part) { return t.name.find(part) != t.name.npos; };
    const index_t key_heads = number("ssm.group_count"), value_heads = number("ssm.time_step_rank");
    const bool columns = is(".out_proj."), wide = is(".in_proj_z.") || columns;
    const bool behind = is(".in_proj_qkv.") || is(".conv1d.");  // queries and keys
    const index_t width = wide || behind ? number("ssm.inner_size") / value_heads : 1;
    const index_t first = behind ? 2 * key_heads * number("ssm.state_size") : 0;
    const index_t all = first + value_heads * width, found = columns ? t.tensor.shape.back() : t.tensor.shape[0];
    require(value_heads % key_heads == 0 && found == all, where_, ": tensor ", printable(t.tensor.name), " has ", found,
            columns ? " columns, not " : " rows, not ", all);
    t.tiled = tiled_heads{key_heads, value_heads / key_heads, width, first, columns};
  };
  const auto add = [&](named_tensor t) {
    const auto is = [&](std::string_view part) { return t.name.find(part) != t.name.npos; };
    const auto reorder = [&](row_order order, index_t n, index_t pieces) {
      require(t.tensor.shape.front() % (pieces * n) == 0, where_, ": tensor ", printable(t.tensor.name), " has ",
              t.tensor.shape.front(), " rows for ", n, " heads");
      t.order = order;
      t.heads = n;
    };
    if (architecture.pairs_rows && is(".self_attn.q_proj.")) reorder(row_order::paired, heads, 2);
    if (architecture.pairs_rows && is(".self_attn.k_proj."))
      reorder(row_order::paired, key_heads_of(architecture, keys, heads).value_or(heads), 2);
    if (is(".query_key_value.")) reorder(row_order::by_kind, heads, 3);
    if (architecture.norms_plus_one && is("norm.weight") && !is(".linear_attn.")) t.plus = 1;
    t.decays = t.name.ends_with(".A_log");
    if (auto& shape = t.tensor.shape; shape.size() == 2 && (is(".mamba.A_log") || is(".mamba.D") || is(".mamba.norm.")))
      shape = {shape[0] * shape[1]};  // files have these vectors as matrices
    if (t.name.ends_with(".conv1d.weight")) t.tensor.shape.insert(t.tensor.shape.end() - 1, 1);
    if (architecture.value_heads_tiled && is(".linear_attn.") && !is(".norm.")) tile(t);
    tensors_.push_back(std::move(t));
  };
  budget parts(most_experts,
               where_ + ": its tensors hold more than " + std::to_string(most_experts) + " matrices of experts");
  for (const auto& file : files_)
    for (const auto& [name, tensor] : file->tensors()) {
      if (more && is_behind(name, layers)) continue;
      const std::string own = name_of_tensor(architecture, name, where_);
      if (own.empty()) continue;
      const auto expert = own.find("{}");
      const bool whole = expert == own.npos;
      const bool latent = own.ends_with(".k_b_proj.weight") || own.ends_with(".v_b_proj.weight");
      const std::size_t axes = tensor.shape.size(), wanted = !latent && (whole || own.ends_with(".bias")) ? 2 : 3;
      require(axes == wanted || (axes == 1 && whole && !latent && tensor.type->elements == 1), where_, ": tensor ",
              printable(name), " has ", axes, " dimensions in ", tensor.type->name,
              "; a matrix, or a vector in F32, F16 or BF16 is read");
      if (whole) {
        add({own, file, tensor});
        continue;
      }
      const index_t experts = keys["expert_count"].integer(1, 4096);
      require(tensor.shape[0] == experts, where_, ": tensor ", printable(name), " has ", tensor.shape[0],
              " experts, not ", experts);
      // "gate_up" holds the rows of an expert's gate, then those of its up.
      constexpr std::string_view both = ".gate_up_proj";
      const std::string before = own.substr(0, expert), after = own.substr(expert + 2);
      std::vector<std::string> matrices{after};
      if (after.starts_with(both))
        matrices = {".gate_proj" + after.substr(both.size()), ".up_proj" + after.substr(both.size())};
      const auto count = static_cast<index_t>(matrices.size());
      require(tensor.shape[1] % count == 0, where_, ": tensor ", printable(name), " has ", tensor.shape[1],
              " rows, not as many of gate as of up");
      gguf_tensor part = tensor;
      part.shape.erase(part.shape.begin());
      part.shape[0] /= count;
      part.bytes /= static_cast<std::size_t>(experts * count);
      parts.spend(static_cast<std::uint64_t>(experts * count));
      for (index_t e = 0; e < experts; ++e)
        for (const auto& matrix : matrices) {
          add({before + std::to_string(e) + matrix, file, part});
          part.data += part.bytes;
        }
    }
  std::set<std::string_view> names;
  for (const named_tensor& t : tensors_)
    require(names.insert(t.name).second, where_, ": tensor ", printable(t.tensor.name), " and another one both hold ",
            printable(t.name));
  join_latent(heads);
}

/// Joins the matrix of keys and values of latent attention from its two parts, where files have these.
void gguf_model::join_latent(index_t heads) {
  constexpr std::string_view ending = ".k_b_proj.weight";
  std::vector<named_tensor> joined;
  std::map<std::string_view, const named_tensor*> by_name;
  for (const named_tensor& t : tensors_) by_name.emplace(t.name, &t);
  for (const named_tensor& k : tensors_) {
    if (!k.name.ends_with(ending)) continue;
    const std::string before = k.name.substr(0, k.name.size() - ending.size());
    const auto found = by_name.find(before + ".v_b_proj.weight");
    require(found != by_name.end(), where_, ": there is no tensor attn_v_b beside ", printable(k.tensor.name));
    const named_tensor* const v = found->second;
    const auto &of_keys = k.tensor.shape, &of_values = v->tensor.shape;
    require(of_keys[0] == heads && of_values[0] == heads && of_keys[1] == of_values[2], where_, ": tensors ",
            printable(k.tensor.name), " and ", printable(v->tensor.name), " do not belong to the same ", heads,
            " heads");
    named_tensor both = k, values = *v;
    values.tensor.shape = {heads * of_values[1], of_values[2]};
    both.name = before + ".kv_b_proj.weight";
    both.values = std::make_shared<const named_tensor>(std::move(values));
    both.heads = heads;
    both.plain = of_keys[2];
    both.tensor.shape = {heads * (of_keys[2] + of_values[1]), of_keys[1]};
    joined.push_back(std::move(both));
  }
  tensors_.insert(tensors_.end(), joined.begin(), joined.end());
}

json gguf_model::types() const {
  std::map<std::string, index_t> count;
  for (const auto& file : files_)
    for (const auto& [name, tensor] : file->tensors()) ++count[tensor.type->name];
  return count;
}

namespace {

/// Finds the manifest of [HOST/][NAMESPACE/]MODEL[:TAG] as Ollama does: the host registry.ollama.ai, the namespace
/// library and the tag latest need not be said, and case does not matter. Without a host, one of another host is found
/// too if there is but one.
fs::path ollama_manifest(const fs::path& folder, const std::string& name) {
  const auto lower = [](std::string s) {
    for (char& c : s)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return s;
  };
  std::vector<std::string> parts(1);
  for (const char c : lower(name)) c == '/' ? parts.emplace_back() : parts.back() += c;
  const auto colon = parts.back().find(':');
  const std::string tag = colon == std::string::npos ? "latest" : parts.back().substr(colon + 1);
  if (colon != std::string::npos) parts.back().resize(colon);
  if (parts.size() == 1) parts.insert(parts.begin(), "library");
  const bool any_host = parts.size() == 2;
  parts.push_back(tag);
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& host : fs::directory_iterator(folder, none)) {
    std::vector<fs::path> here{host.path()};
    if (!any_host && lower(host.path().filename().string()) != parts[0]) continue;
    for (auto part = parts.begin() + (any_host ? 0 : 1); part != parts.end(); ++part) {
      std::vector<fs::path> next;
      for (const fs::path& at : here)
        for (const auto& entry : fs::directory_iterator(at, none))
          if (lower(entry.path().filename().string()) == *part) next.push_back(entry.path());
      here = std::move(next);
    }
    if (host.path().filename() == "registry.ollama.ai" && !here.empty()) return here.front();
    found.insert(found.end(), here.begin(), here.end());
  }
  require(!found.empty(), "Ollama has no model ", printable(name), " in ", folder.parent_path().string());
  if (found.size() > 1)
    fail("Ollama has several models ", printable(name), ": ", found[0].string(), " and ", found[1].string(),
         "; name the host too");
  return found.front();
}

}  // namespace

fs::path find_gguf(const fs::path& model) {
  const std::string name = model.string();
  constexpr std::string_view store = "ollama:";
  if (name.starts_with(store)) {
    const char *const given = std::getenv("OLLAMA_MODELS"), *const home = std::getenv("HOME");
    const fs::path root = given ? fs::path(given) : fs::path(home ? home : "") / ".ollama" / "models";
    const fs::path path = ollama_manifest(root / "manifests", name.substr(store.size()));
    const json manifest = read_json(path, std::size_t{1} << 20);
    const json_value fields(manifest, path.string());
    const auto layers = fields.find("layers");
    require(layers && layers->is_array(), path.string(), ": there is no list layers");
    for (const auto& layer : *layers) {
      const json_value l(layer, path.string(), "layers");
      if (l["mediaType"].string() != "application/vnd.ollama.image.model") continue;
      std::string digest = l["digest"].string();
      std::replace(digest.begin(), digest.end(), ':', '-');
      require(digest.starts_with("sha256-") && digest.find_first_not_of("0123456789abcdef", 7) == digest.npos,
              path.string(), ": the digest ", printable(digest), " is no SHA-256");
      return root / "blobs" / digest;
    }
    fail(path.string(), " lists no weights");
  }
  if (fs::is_regular_file(model)) {
    require(gguf_file::is_one(model), model.string(), " is neither a folder with a model nor a GGUF file");
    return model;
  }
  if (!fs::is_directory(model) || fs::exists(model / "config.json")) return {};
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(model))
    if (entry.is_regular_file() && entry.path().extension() == ".gguf") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  if (found.empty()) return {};
  require(parts_of_gguf(found.front()).size() == found.size(), model.string(), " holds ", found.size(),
          " GGUF files; name one of them");
  return found.front();
}

}  // namespace qkgeom
