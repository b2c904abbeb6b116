// SPDX-License-Identifier: MIT
#include "capture/gguf/gguf_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;

/// What GGUF calls an architecture, and how transformers' own files differ from its.
struct architecture {
  std::string_view name, model_type;
  bool pairs_rows;  ///< the converter reorders the rows of q and k
};
constexpr architecture architectures[] = {{"llama", "llama", true},
                                          {"smollm3", "smollm3", true},
                                          {"qwen2", "qwen2", false},
                                          {"qwen3", "qwen3", false},
                                          {"olmo2", "olmo2", false}};

const architecture& find_architecture(const std::string& name, const std::string& where) {
  std::string supported;
  for (const auto& a : architectures) {
    if (a.name == name) return a;
    supported += (supported.empty() ? "" : ", ") + std::string(a.name);
  }
  fail(where, ": architecture '", printable(name), "' is not supported in GGUF; supported: ", supported);
}

/// Names of a layer's tensors: GGUF's and transformers'.
constexpr std::pair<std::string_view, std::string_view> layer_names[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};

/// transformers' name of a tensor; empty: none of the model's.
std::string name_of(std::string_view name) {
  const auto ending = name.rfind('.');
  if (ending == name.npos) return {};
  const std::string_view stem = name.substr(0, ending);
  const std::string end(name.substr(ending));  // .weight or .bias
  if (stem == "token_embd") return "model.embed_tokens" + end;
  if (stem == "output_norm") return "model.norm" + end;
  if (stem == "output") return "lm_head" + end;
  if (!stem.starts_with("blk.")) return {};
  const auto dot = stem.find('.', 4);
  if (dot == stem.npos) return {};
  for (const auto& [gguf, own] : layer_names)
    if (stem.substr(dot + 1) == gguf)
      return "model.layers." + std::string(stem.substr(4, dot - 4)) + '.' + std::string(own) + end;
  return {};
}

/// Whether whole words of the vocabulary are taken before merging, and the BOS token is put before every text unless
/// the file says otherwise.
bool is_llama3(const std::string& pre) {
  constexpr std::string_view names[] = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2"};
  return std::find(std::begin(names), std::end(names), pre) != std::end(names);
}

