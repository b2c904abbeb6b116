// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

namespace {

/// Reads `longrope` or `dynamic` of a rotary embedding, which earlier captures had beside it.
void read_by_length(const json_value& v, captured_rope& rope) {
  for (const char* kind : {"longrope", "dynamic"}) {
    if (!v.has(kind)) continue;
    const json_value from = v[kind];
    auto& l = rope.by_length.emplace();
    l.context = from["context"].integer(1, largest_position);
    if (kind == std::string_view("longrope")) {
      l.usual = from["short"].numbers();
      l.beyond = from["long"].numbers();
      from.expect(l.usual.size() == rope.inv_freq.size() && l.beyond.size() == rope.inv_freq.size(),
                  "as many frequencies as inv_freq");
    } else {
      l.theta = from["theta"].positive();
      l.factor = from["factor"].positive();
      from.expect(rope.rotary_dim > 2, "of more than one rotated pair");
      const auto f = default_frequencies(l.theta, rope.rotary_dim);
      l.usual.assign(f.begin(), f.end());
    }
  }
}

captured_norm read_norm(const json_value& v, index_t head_dim) {
  captured_norm norm{.eps = v["eps"].number()};
  v["eps"].expect(norm.eps >= 0, "a number >= 0");
  for (const auto& [field, weights] : {std::pair{"query", &norm.query}, std::pair{"key", &norm.key}}) {
    if (!v.has(field)) continue;
    *weights = v[field].numbers();
    v[field].expect(static_cast<index_t>(weights->size()) == head_dim, "a weight for each coordinate of a head");
  }
  return norm;
}

captured_rope read_rope(const json_value& v, index_t head_dim) {
  captured_rope rope;
  rope.style = v["style"].string();
  v["style"].expect(rope.style == "half" || rope.style == "interleaved", "\"half\" or \"interleaved\"");
  rope.rotary_dim = v["rotary_dim"].integer(0, head_dim);
  if (v.has("first")) rope.first = v["first"].integer(0, head_dim - rope.rotary_dim);
  if (v.has("attention_factor")) rope.attention_factor = v["attention_factor"].number();
  rope.inv_freq = v["inv_freq"].numbers();
  v["inv_freq"].expect(2 * static_cast<index_t>(rope.inv_freq.size()) == rope.rotary_dim,
                       "a frequency for each two of rotary_dim coordinates");
  read_by_length(v, rope);
  return rope;
}

std::vector<index_t> read_heads(const json_value& v, index_t heads) {
  auto list = v.integers(0, heads - 1);
  v.expect(!list.empty(), "a list of at least one head");
  v.expect(std::set<index_t>(list.begin(), list.end()).size() == list.size(), "a list that names each head once");
  return list;
}

captured_layer_info read_layer_info(const json_value& v, const captured_model& model) {
  captured_layer_info l;
  l.layer = v["layer"].integer(0, model.n_layers - 1);
  // The format has one word for both: a flag, or the parameters of the layer's own embedding.
  const bool own = v["rope"].is_object() || v.has("rope_parameters");
  l.rope = v["rope"].is_object() || v["rope"].boolean();
  if (own) l.rope_parameters = read_rope(v[v["rope"].is_object() ? "rope" : "rope_parameters"], model.head_dim);
  if (v.has("window")) l.window = v["window"].integer(1, largest_position);
  if (v.has("norm")) l.norm = read_norm(v["norm"], model.head_dim);
  l.query_heads = read_heads(v["query_heads"], model.n_query_heads);
  l.key_heads = read_heads(v["key_heads"], model.n_key_heads);
  return l;
}

captured_shard read_shard(const json_value& v) {
  captured_shard s;
  s.file = v["file"].name();
  // Manifests are untrusted: a shard must lie in the capture's folder.
  const bool plain = !s.file.empty() && s.file[0] != '.' && s.file.find_first_of("/\\") == std::string::npos &&
                     printable(s.file, max_name_bytes) == s.file;
  v["file"].expect(plain, "the plain name of a file in the capture's folder");
  s.documents = v["examples"].integers(0, largest_position);
  s.rows = v["rows"].integer(0);
  if (v.has("sha256")) s.sha256 = v["sha256"].string();
  return s;
}

captured_document read_document(const json_value& v) {
  captured_document e;
  e.index = v["index"].integer(0, largest_position);
  e.id = v["id"].name();
  e.tokens = v["tokens"].integer(0);
  if (v.has("labels")) {
    v["labels"].expect(v["labels"].is_object(), "an object");
    e.labels = v["labels"].raw();
    for (const auto& [name, value] : e.labels.items())
      require(name.size() <= max_name_bytes &&
                  (!value.is_string() || value.get_ref<const std::string&>().size() <= max_name_bytes),
              v["labels"].where(), ": a name or a value has more than ", max_name_bytes, " bytes");
  }
  return e;
}

captured_model read_model(const json_value& v) {
  captured_model m;
  m.name = v["name"].name();
  m.model_type = v["model_type"].name();
  if (v.has("config_sha256")) m.config_sha256 = v["config_sha256"].name();
  m.head_dim = v["head_dim"].integer(1, 1 << 16);
  m.n_layers = v["n_layers"].integer(1, 1 << 20);
  m.n_query_heads = v["n_query_heads"].integer(1, 1 << 20);
  m.n_key_heads = v["n_key_heads"].integer(1, m.n_query_heads);
  if (v.has("context")) m.context = v["context"].integer(1);
  return m;
}

void read_optional(const json_value& v, capture_manifest& m) {
  const auto text = [&](const char* field, std::optional<std::string>& to) {
    if (v.has(field)) to = v[field].name();
  };
  text("revision", m.revision);
  text("compute_dtype", m.compute_dtype);
  text("family", m.family);
  if (v.has("rope")) m.rope = read_rope(v["rope"], m.model.head_dim);
  if (m.rope && v.has("longrope")) read_by_length(v, *m.rope);
  m.score_scale = v.positive("score_scale");
  m.score_softcap = v.positive("score_softcap");
  if (v.has("written_by")) m.written_by = v["written_by"].name();
  if (v.has("examples")) {
    m.documents.emplace();
    for (const auto& e : v["examples"].entries()) m.documents->push_back(read_document(e));
    detail::require_each_once(*m.documents, v.where(), "example", [](const auto& e) { return e.index; });
  }
  if (v.has("shards")) {
    std::set<index_t> seen;
    for (const auto& s : v["shards"].entries()) {
      m.shards.push_back(read_shard(s));
      for (const index_t e : m.shards.back().documents)
        require(seen.insert(e).second, v.where(), ": example ", e, " is in more than one shard");
    }
  }
  for (const auto& [name, value] : v.raw().items()) {
    static const std::set<std::string_view> known{
        "format", "version",    "model",       "context_length", "bucket",  "rate", "rope_stage",
        "seed",   "examples",   "revision",    "compute_dtype",  "family",  "rope", "layers",
        "shards", "written_by", "score_scale", "score_softcap",  "longrope"};
    if (!known.count(name)) m.extra[name] = value;
  }
}

}  // namespace

