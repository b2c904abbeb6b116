// SPDX-License-Identifier: MIT
#include "capture/job/prepare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <ostream>

#include "capture/forward/layer_weights.hpp"
#include "capture/gguf/gguf_model.hpp"
#include "capture/job/option_list.hpp"
#include "capture/job/plan.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/json.hpp"
#include "qkgeom/rotary/planes.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;

void check_shape(const protocol_facts& s, const decoder_description& model) {
  const auto check = [&](index_t expected, index_t found, const char* what) {
    require(expected == 0 || expected == found, "protocol ", printable(s.name), " is of ",
            s.model.empty() ? "a model" : printable(s.model), " with ", expected, " ", what, ", but this model has ",
            found);
  };
  check(s.n_layers, model.n_layers(), "layers");
  check(s.n_query_heads, model.query_heads, "query heads per layer");
  check(s.n_key_heads, model.key_heads, "key heads per layer");
}

void add_settings(capture_manifest& m, capture_options o) {
  each_option(o, [&](const char* name, auto&& value, const char*, unsigned where = here, index_t = 0) {
    using value_type = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_enum_v<value_type>) {
      for (const auto& [word, meaning] : names_of(value_type{}))
        if ((where & in_manifest) && meaning == value && value != value_type{}) m.extra[field_of(name)] = word;
    } else if constexpr (std::is_same_v<value_type, std::optional<double>>) {
      if ((where & in_manifest) && value) m.extra[field_of(name)] = *value;
    } else if constexpr (std::is_integral_v<value_type> || std::is_same_v<value_type, std::string>) {
      if ((where & in_manifest) && value != value_type{}) m.extra[field_of(name)] = value;
    } else {
      require(!(where & in_manifest), "--", name, " has no form in a manifest");
    }
  });
  if (!o.model.family.empty()) m.family = o.model.family;
  if (!o.model.revision.empty()) m.revision = o.model.revision;
  if (!o.protocol.name.empty()) m.extra["study"] = o.protocol.name;
  if (o.selection.short_of > 0) m.extra["short_of"] = o.selection.short_of;
}

/// Adds the buckets of moments, softmax and loss, by default those of qkgeom heads.
void add_statistics(capture_manifest& m, const statistics_options& o) {
  if (!o.moments && !o.in_shards()) return;
  const index_t size = o.bucket_size > 0 ? o.bucket_size : m.usual_bucket_size();
  captured_buckets{"uniform", size}.edges(m.context_length);  // throws where they are too many
  if (o.moments) m.extra["moments"] = {{"bucket_size", size}};
  if (o.softmax) m.extra["softmax"] = {{"bucket_size", size}, {"queries", o.softmax_queries}};
  if (o.loss) m.extra["loss"] = {{"bucket_size", size}};
}

std::optional<std::int32_t> bos_of(const nlohmann::json& config) {
  for (const auto* c : {&config, config.contains("text_config") ? &config["text_config"] : &config})
    if (c->is_object() && c->contains("bos_token_id") && (*c)["bos_token_id"].is_number_integer())
      return (*c)["bos_token_id"].get<std::int32_t>();
  return std::nullopt;
}

/// Returns a model's name on the hub if the folder is a snapshot in the hub's cache
/// (models--ORGANISATION--NAME/snapshots/HASH), else the folder's; if that is a hash, the name in config.json.
std::string name_of_model(const fs::path& model, const nlohmann::json& config) {
  const fs::path folder = fs::canonical(model);
  const std::string own = folder.filename().string(), cache = folder.parent_path().parent_path().filename().string();
  if (folder.parent_path().filename() == "snapshots" && cache.starts_with("models--"))
    return cache.substr(cache.rfind("--") + 2);
  const bool is_hash = own.size() >= 32 && own.find_first_not_of("0123456789abcdef") == own.npos;
  if (!is_hash || !config.contains("_name_or_path") || !config["_name_or_path"].is_string()) return own;
  const auto named = fs::path(config["_name_or_path"].get<std::string>()).filename().string();
  return named.empty() ? own : named;
}

