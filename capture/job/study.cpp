// SPDX-License-Identifier: MIT
#include "capture/job/study.hpp"

#include <algorithm>
#include <iterator>

#include "capture/model/head_list.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

constexpr std::string_view known_fields[] = {"study",
                                             "about",
                                             "model",
                                             "revision",
                                             "tokenizer",
                                             "family",
                                             "n_layers",
                                             "n_query_heads",
                                             "n_key_heads",
                                             "dtype",
                                             "max_length",
                                             "sampler",
                                             "bucket_size",
                                             "rate",
                                             "seed",
                                             "pre_rope",
                                             "include_windowed",
                                             "skip_first",
                                             "same_positions",
                                             "bos",
                                             "rope_scaling",
                                             "rope_theta",
                                             "documents",
                                             "split",
                                             "text_field",
                                             "id_field",
                                             "heads",
                                             "moments",
                                             "softmax",
                                             "loss",
                                             "statistics_bucket_size"};

void check_fields(const json_value& v) {
  v.expect(v.is_object(), "an object");
  for (const auto& field : v.raw().items())
    require(std::find(std::begin(known_fields), std::end(known_fields), field.key()) != std::end(known_fields),
            v.where(), ": a study has no field \"", printable(field.key()), "\"");
}

template <class T, std::size_t N>
T one_of(const json_value& v, const std::pair<std::string_view, T> (&choices)[N]) {
  std::string names;
  for (const auto& [name, value] : choices) {
    if (v.string() == name) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  fail(v.where(), " must be one of ", names, ", not \"", printable(v.string()), "\"");
}

void read_sampling(const json_value& v, plan_options& plan) {
  if (v.has("max_length")) plan.max_length = v["max_length"].integer(1, most_tokens);
  if (v.has("sampler")) plan.sampler.kind = one_of(v["sampler"], sampler_names);
  if (v.has("bucket_size")) plan.sampler.bucket_size = v["bucket_size"].integer(1, most_tokens);
  if (v.has("rate")) plan.sampler.rate = v["rate"].positive();
  if (v.has("skip_first")) plan.sampler.skip_first = v["skip_first"].integer(0, most_tokens);
  if (v.has("same_positions")) plan.same_positions = v["same_positions"].boolean();
  if (v.has("seed")) plan.seed = v["seed"].unsigned_integer();
  if (v.has("include_windowed")) plan.include_windowed = v["include_windowed"].boolean();
  if (!v.has("heads")) return;
  if (v["heads"].is_object())
    plan.head_list = parse_head_lists(v["heads"].raw(), v["heads"].where());
  else
    plan.heads = v["heads"].integer(1, most_tokens);
}

}  // namespace

capture_options parse_study(std::string_view text, const std::string& where) {
  const json document = parse_json(text, where);
  const json_value v(document, where);
  check_fields(v);
  capture_options o;
  const auto word = [&](const char* field, std::string& to) {
    if (v.has(field)) to = v[field].string();
  };
  const auto count = [&](const char* field, index_t& to) {
    if (v.has(field)) to = v[field].integer(1, 1 << 20);
  };
  o.study.name = v["study"].string();
  word("model", o.study.model);
  word("tokenizer", o.study.tokenizer);
  word("documents", o.study.documents);
  count("n_layers", o.study.n_layers);
  count("n_query_heads", o.study.n_query_heads);
  count("n_key_heads", o.study.n_key_heads);
  word("revision", o.revision);
  word("family", o.family);
  word("rope_scaling", o.rope_scaling);
  word("text_field", o.documents.text_field);
  word("id_field", o.documents.id_field);
  o.rope_theta = v.positive("rope_theta");
  if (v.has("bos"))
    o.bos = one_of<bos_rule>(
        v["bos"], {{"tokenizer", bos_rule::as_tokenizer}, {"prepend", bos_rule::prepend}, {"none", bos_rule::none}});
  if (v.has("dtype"))
    o.plan.compute = one_of<compute_type>(v["dtype"], {{"f32", compute_type::f32}, {"bf16", compute_type::bf16}});
  if (v.has("pre_rope")) o.plan.stage = v["pre_rope"].boolean() ? rope_stage::pre : rope_stage::post;
  if (v.has("moments")) o.moments = v["moments"].boolean();
  if (v.has("softmax")) o.softmax = v["softmax"].boolean();
  if (v.has("loss")) o.loss = v["loss"].boolean();
  if (v.has("statistics_bucket_size")) o.statistics_bucket_size = v["statistics_bucket_size"].integer(1, most_tokens);
  read_sampling(v, o.plan);
  return o;
}

capture_options find_study(const std::string& name_or_file) {
  for (const builtin_study& s : builtin_studies())
    if (s.name == name_or_file) return parse_study(s.text, "study " + name_or_file);
  std::error_code none;
  if (std::filesystem::is_regular_file(name_or_file, none))
    return parse_study(read_text(name_or_file, std::size_t{4} << 20), name_or_file);
  std::string names;
  for (const builtin_study& s : builtin_studies()) names += (names.empty() ? "" : ", ") + std::string(s.name);
  fail("there is no study '", printable(name_or_file), "', nor a file of that name; studies: ", names);
}

}  // namespace qkgeom