capture_manifest parse_manifest(std::string_view text, const std::string& where) {
  const json document = parse_json(text, where);
  const json_value v(document, where);
  v.expect(v.is_object(), "an object");
  v["format"].expect(v["format"].string() == "qkgeom-capture", "\"qkgeom-capture\"");
  v["version"].expect(v["version"].integer() == 1, "1, the version this program reads");
  capture_manifest m;
  m.model = read_model(v["model"]);
  m.context_length = v["context_length"].integer(1, largest_position);
  m.bucket.kind = v["bucket"]["kind"].string();
  v["bucket"]["kind"].expect(m.bucket.kind == "uniform" || m.bucket.kind == "log2" || m.bucket.kind == "all",
                             "\"uniform\", \"log2\" or \"all\"");
  m.bucket.size = v["bucket"]["size"].integer(1, largest_position);
  m.rate = v["rate"].number();
  v["rate"].expect(m.rate >= 0, "a number >= 0");
  m.rope_stage = v["rope_stage"].string();
  v["rope_stage"].expect(m.rope_stage == "post" || m.rope_stage == "pre", "\"post\" or \"pre\"");
  m.seed = v["seed"].unsigned_integer();
  for (const auto& l : v["layers"].entries()) {
    m.layers.push_back(read_layer_info(l, m.model));
    try {
      m.key_of_query(m.layers.back());
    } catch (const error& e) {
      fail(where, ": ", e.what());
    }
  }
  v["layers"].expect(!m.layers.empty(), "a list of at least one layer");
  detail::require_each_once(m.layers, where, "layer", [](const auto& l) { return l.layer; });
  read_optional(v, m);
  return m;
}