/// Returns the name of a --model in GGUF: its name in Ollama's store, where files have hashes as names, or its file's.
std::string name_of_gguf(const std::string& model, const fs::path& file) {
  constexpr std::string_view store = "ollama:";
  return model.starts_with(store) ? model.substr(store.size()) : file.stem().string();
}

fs::path find_tokenizer(const fs::path& named, const fs::path& model, const protocol_facts& protocol) {
  if (!named.empty()) return fs::is_directory(named) ? named / "tokenizer.json" : named;
  const fs::path folder = fs::canonical(model);
  for (const fs::path& place : {folder, folder.parent_path()})
    if (fs::exists(place / "tokenizer.json")) return place / "tokenizer.json";
  fail("there is no tokenizer.json in ", model.string(), " nor in the folder above; --tokenizer names one",
       protocol.tokenizer.empty()
           ? ""
           : ", for protocol " + printable(protocol.name) + " that of " + printable(protocol.tokenizer));
}

/// Returns whether config.json is a Mistral's from before transformers 5, which wrote some of their tokenizers wrongly.
bool is_old_mistral(const nlohmann::json& config) {
  const auto text = [&](const char* field) {
    return config.contains(field) && config[field].is_string() ? config[field].get<std::string>() : "";
  };
  const std::string type = text("model_type"), version = text("transformers_version");
  constexpr const char* types[] = {"mistral", "mistral3", "voxtral", "ministral", "pixtral"};
  return std::find(std::begin(types), std::end(types), type) != std::end(types) &&
         (version.empty() || std::atoi(version.c_str()) < 5);
}

/// Returns whether a large tokenizer.json splits text regardless of case, as Llama 3's does and a Mistral's must not.
bool splits_like_llama(const fs::path& path, index_t size) {
  if (size <= 100000) return false;
  const json file = read_json(path, max_tokenizer_bytes);
  const std::string rule = file.value("pre_tokenizer", json()).dump();
  return rule.find("Split") != rule.npos && rule.find("p{Lu}") == rule.npos;
}

/// Writes the factors by which a scaling divides the frequencies, from least to largest; empty: no scaling.
std::string factors_text(const rope_description& rope, const std::vector<float>& frequencies) {
  const auto without = default_frequencies(rope.theta, rope.rotary_dim);
  std::vector<double> factors;  // planes that rotate; the last ones may not
  for (std::size_t i = 0; i < frequencies.size() && frequencies[i] > 0; ++i)
    factors.push_back(static_cast<double>(without[i]) / static_cast<double>(frequencies[i]));
  if (factors.empty()) return {};
  const auto [least, most] = std::minmax_element(factors.begin(), factors.end());
  const auto equal = [](double a, double b) { return std::abs(a - b) < 1e-5 * b; };  // up to rounding to f32
  const auto planes_with = [&](double factor) {
    std::vector<index_t> planes;
    for (std::size_t i = 0; i < factors.size(); ++i)
      if (equal(factors[i], factor)) planes.push_back(static_cast<index_t>(i));
    return (planes.size() > 1 ? "planes " : "plane ") + ranges_text(planes);
  };
  if (!equal(*least, *most))
    return fmt::format(", factor {:.4g} ({}) to {:.4g} ({})", *least, planes_with(*least), *most, planes_with(*most));
  return equal(*most, 1) ? "" : fmt::format(", factor {:.4g}", *most);
}

/// Notes what analyses of a model with indexers compare. Throws `error` on a softmax that the model does not compute.
void note_indexers(prepared_capture& p, bool softmax, std::ostream& notes) {
  const std::string chosen = std::to_string(p.model.indexer->chosen);
  if (p.model.indexer_rows) {
    require(!softmax, "--softmax: indexers have none");
    return keep_note(p.manifest, notes, "indexer_heads",
                     "the heads are those of indexers: a layer's attention sees the " + chosen +
                         " keys with the largest sums over these heads of weight relu(q.k), so the order of one head's "
                         "keys counts above 0 alone, and together with the other heads'");
  }
  if (p.manifest.context_length <= p.model.indexer->chosen) return;
  require(!softmax, "--softmax compares all keys up to a query, but this model's attention sees the ", chosen,
          " that an indexer chooses; --max-length ", chosen, " cuts documents there");
  keep_note(p.manifest, notes, "chosen_keys",
            "past " + chosen + " tokens the attention sees the " + chosen +
                " keys that an indexer chooses, and analyses compare all keys up to a query");
}

