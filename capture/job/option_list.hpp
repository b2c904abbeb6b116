// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "capture/job/options.hpp"

// Each option of a capture is one call of f(name, value, help, where, least): qkgeom capture takes it as --NAME, and
// `where` names its other places. Help that ends in [words] states the default. `least` is the least integer.
namespace qkgeom {

/// Places of an option beside the command line of qkgeom capture. Protocols and manifests write its name with _ for -;
/// manifests leave out defaults of the type.
enum option_place : unsigned { here = 0, evaluated = 1, in_protocol = 2, in_manifest = 4 };

/// Returns the name of an option in protocols and manifests.
inline std::string field_of(const char* option) {
  std::string name = option;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Names of the values of enumerated options.
inline constexpr std::pair<std::string_view, compute_type> compute_names[] = {{"f32", compute_type::f32},
                                                                              {"bf16", compute_type::bf16}};
inline constexpr std::pair<std::string_view, bos_rule> bos_names[] = {
    {"tokenizer", bos_rule::as_tokenizer}, {"prepend", bos_rule::prepend}, {"none", bos_rule::none}};
inline constexpr std::pair<std::string_view, head_owner> owner_names[] = {{"attention", head_owner::attention},
                                                                          {"indexer", head_owner::indexer}};
constexpr const auto& names_of(head_owner) { return owner_names; }
constexpr const auto& names_of(compute_type) { return compute_names; }
constexpr const auto& names_of(bos_rule) { return bos_names; }
constexpr const auto& names_of(sampler_kind) { return sampler_names; }

/// The query heads of a selection, as one option.
struct head_choice {
  std::optional<index_t>& count;
  std::vector<head_id>& list;
};

template <class F>
void each_option(input_options& o, F&& f) {
  f("jsonl", o.jsonl, "documents, one JSON object a line", evaluated);
  f("text-field", o.text_field, "field of the text", evaluated | in_protocol);
  f("id-field", o.id_field, "field of the document's name", evaluated | in_protocol);
  f("label-fields", o.label_fields, "fields kept as the document's labels, beside an object 'labels'", evaluated);
  f("text", o.text, "text files, one document each", evaluated);
  f("examples", o.count, "at most that many documents [all]", evaluated, 1);
  f("skip-examples", o.skip,
    "documents to leave out at the beginning; those that follow are captured as one capture of all does, so that parts "
    "equal the whole",
    evaluated | in_manifest);
  f("tokenizer", o.tokenizer, "tokenizer.json or the folder of one [the model's folder, else the one above]",
    evaluated);
  f("bos", o.bos, "", evaluated | in_protocol | in_manifest);  // --prepend-bos and --no-bos
}

template <class F>
void each_option(model_options& o, F&& f) {
  f("model", o.path, "folder with config.json, safetensors and tokenizer.json; or a GGUF file, or ollama:MODEL:TAG",
    evaluated);
  f("untrained", o.untrained,
    "capture the model as it was before any training: weights are drawn with this seed as config.json says "
    "(initializer_range), and none are read",
    evaluated);
  f("name", o.name,
    "what the model is called in the manifest, tables and figures [its name on the hub, else its folder]", evaluated);
  f("family", o.family, "label of the model's family, kept in the manifest", in_protocol);
  f("revision", o.revision, "label of the checkpoint, kept in the manifest", in_protocol);
  f("rope-scaling", o.rope_scaling,
    "rotary scaling instead of config.json's: none, linear:FACTOR, dynamic:FACTOR, yarn:FACTOR:CONTEXT or "
    "llama3:FACTOR:LOW:HIGH:CONTEXT, or longrope:FILE, a config.json that has it; the base frequency stays",
    evaluated | in_protocol | in_manifest);
  f("rope-theta", o.rope_theta, "base of the rotary frequencies instead of config.json's",
    evaluated | in_protocol | in_manifest);
  f("dtype", o.compute, "arithmetic and element type: f32 or bf16", evaluated | in_protocol);
}

template <class F>
void each_option(selection_options& o, F&& f) {
  f("max-length", o.max_length, "tokens to which a document is cut [the model's context]", evaluated | in_protocol, 1);
  f("sampler", o.sampler.kind, "tokens that are kept: uniform or log2 buckets, or all", in_protocol);
  f("bucket-size", o.sampler.bucket_size, "tokens of a bucket (log2: of the smallest) [a sixteenth of the context]",
    in_protocol, 1);
  f("rate", o.sampler.rate, "expected tokens kept in a bucket", in_protocol);
  f("skip-first", o.sampler.skip_first, "leading tokens of a document that are never kept", in_protocol | in_manifest);
  f("same-positions", o.same_positions, "keys at the positions of the queries", in_protocol | in_manifest);
  f("heads-of", o.heads_of, "heads of the attention, or of the indexer that chooses the keys which it sees",
    in_protocol | in_manifest);
  f("heads", head_choice{o.heads, o.head_list},
    "query heads: a number of them, drawn over all captured layers; all; LAYER.HEAD words such as 3.12,4.0; or a file "
    "of such words or {\"LAYER\": [HEAD, ...]} [the protocol's, else all]",
    in_protocol);
  f("layers", o.layers, "layers such as 0,3,5-7, or all [all]");
  f("include-windowed", o.include_windowed, "capture layers with a sliding window too", in_protocol);
  f("seed", o.seed, "seed of all draws", in_protocol);
  f("pre-rope", o.pre_rope, "queries and keys before rotary embedding", in_protocol);
}

template <class F>
void each_option(statistics_options& o, F&& f) {
  f("moments", o.moments, "moments of every token of the captured heads, beside the sampled rows", in_protocol);
  f("softmax", o.softmax, "attention mass on the first tokens and by distance, and entropy, of the captured heads",
    in_protocol);
  f("softmax-queries", o.softmax_queries,
    "queries that --softmax measures in a bucket of a document, or all where it has no more", in_protocol, 1);
  f("loss", o.loss, "the loss of every token by position; runs all layers", in_protocol);
  f("statistics-bucket-size", o.bucket_size,
    "tokens of a bucket of --moments, --softmax and --loss [--bucket-size of uniform buckets, else a sixteenth of the "
    "context]",
    in_protocol, 1);
}

template <class F>
void each_option(run_options& o, F&& f) {
  f("out", o.out, "folder for the capture", evaluated);
  f("threads", o.threads, "threads; 0: one for each core that this process may use", evaluated);
  f("batch-tokens", o.batch_tokens,
    "documents of a shard with that many tokens together run as a batch, which shares each read of the weights and "
    "takes the memory of one such document; the output does not depend on it",
    evaluated, 1);
  f("resume", o.resume, "continue an interrupted capture");
  f("part", o.part,
    "K/N: capture part K of N alone, for N jobs that know nothing of one another; qkgeom merge makes one capture of "
    "the N folders [the whole]");
}

template <class F>
void each_option(capture_options& o, F&& f) {
  each_option(o.inputs, f);
  each_option(o.model, f);
  each_option(o.selection, f);
  each_option(o.statistics, f);
  each_option(o.run, f);
}

}  // namespace qkgeom
