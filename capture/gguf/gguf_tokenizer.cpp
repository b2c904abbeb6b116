// SPDX-License-Identifier: MIT
// Reads the tokenizer of a GGUF file as a tokenizer.json of the same.
#include <algorithm>
#include <string_view>

#include "capture/gguf/gguf_model.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

/// Returns whether whole words of the vocabulary are taken before merging, and the BOS token begins every text unless
/// the file says otherwise.
bool is_llama3(const std::string& pre) {
  constexpr std::string_view names[] = {"llama-bpe", "llama3",  "llama-v3", "falcon3",
                                        "falcon-h1", "pixtral", "lfm2",     "tekken"};
  return std::find(std::begin(names), std::end(names), pre) != std::end(names);
}

json pre_tokenizer_of(const std::string& pre, const std::string& where) {
  const json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const auto after = [&](json first, bool words) {
    json last = bytes;
    last["use_regex"] = words;
    return json{{"type", "Sequence"}, {"pretokenizers", json::array({std::move(first), std::move(last)})}};
  };
  const auto split = [&](const std::string& digits, const std::string& letters = R"(\p{L})") {
    const std::string pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[)" + letters + "]+|" + digits +
                                R"(| ?[^\s)" + letters + R"(\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    return after({{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}},
                 false);
  };
  // Applies one pattern after the other.
  const auto in_turn = [&](std::initializer_list<const char*> patterns) {
    json steps = json::array();
    for (const char* pattern : patterns)
      steps.push_back({{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}});
    return after({{"type", "Sequence"}, {"pretokenizers", steps}}, false);
  };
  const auto any = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), pre) != names.end();
  };
  // Matches words whose capital letters come first; llama.cpp counts letters beyond ASCII as both kinds.
  const auto by_case = [&](const std::string& behind, const std::string& digits) {
    const std::string before = R"([^\r\n\p{L}\p{N}]?)", high = R"((?:(?=\p{L})[^a-z]))", low = R"((?:(?=\p{L})[^A-Z]))";
    const std::string pattern = before + high + '*' + low + '+' + behind + '|' + before + high + '+' + low + '*' +
                                behind + '|' + digits + R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    return in_turn({pattern.c_str()});
  };
  if (any({"gpt-2", "olmo", "exaone4"})) return bytes;
  // llama.cpp's rule for files without a name.
  if (pre == "default")
    return in_turn({R"([\p{P}\$\+<=>\^~\|]+)",
                    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))", R"(\p{N}+)",
                    R"([0-9][0-9][0-9])"});
  if (any({"deepseek-v3", "hunyuan-dense"}))
    return in_turn({R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
                    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"});
  if (pre == "tekken") return by_case("", R"(\p{N})");
  if (any({"gpt-4o", "llama4", "minimax-m2"})) return by_case(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)", R"(\p{N}{1,3})");
  if (pre == "seed-coder")
    return in_turn({R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)"
                    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"});
  if (any({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"}))
    return after({{"type", "Digits"}, {"individual_digits", true}}, true);
  if (is_llama3(pre) || any({"smaug-bpe", "dbrx", "chatglm-bpe", "glm4"})) return split(R"(\p{N}{1,3})");
  if (any({"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan"})) return split(R"(\p{N})");
  if (pre == "qwen35") return split(R"(\p{N})", R"(\p{L}\p{M})");
  fail(where, ": the text rule '", printable(pre),
       "' (tokenizer.ggml.pre) is not known; --tokenizer names a tokenizer.json");
}

/// Returns SentencePiece's normalizer: spaces become U+2581, and one is put before the text.
json sentencepiece_normalizer(bool prefix) {
  const std::string space = "\u2581";
  json steps = json::array();
  if (prefix) steps.push_back({{"type", "Prepend"}, {"prepend", space}});
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", space}});
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

}  // namespace

json gguf_model::tokenizer() const {
  const std::string keys = "tokenizer.ggml.", kind = value(keys + "model").string();
  // Both kinds cut a text into SentencePiece's pieces; gemma4 merges them by a list, llama by scores.
  const bool scored = kind == "llama", pieces = scored || kind == "gemma4";
  require(pieces || kind == "gpt2", where_, ": a tokenizer of the kind '", printable(kind),
          "' is not supported in GGUF; supported: gpt2, llama, gemma4; --tokenizer names a tokenizer.json");
  const std::string pre = has(keys + "pre") ? value(keys + "pre").string() : "default";
  const auto flag = [&](const char* key, bool otherwise) {
    return has(keys + key) ? value(keys + key).boolean() : otherwise;
  };
  const auto list = [&](const char* key) -> const json& {
    const json& found = value(keys + key).raw();
    require(found.is_array(), where_, ": ", keys, key, " must be a list");
    return found;
  };
  const json& tokens = list("tokens");
  json vocabulary = json::object(), added = json::array();
  const json* const types = has(keys + "token_type") ? &list("token_type") : nullptr;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    require(tokens[i].is_string(), where_, ": tokenizer.ggml.tokens must hold strings");
    const std::string token = tokens[i];
    vocabulary[token] = i;
    const int type = types && i < types->size() && (*types)[i].is_number_integer() ? (*types)[i].get<int>() : 1;
    if (type >= 2 && type <= 4)  // unknown, control and user-defined tokens are matched whole
      added.push_back({{"id", i}, {"content", token}, {"special", type != 4}, {"normalized", false}});
  }
  const auto named = [&](const char* key) {
    const auto id = value(keys + key).integer(0, static_cast<index_t>(tokens.size()) - 1);
    return tokens[static_cast<std::size_t>(id)].get<std::string>();
  };
  json model{{"type", "BPE"}, {"vocab", vocabulary}, {"fuse_unk", false}};
  if (scored)
    model["scores"] = list("scores");
  else
    model["merges"] = list("merges");
  if (pieces) {
    model["byte_fallback"] = true;
    if (has(keys + "unknown_token_id")) model["unk_token"] = named("unknown_token_id");
  } else {
    model["ignore_merges"] = is_llama3(pre);
  }
  json file{{"added_tokens", added},
            {"normalizer", pieces ? sentencepiece_normalizer(flag("add_space_prefix", scored)) : json()},
            {"pre_tokenizer", pieces ? json() : pre_tokenizer_of(pre, where_)},
            {"post_processor", nullptr},
            {"model", model}};
  // Tokens around every text.
  json around = json::array(), ids = json::object();
  const auto put = [&](const char* key) {
    if (!has(keys + key)) return;
    const std::string token = named(key);
    around.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    ids[token] = {{"id", token}, {"ids", {value(keys + key).raw()}}, {"tokens", {token}}};
  };
  // llama.cpp always puts it before a text of gemma4.
  if (flag("add_bos_token", pieces || is_llama3(pre)) || kind == "gemma4") put("bos_token_id");
  around.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (flag("add_eos_token", false)) put("eos_token_id");
  if (around.size() > 1)
    file["post_processor"] = {
        {"type", "TemplateProcessing"}, {"single", around}, {"pair", json::array()}, {"special_tokens", ids}};
  return file;
}

}  // namespace qkgeom