/// Returns the newest snapshot of a model in the hub's cache, whose folder is models--ORGANISATION--NAME.
fs::path newest_snapshot(const fs::path& cached) {
  fs::path newest;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(cached / "snapshots", none))
    if (newest.empty() || entry.last_write_time(none) > fs::last_write_time(newest, none)) newest = entry.path();
  return newest;
}

/// Throws `error` unless `model` is a folder with a config.json. The error says where the model is, or what fetches it.
void require_model(const fs::path& model) {
  const std::string name = model.string();
  if (fs::is_directory(model)) {
    if (fs::exists(model / "config.json")) return;
    require(!fs::exists(model / "adapter_config.json"), name,
            " holds an adapter and no model: merge it into its model "
            "first (merge_and_unload of peft)");
    const fs::path snapshot = newest_snapshot(model);
    require(snapshot.empty(), name, " is a folder of the hub's cache; the model is in ", snapshot.string());
    fail(name, " has no config.json");
  }
  const bool is_id = std::count(name.begin(), name.end(), '/') == 1 && name.front() != '/' && name.front() != '.' &&
                     name.back() != '/';
  require(is_id, name, " is not a folder with a model, nor a GGUF file");
  const char *const home = std::getenv("HOME"), *const hub = std::getenv("HF_HOME");
  const fs::path cache = hub ? fs::path(hub) : fs::path(home ? home : "") / ".cache/huggingface";
  std::string folder = "models--" + name;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path snapshot = newest_snapshot(cache / "hub" / folder);
  require(snapshot.empty(), name, " is not a folder; the hub's model of that name is in ", snapshot.string());
  fail(name, " is not a folder; `hf download ", name, "` fetches the hub's model of that name and prints its folder");
}

}  // namespace

void shorten(selection_options& selection, statistics_options& statistics, index_t tokens) {
  const index_t length = selection.max_length;
  require(length > 0, "--short needs the length that it stands for: that of a --protocol, or --max-length");
  require(tokens < length, "--short ", tokens, " is not below the ", length, " tokens that it stands for");
  statistics.moments = true;
  selection.short_of = length;
  selection.max_length = tokens;
  selection.pre_rope = true;
  selection.sampler.bucket_size = (selection.sampler.bucket_size * tokens + length - 1) / length;
}

