// SPDX-License-Identifier: MIT
#include "capture/job/prepare.hpp"

#include <algorithm>
#include <ostream>

#include "capture/job/sha256.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;

void check_shape(const study_facts& s, const decoder_description& model) {
  const auto check = [&](index_t expected, index_t found, const char* what) {
    require(expected == 0 || expected == found, "study ", printable(s.name), " is of ",
            s.model.empty() ? "a model" : printable(s.model), " with ", expected, " ", what, ", but this model has ",
            found);
  };
  check(s.n_layers, model.n_layers(), "layers");
  check(s.n_query_heads, model.query_heads, "query heads per layer");
  check(s.n_key_heads, model.key_heads, "key heads per layer");
}

/// Settings for which the format has no field of its own.
void add_settings(capture_manifest& m, const capture_options& o) {
  if (!o.family.empty()) m.family = o.family;
  if (!o.revision.empty()) m.revision = o.revision;
  if (!o.study.name.empty()) m.extra["study"] = o.study.name;
  if (!o.rope_scaling.empty()) m.extra["rope_scaling"] = o.rope_scaling;
  if (o.rope_theta) m.extra["rope_theta"] = *o.rope_theta;
  if (o.bos != bos_rule::as_tokenizer) m.extra["bos"] = o.bos == bos_rule::prepend ? "prepend" : "none";
}

/// Buckets of moments, softmax, loss and analyses; by default those that `heads` takes.
void add_statistics(capture_manifest& m, const capture_options& o) {
  const index_t size = o.statistics_bucket_size > 0 ? o.statistics_bucket_size : m.usual_bucket_size();
  captured_buckets{"uniform", size}.edges(m.context_length);  // throws where they are too many
  if (o.moments) m.extra["moments"] = {{"bucket_size", size}};
  if (o.softmax) m.extra["softmax"] = {{"bucket_size", size}};
  if (o.loss) m.extra["loss"] = {{"bucket_size", size}};
  if (!o.analyse) return;
  m.extra["analyse"] = {{"bucket_size", size}, {"covariance", o.analyse->covariances}, {"heatmap", o.analyse->heatmap}};
}

std::optional<std::int32_t> bos_of(const nlohmann::json& config) {
  for (const auto* c : {&config, config.contains("text_config") ? &config["text_config"] : &config})
    if (c->is_object() && c->contains("bos_token_id") && (*c)["bos_token_id"].is_number_integer())
      return (*c)["bos_token_id"].get<std::int32_t>();
  return std::nullopt;
}

fs::path find_tokenizer(const capture_options& options) {
  if (!options.tokenizer.empty())
    return fs::is_directory(options.tokenizer) ? options.tokenizer / "tokenizer.json" : options.tokenizer;
  const fs::path folder = fs::canonical(options.model);
  for (const fs::path& place : {folder, folder.parent_path()})
    if (fs::exists(place / "tokenizer.json")) return place / "tokenizer.json";
  const study_facts& s = options.study;
  fail("there is no tokenizer.json in ", options.model.string(), " nor in the folder above; --tokenizer names one",
       s.tokenizer.empty() ? "" : ", for study " + printable(s.name) + " that of " + printable(s.tokenizer));
}

}  // namespace

prepared_capture prepare_capture(const capture_options& options, std::ostream& notes) {
  require(fs::is_directory(options.model), options.model.string(), " is not a folder with a model");
  const fs::path path = options.model / "config.json";
  const std::string text = read_text(path, std::size_t{1} << 20);
  auto config = parse_json(text, path.string());
  if (!options.rope_scaling.empty()) config = with_rope_scaling(std::move(config), options.rope_scaling);
  if (options.rope_theta) config = with_rope_theta(std::move(config), *options.rope_theta);
  require(!options.analyse || options.plan.stage == rope_stage::post,
          "queries and keys are analysed as they meet, after rotary embedding: --analyse without --pre-rope");
  prepared_capture p{read_description(config), {}, bos_of(config)};
  check_shape(options.study, p.model);
  p.manifest =
      plan_capture(p.model, fs::canonical(options.model).filename().string(), sha256().add(text).hex(), options.plan);
  add_settings(p.manifest, options);
  if (options.moments || options.softmax || options.loss || options.analyse) add_statistics(p.manifest, options);
  const index_t captured = p.manifest.query_heads();
  if (const auto wanted = options.plan.heads; wanted && options.plan.head_list.empty() && *wanted > captured)
    notes << "note: the captured layers have " << captured << " query heads; all are taken, not " << *wanted << '\n';
  if (const index_t none = heads_without_data(p.model, options.plan); none > 0)
    notes
        << "note: " << none << " of the " << options.plan.head_list.size()
        << " heads asked for stand in layers that are not captured (they attend to images, or have a sliding window)\n";
  return p;
}

bucket_edges grid_of(const capture_manifest& m, const char* statistic) {
  return captured_buckets{"uniform", m.extra[statistic]["bucket_size"].get<index_t>()}.edges(m.context_length);
}

tokenizer load_tokenizer(const capture_options& options, const prepared_capture& prepared) {
  const fs::path path = find_tokenizer(options);
  tokenizer t = tokenizer::load(path);
  if (options.bos == bos_rule::none) t.begin_with(std::nullopt);
  if (options.bos == bos_rule::prepend) {
    const std::int32_t bos = t.bos() >= 0 ? t.bos() : prepared.bos.value_or(-1);
    require(bos >= 0, "--prepend-bos: neither the tokenizer_config.json beside ", path.string(),
            " nor config.json names a BOS token");
    t.begin_with(bos);
  }
  return t;
}

}  // namespace qkgeom