/// How text is cut before merging, by `tokenizer.ggml.pre`.
json pre_tokenizer_of(const std::string& pre, const std::string& where) {
  const json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const auto after = [&](json first, bool words) {
    json last = bytes;
    last["use_regex"] = words;
    return json{{"type", "Sequence"}, {"pretokenizers", json::array({std::move(first), std::move(last)})}};
  };
  const auto split = [&](const std::string& digits) {
    const std::string pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" + digits +
                                R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    return after({{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}},
                 false);
  };
  const auto any = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), pre) != names.end();
  };
  if (any({"gpt-2", "olmo", "default"})) return bytes;
  if (any({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"}))
    return after({{"type", "Digits"}, {"individual_digits", true}}, true);
  if (is_llama3(pre) || any({"smaug-bpe", "dbrx", "chatglm-bpe"})) return split(R"(\p{N}{1,3})");
  if (any({"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan"})) return split(R"(\p{N})");
  fail(where, ": the text rule '", printable(pre),
       "' (tokenizer.ggml.pre) is not known; --tokenizer names a tokenizer.json");
}

}  // namespace

gguf_model::gguf_model(const fs::path& path) : where_(path.string()) {
  for (const auto& part : parts_of_gguf(path)) files_.push_back(std::make_shared<const gguf_file>(part));
  architecture_ = value("general.architecture").string();
  name_tensors();
  read_config();
}

json_value gguf_model::value(const std::string& key) const { return json_value(metadata(), where_)[key.c_str()]; }

void gguf_model::read_config() {
  const auto& family = find_architecture(architecture_, where_);
  const std::string a = architecture_ + '.';
  constexpr index_t most = index_t{1} << 30;
  const auto number = [&](const std::string& key) { return value(a + key).integer(1, most); };
  const index_t heads = number("attention.head_count"), hidden = number("embedding_length");
  config_ = {{"model_type", family.model_type},
             {"hidden_size", hidden},
             {"intermediate_size", number("feed_forward_length")},
             {"num_hidden_layers", number("block_count")},
             {"num_attention_heads", heads},
             {"num_key_value_heads", has(a + "attention.head_count_kv") ? number("attention.head_count_kv") : heads},
             {"head_dim", has(a + "attention.key_length") ? number("attention.key_length") : hidden / heads},
             {"max_position_embeddings", number("context_length")},
             {"rms_norm_eps", value(a + "attention.layer_norm_rms_epsilon").positive()},
             {"hidden_act", "silu"},
             {"torch_dtype", "float32"}};
  const auto holds = [&](std::string_view name) {
    return std::any_of(tensors_.begin(), tensors_.end(), [&](const named_tensor& t) { return t.name == name; });
  };
  config_["tie_word_embeddings"] = !holds("lm_head.weight");
  config_["attention_bias"] = holds("model.layers.0.self_attn.q_proj.bias");
  for (const auto& t : tensors_)
    if (t.name == "model.embed_tokens.weight") config_["vocab_size"] = t.tensor->shape.front();
  require(config_.contains("vocab_size"), where_, ": there is no tensor token_embd.weight");
  if (has("general.name")) config_["_name_or_path"] = value("general.name").string();
  if (has("tokenizer.ggml.bos_token_id"))
    config_["bos_token_id"] = value("tokenizer.ggml.bos_token_id").integer(0, most);
  read_rope();
}

void gguf_model::read_rope() {
  const std::string a = architecture_ + ".rope.";
  const index_t d = config_["head_dim"];
  const index_t turned = has(a + "dimension_count") ? value(a + "dimension_count").integer(2, d) : d;
  require(turned == d, where_, ": a rotary embedding of ", turned, " of ", d, " channels is not supported in GGUF");
  config_["rope_theta"] = has(a + "freq_base") ? value(a + "freq_base").positive() : 10000.0;
  const std::string type = has(a + "scaling.type") ? value(a + "scaling.type").string() : "none";
  if (type != "none") {
    require(type == "linear" || type == "yarn", where_, ": rotary scaling '", printable(type),
            "' is not supported in GGUF; supported: none, linear, yarn");
    json scaling{{"rope_type", type}, {"factor", value(a + "scaling.factor").positive()}};
    if (has(a + "scaling.original_context_length"))
      scaling["original_max_position_embeddings"] = value(a + "scaling.original_context_length").integer(1, 1 << 30);
    if (has(a + "scaling.yarn_beta_fast")) scaling["beta_fast"] = value(a + "scaling.yarn_beta_fast").positive();
    if (has(a + "scaling.yarn_beta_slow")) scaling["beta_slow"] = value(a + "scaling.yarn_beta_slow").positive();
    config_["rope_scaling"] = scaling;
  }
  for (const auto& file : files_)
    if (const auto at = file->tensors().find("rope_freqs.weight"); at != file->tensors().end()) {
      const auto& t = at->second;
      require(t.shape == std::vector<index_t>{d / 2} && std::string_view(t.type->name) == "F32", where_,
              ": rope_freqs.weight must be ", d / 2, " numbers in F32");
      std::vector<float> divisors(static_cast<std::size_t>(d / 2));
      widen_blocks(*t.type, t.data, d / 2, divisors.data());
      config_["rope_scaling"] = {{"rope_type", "divisors"}, {"divisors", divisors}};
    }
}

void gguf_model::name_tensors() {
  const auto& family = find_architecture(architecture_, where_);
  const std::string a = architecture_ + ".attention.";
  const index_t heads = value(a + "head_count").integer(1, 1 << 20);
  const index_t key_heads = has(a + "head_count_kv") ? value(a + "head_count_kv").integer(1, 1 << 20) : heads;
  for (const auto& file : files_)
    for (const auto& [name, tensor] : file->tensors()) {
      const std::string own = name_of(name);
      if (own.empty()) continue;
      const std::size_t axes = tensor.shape.size();
      require(axes == 2 || (axes == 1 && tensor.type->elements == 1), where_, ": tensor ", printable(name), " has ",
              axes, " dimensions in ", tensor.type->name, "; a matrix, or a vector in F32, F16 or BF16 is read");
      index_t paired = 0;
      if (family.pairs_rows && own.find(".self_attn.q_proj.") != own.npos) paired = heads;
      if (family.pairs_rows && own.find(".self_attn.k_proj.") != own.npos) paired = key_heads;
      require(paired == 0 || tensor.shape.front() % (2 * paired) == 0, where_, ": tensor ", printable(name), " has ",
              tensor.shape.front(), " rows for ", paired, " heads");
      tensors_.push_back({own, file, &tensor, paired});
    }
}

json gguf_model::types() const {
  std::map<std::string, index_t> count;
  for (const auto& file : files_)
    for (const auto& [name, tensor] : file->tensors()) ++count[tensor.type->name];
  return count;
}

json gguf_model::tokenizer() const {
  const std::string keys = "tokenizer.ggml.", kind = value(keys + "model").string();
  require(kind == "gpt2", where_, ": a tokenizer of the kind '", printable(kind),
          "' is not supported in GGUF; --tokenizer names a tokenizer.json");
  const std::string pre = has(keys + "pre") ? value(keys + "pre").string() : "default";
  const json tokens = value(keys + "tokens").raw(), merges = value(keys + "merges").raw();
  require(tokens.is_array() && merges.is_array(), where_, ": tokenizer.ggml.tokens and merges must be lists");
  json vocabulary = json::object(), added = json::array();
  const json* const types = has(keys + "token_type") ? &metadata()[keys + "token_type"] : nullptr;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    require(tokens[i].is_string(), where_, ": tokenizer.ggml.tokens must hold strings");
    const std::string token = tokens[i];
    vocabulary[token] = i;
    const int type = types && i < types->size() && (*types)[i].is_number_integer() ? (*types)[i].get<int>() : 1;
    if (type == 3 || type == 4)  // control and user-defined tokens are matched whole
      added.push_back({{"id", i}, {"content", token}, {"special", type == 3}, {"normalized", false}});
  }
  json file{{"added_tokens", added},
            {"normalizer", nullptr},
            {"pre_tokenizer", pre_tokenizer_of(pre, where_)},
            {"post_processor", nullptr},
            {"model",
             {{"type", "BPE"},
              {"vocab", vocabulary},
              {"merges", merges},
              {"ignore_merges", is_llama3(pre)},
              {"byte_fallback", false},
              {"fuse_unk", false}}}};
  const bool begins = has(keys + "add_bos_token") ? value(keys + "add_bos_token").raw() == true : is_llama3(pre);
  if (begins && has(keys + "bos_token_id")) {
    const auto id =
        static_cast<std::size_t>(value(keys + "bos_token_id").integer(0, static_cast<index_t>(tokens.size()) - 1));
    const std::string bos = tokens[id];
    file["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", {{"id", bos}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair", json::array()},
        {"special_tokens", {{bos, {{"id", bos}, {"ids", {id}}, {"tokens", {bos}}}}}}};
  }
  return file;
}

fs::path find_gguf(const fs::path& model) {
  const std::string name = model.string();
  constexpr std::string_view store = "ollama:";
  if (name.starts_with(store)) {
    const char *const given = std::getenv("OLLAMA_MODELS"), *const home = std::getenv("HOME");
    const fs::path root = given ? fs::path(given) : fs::path(home ? home : "") / ".ollama" / "models";
    std::string wanted = name.substr(store.size()), tag = "latest";
    if (const auto colon = wanted.rfind(':'); colon != wanted.npos) {
      tag = wanted.substr(colon + 1);
      wanted.resize(colon);
    }
    if (wanted.find('/') == wanted.npos) wanted = "library/" + wanted;
    fs::path path;  // below the folder of the host that it came from
    std::error_code none;
    for (const auto& host : fs::directory_iterator(root / "manifests", none))
      if (path.empty() && fs::exists(host.path() / wanted / tag)) path = host.path() / wanted / tag;
    require(!path.empty(), "Ollama has no model ", printable(name.substr(store.size())), " in ", root.string());
    const json manifest = read_json(path, std::size_t{1} << 20);
    const json_value fields(manifest, path.string());
    const auto layers = fields.find("layers");
    require(layers && layers->is_array(), path.string(), ": there is no list layers");
    for (const auto& layer : *layers) {
      const json_value l(layer, path.string(), "layers");
      if (l["mediaType"].string() != "application/vnd.ollama.image.model") continue;
      std::string digest = l["digest"].string();
      std::replace(digest.begin(), digest.end(), ':', '-');
      require(digest.find('/') == digest.npos, path.string(), ": the digest ", printable(digest), " is no file name");
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