prepared_capture prepare_capture(const capture_options& options, std::ostream& notes) {
  const fs::path gguf = find_gguf(options.model.path);
  if (gguf.empty()) require_model(options.model.path);
  json types;
  std::size_t padding = 0;
  std::string text;
  if (gguf.empty()) {
    text = read_text(options.model.path / "config.json", std::size_t{1} << 20);
  } else {
    const gguf_model model(gguf);
    text = model.config().dump();
    types = model.types();
    padding = model.padding();
  }
  auto config = parse_json(text, (gguf.empty() ? options.model.path / "config.json" : gguf).string());
  if (!options.model.rope_scaling.empty()) config = with_rope_scaling(std::move(config), options.model.rope_scaling);
  if (options.model.rope_theta) config = with_rope_theta(std::move(config), *options.model.rope_theta);
  prepared_capture p{read_description(config), {}, bos_of(config), is_old_mistral(config), {}, options.protocol};
  check_shape(options.protocol, p.model);
  std::string own =
      gguf.empty() ? name_of_model(options.model.path, config) : name_of_gguf(options.model.path.string(), gguf);
  if (options.model.untrained) own += " untrained " + std::to_string(*options.model.untrained);
  const decoder_description asked = captured_heads(p.model, options.selection);
  p.model.indexer_rows = asked.indexer_rows;
  p.manifest = plan_capture(asked, options.model.name.empty() ? own : options.model.name, sha256().add(text).hex(),
                            options.selection, options.model.compute);
  add_settings(p.manifest, options);
  if (padding > 0)
    keep_note(
        p.manifest, notes, "padded_file",
        std::to_string(padding) + " zero bytes follow the last tensor of the GGUF file; llama.cpp leaves them out too");
  if (options.model.untrained) {
    const double deviation = initializer_range(config);
    p.untrained.emplace(p.model, deviation, *options.model.untrained);
    p.manifest.extra["untrained"] = {{"seed", *options.model.untrained}, {"initializer_range", deviation}};
  }
  if (!gguf.empty()) p.manifest.extra["gguf"] = {{"file", gguf.filename().string()}, {"types", types}};
  add_statistics(p.manifest, options.statistics);
  if (p.manifest.context_length > p.model.longest_context())
    p.manifest.extra["model_context"] = p.model.longest_context();
  if (const auto& dynamic = p.model.rope.dynamic; dynamic && p.manifest.context_length <= dynamic->context) {
    notes << "note: the dynamic scaling of the rotary embedding acts past " << dynamic->context
          << " tokens, and never in a context of " << p.manifest.context_length << '\n';
  }
  if (const auto& longrope = p.model.rope.longrope; longrope && p.manifest.context_length > longrope->context)
    notes << "note: documents of more than " << longrope->context
          << " tokens have other rotary frequencies than shorter ones, from their first token on\n";
  if (const auto& latent = p.model.latent) {
    const index_t first = asked.rope.first, end = first + latent->rotated;  // of the rotated part, which is an edge one
    const auto plain = first > 0 ? json{0, first} : json{end, asked.head_dim};
    p.manifest.extra[head_parts_field] = {{"nope", plain}, {"rope", {first, end}}};
  }
  if (p.model.indexer) note_indexers(p, options.statistics.softmax, notes);
  const index_t captured = p.manifest.query_heads();
  if (const auto wanted = options.selection.heads; wanted && options.selection.head_list.empty() && *wanted > captured)
    notes << "note: the captured layers have " << captured << " query heads; all are taken, not " << *wanted << '\n';
  if (const auto others = layers_with_other_heads(asked); !others.empty() && options.selection.layers.empty()) {
    const head_shape heads = p.model.heads_of(p.model.layers[others.front()]);
    notes << "note: a capture holds layers whose heads are alike; those of layers " << ranges_text(others) << " ("
          << heads.key_heads << " key heads of size " << heads.head_dim << ") take a capture of their own: --layers "
          << ranges_text(others) << '\n';
  }
  if (const auto others = left_out_text(asked, options.selection); !others.empty())
    notes << "note: left out are " << others << '\n';
  if (const index_t none = heads_without_data(asked, options.selection); none > 0)
    notes << "note: " << none << " of the " << options.selection.head_list.size()
          << " heads asked for stand in layers that are not captured (they attend to images or within chunks, have "
             "a sliding window, no attention, or no indexer of their own)\n";
  return p;
}

void add_weights(capture_manifest& m, const decoder_description& model, const checkpoint& weights) {
  const bool norms = model.qk == qk_norm::each_head_after_rotation;
  if (!model.sinks && !norms) return;
  const std::string prefix = find_prefix(model, weights);
  for (captured_layer_info& l : m.layers) {
    if (norms)
      for (const auto& [name, to] :
           {std::pair{&model.names.q_norm, &l.norm->query}, {&model.names.k_norm, &l.norm->key}}) {
        const auto w = read_vector(weights, prefix, l.layer, *name + ".weight", m.model.head_dim);
        to->assign(w.begin(), w.end());
      }
    if (!model.sinks) continue;
    const auto all = read_vector(weights, prefix, l.layer, sinks_name, model.query_heads);
    json& sinks = m.extra["sinks"][std::to_string(l.layer)] = json::array();
    for (const index_t h : l.query_heads) sinks.push_back(all[h]);
  }
}

std::string note_on_context(const capture_manifest& m) {
  if (!m.extra.contains("model_context")) return {};
  return "documents are cut at " + std::to_string(m.context_length) + " tokens, beyond the " +
         m.extra["model_context"].dump() + " that the model was made for (--max-length)";
}

std::string note_on_scaling(const rope_description& rope, index_t context, index_t longest) {
  if (!rope.by_length()) return {};
  const index_t from = rope.dynamic ? rope.dynamic->context : rope.longrope->context;
  if (context <= from || longest > from) return {};
  return fmt::format("the {} scaling of the rotary embedding acts past {} tokens, and the longest document has {}",
                     rope.type, from, longest);
}