index_t capture_manifest::usual_bucket_size() const {
  if (bucket.kind == "uniform" && bucket.size > 0) return bucket.size;
  if (const auto at = extra.find("moments"); at != extra.end() && at->is_object())
    if (const auto size = at->find("bucket_size");
        size != at->end() && size->is_number_integer() && *size > 0 && *size <= context_length)
      return size->get<index_t>();
  return sixteenth_of(context_length);
}

row_steps capture_manifest::steps_of(const captured_layer_info& l) const {
  row_steps steps{rope_of(l), l.norm, {}};
  if (const auto at = extra.find("query_growth"); at != extra.end()) {
    const json_value v(*at, "query_growth");
    const bool unrotated = v.has("layers");  // of layers without rotary embedding, which count positions from 1
    if (unrotated != l.rope)
      steps.growth = {v["beta"].number(), v["context"].integer(1, largest_position), unrotated ? 1 : 0};
  }
  return steps;
}

std::vector<index_t> capture_manifest::key_of_query(const captured_layer_info& l) const {
  std::vector<index_t> map;
  for (const index_t h : l.query_heads) {
    const index_t key = key_head_of(h, model.n_query_heads, model.n_key_heads);
    const auto it = std::find(l.key_heads.begin(), l.key_heads.end(), key);
    require(it != l.key_heads.end(), "layer ", l.layer, ": query head ", h, " reads key head ", key,
            ", which key_heads does not list");
    map.push_back(it - l.key_heads.begin());
  }
  return map;
}

namespace {

using ordered = nlohmann::ordered_json;

ordered to_ordered(const captured_rope& r) {
  ordered j = {{"style", r.style}, {"rotary_dim", r.rotary_dim}};
  if (r.first > 0) j["first"] = r.first;
  j["attention_factor"] = r.attention_factor;
  j["inv_freq"] = r.inv_freq;
  if (r.by_length && !r.by_length->beyond.empty())
    j["longrope"] = {{"context", r.by_length->context}, {"short", r.by_length->usual}, {"long", r.by_length->beyond}};
  else if (r.by_length)
    j["dynamic"] = {{"context", r.by_length->context}, {"theta", r.by_length->theta}, {"factor", r.by_length->factor}};
  return j;
}

ordered to_ordered(const captured_layer_info& l) {
  ordered j = {{"layer", l.layer}, {"rope", l.rope}};
  j["window"] = l.window ? ordered(*l.window) : ordered(nullptr);
  j["query_heads"] = l.query_heads;
  j["key_heads"] = l.key_heads;
  if (l.rope_parameters) j["rope_parameters"] = to_ordered(*l.rope_parameters);
  if (l.norm) {
    j["norm"] = {{"eps", l.norm->eps}};
    if (!l.norm->query.empty()) j["norm"]["query"] = l.norm->query;
    if (!l.norm->key.empty()) j["norm"]["key"] = l.norm->key;
  }
  return j;
}

ordered to_ordered(const captured_document& e) {
  ordered j = {{"index", e.index}, {"id", e.id}, {"tokens", e.tokens}};
  if (!e.labels.is_null()) j["labels"] = e.labels;
  return j;
}

ordered to_ordered(const captured_shard& s) {
  ordered j = {{"file", s.file}, {"examples", s.documents}, {"rows", s.rows}};
  if (!s.sha256.empty()) j["sha256"] = s.sha256;
  return j;
}

template <class T>
ordered to_ordered_list(const std::vector<T>& list) {
  ordered j = ordered::array();
  for (const auto& entry : list) j.push_back(to_ordered(entry));
  return j;
}

}  // namespace

std::string manifest_text(const capture_manifest& m, int indent) {
  ordered j = {{"format", "qkgeom-capture"}, {"version", 1}};
  j["model"] = {{"name", m.model.name},
                {"model_type", m.model.model_type},
                {"config_sha256", m.model.config_sha256},
                {"head_dim", m.model.head_dim},
                {"n_layers", m.model.n_layers},
                {"n_query_heads", m.model.n_query_heads},
                {"n_key_heads", m.model.n_key_heads}};
  if (m.model.context > 0) j["model"]["context"] = m.model.context;
  j["context_length"] = m.context_length;
  j["bucket"] = {{"kind", m.bucket.kind}, {"size", m.bucket.size}};
  j["rate"] = m.rate;
  j["rope_stage"] = m.rope_stage;
  j["seed"] = m.seed;
  if (m.documents) j["examples"] = to_ordered_list(*m.documents);
  if (m.revision) j["revision"] = *m.revision;
  if (m.compute_dtype) j["compute_dtype"] = *m.compute_dtype;
  if (m.family) j["family"] = *m.family;
  if (m.rope) j["rope"] = to_ordered(*m.rope);
  if (m.score_scale) j["score_scale"] = *m.score_scale;
  if (m.score_softcap) j["score_softcap"] = *m.score_softcap;
  j["layers"] = to_ordered_list(m.layers);
  if (!m.shards.empty()) j["shards"] = to_ordered_list(m.shards);
  if (!m.written_by.empty()) j["written_by"] = m.written_by;
  for (const auto& [name, value] : m.extra.items()) j[name] = value;
  try {
    return j.dump(indent);
  } catch (const json::exception&) {
    fail("a manifest cannot be written: a name or an id in it is not UTF-8");
  }
}

std::optional<capture_part> part_of(const capture_manifest& m, const std::string& name) {
  if (!m.extra.contains(part_field)) return std::nullopt;
  const json_value part(m.extra[part_field], name, part_field);
  const index_t of = part["of"].integer(1, most_parts);
  require(m.documents && !m.documents->empty(), name, ": a part must list its examples");
  return capture_part{part["number"].integer(1, of), of};
}

index_t first_moment_block(const capture_manifest& m, const std::string& name) {
  if (!m.extra.contains(part_field) || !m.extra.contains("moments")) return 0;
  const json_value moments(m.extra["moments"], name, "moments");
  return moments.has(first_block_field) ? moments[first_block_field].integer(0, 100) : 0;
}

bool same_whole(const capture_manifest& a, const capture_manifest& b) {
  return a.extra.contains(part_field) && b.extra.contains(part_field) && a.extra.contains(inputs_field) &&
         b.extra.contains(inputs_field) && a.extra[inputs_field] == b.extra[inputs_field] &&
         a.extra.value(weights_field, json()) == b.extra.value(weights_field, json());
}

std::optional<std::string> untrained_seed(const capture_manifest& m) {
  const auto at = m.extra.find("untrained");
  if (at == m.extra.end() || !at->is_object() || !at->contains("seed")) return std::nullopt;
  return (*at)["seed"].dump();
}

}  // namespace qkgeom