std::string rope_in_force(const decoder_description& model, index_t context, const std::vector<index_t>& lengths) {
  const auto without = std::count_if(model.layers.begin(), model.layers.end(), [](const auto& l) { return !l.rope; });
  if (without == model.n_layers()) return "none";
  index_t shortest = context, longest = context;
  if (!lengths.empty()) {
    const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
    shortest = *least, longest = *most;
  }
  const auto words = [&](const rope_description& r) {
    const auto frequencies = frequencies_of(r, longest), of_short = frequencies_of(r, shortest);
    std::string factors = factors_text(r, frequencies);
    if (of_short != frequencies) {
      const std::string usual = factors_text(r, of_short);
      factors = fmt::format("{} in documents of up to {} tokens{} in one of {}", usual.empty() ? ", factor 1" : usual,
                            r.dynamic ? r.dynamic->context : r.longrope->context, factors, longest);
    }
    const auto slow = std::count_if(frequencies.begin(), frequencies.end(),
                                    [&](float f) { return turns_of(static_cast<double>(f), context) < 1; });
    std::string text =
        fmt::format("{}{}, base {}, {} planes, {} of which turn less than once in {} tokens",
                    r.type == "default" ? "no scaling" : r.type, factors, r.theta, frequencies.size(), slow, context);
    if (r.attention_factor != 1) text += fmt::format(", q and k times {:.4g}", r.attention_factor);
    return text;
  };
  std::string text = words(model.rope);
  if (model.local_rope) text += "; in windowed layers " + words(*model.local_rope);
  if (without > 0)
    text += "; " + std::to_string(without) + " of " + std::to_string(model.n_layers()) + " layers without";
  return text;
}

bucket_edges grid_of(const capture_manifest& m, const char* statistic) {
  return captured_buckets{"uniform", m.extra[statistic]["bucket_size"].get<index_t>()}.edges(m.context_length);
}

checkpoint open_weights(const prepared_capture& prepared, const fs::path& model) {
  return prepared.untrained ? checkpoint(*prepared.untrained) : checkpoint(model);
}

void keep_note(capture_manifest& m, std::ostream& notes, const char* kind, const std::string& sentence) {
  notes << "note: " << sentence << '\n';
  m.extra[notes_field].push_back({{"note", kind}, {"text", sentence}});
}

tokenizer load_tokenizer(const input_options& inputs, const fs::path& model, prepared_capture& prepared,
                         std::ostream& notes) {
  const fs::path gguf = inputs.tokenizer.empty() ? find_gguf(model) : fs::path();
  const fs::path path = gguf.empty() ? find_tokenizer(inputs.tokenizer, model, prepared.protocol) : gguf;
  const auto note = [&](const char* kind, const std::string& text) { keep_note(prepared.manifest, notes, kind, text); };
  tokenizer t = [&] {
    if (gguf.empty()) return tokenizer::load(path);
    const gguf_model file(gguf);
    if (!file.names_text_rule())
      note("no_text_rule",
           "the GGUF file does not say how text is split (tokenizer.ggml.pre): the default of llama.cpp "
           "is taken, which may give other tokens than the model was trained on");
    return tokenizer(file.tokenizer(), nlohmann::json());
  }();
  if (const std::string& odd = t.contradiction(); !odd.empty() && inputs.bos == bos_rule::as_tokenizer)
    note("post_processor", odd);
  if (gguf.empty() && prepared.old_mistral && splits_like_llama(path, t.size()))
    note("mistral_split",
         "this tokenizer.json splits text as releases of Mistral before transformers 5 wrongly did; "
         "transformers gives other tokens with fix_mistral_regex=True");
  if (inputs.bos == bos_rule::none) t.begin_with(std::nullopt);
  if (inputs.bos == bos_rule::prepend) {
    const std::int32_t bos = t.bos() >= 0 ? t.bos() : prepared.bos.value_or(-1);
    require(bos >= 0, "--prepend-bos: neither the tokenizer_config.json beside ", path.string(),
            " nor config.json names a BOS token");
    t.begin_with(bos);
  }
  return t;
}

}  // namespace qkgeom
