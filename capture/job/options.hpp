// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "capture/forward/forward_pass.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/sampling/head_draw.hpp"
#include "qkgeom/sampling/token_draw.hpp"

// option_list.hpp declares each option: its name, help, bounds, and where else it stands.
namespace qkgeom {

/// Most tokens of a document: positions are 32-bit.
inline constexpr index_t most_tokens = 0x7fffffff;

/// Which documents begin with the beginning-of-text token: as the tokenizer decides, all (with one), or none.
enum class bos_rule { as_tokenizer, prepend, none };

/// Where the documents of a capture are, one JSON Lines file or text files of one document each, and their tokenizer.
struct input_options {
  std::filesystem::path jsonl{};
  std::string text_field = "text";
  std::string id_field = "id";
  std::vector<std::string> label_fields{};  ///< fields kept as labels, beside an object `labels`
  std::vector<std::filesystem::path> text{};
  index_t skip = 0;                   ///< documents to leave out at the beginning
  index_t count = -1;                 ///< takes at most `count` documents after them; -1: all
  std::filesystem::path tokenizer{};  ///< file or folder; empty: the model's folder, else the folder above
  bos_rule bos = bos_rule::as_tokenizer;

  bool named() const { return !jsonl.empty() || !text.empty(); }
};

/// The model, and how it computes.
struct model_options {
  std::filesystem::path path{};              ///< folder with config.json and weights, or what `find_gguf` finds
  std::string name{};                        ///< empty: that on the hub, else that of its folder
  std::string family{}, revision{};          ///< labels for the manifest; empty: left out
  std::string rope_scaling{};                ///< see `with_rope_scaling`; empty: config.json's
  std::optional<double> rope_theta{};        ///< base of the rotary frequencies; null: config.json's
  std::optional<std::uint64_t> untrained{};  ///< seed of weights that are drawn instead of read; null: the model's
  compute_type compute = compute_type::f32;
};

/// Which tokens, heads and layers are captured.
struct selection_options {
  index_t max_length = 0;                   ///< tokens to which a document is cut; 0: the model's context
  token_sampler sampler{.bucket_size = 0};  ///< a bucket size of 0: a sixteenth of the context
  std::optional<index_t> heads{};           ///< number of query heads to draw over the layers; null: all
  std::vector<head_id> head_list{};         ///< query heads, ascending, instead of a draw
  std::vector<index_t> layers{};            ///< empty: all without a sliding window and with the model's own heads
  bool include_windowed = false;            ///< layers with a sliding window too, if `layers` is empty
  bool same_positions = false;              ///< keys at the positions of the queries instead of a draw of their own
  std::uint64_t seed = 0;
  bool pre_rope = false;  ///< queries and keys before the rotary embedding
  index_t short_of = 0;   ///< tokens of the context that this capture stands for (`shorten`); 0: its own

  rope_stage stage() const { return pre_rope ? rope_stage::pre : rope_stage::post; }
};

/// What is kept of every token, beside the rows of some.
struct statistics_options {
  bool moments = false;  ///< moments of the captured heads
  bool softmax = false;  ///< attention mass on the first tokens and by distance, and entropy, of the captured heads
  index_t softmax_queries = 128;  ///< measured in a bucket of a document, or all where it has no more
  bool loss = false;              ///< the loss of every token but a document's first, by position
  index_t bucket_size = 0;        ///< tokens; 0: `usual_bucket_size`

  bool in_shards() const { return softmax || loss; }
};

/// How a capture runs. Its bytes depend on none of it but the part.
struct run_options {
  std::filesystem::path out{};
  int threads = 0;              ///< 0: one per core
  index_t batch_tokens = 8192;  ///< documents of a shard with that many together are a batch
  bool resume = false;
  capture_part part{};  ///< of 1: the whole capture
};

/// The protocol that a capture follows, and the model it was made for. Names are the hub's; empty and 0: unknown.
struct protocol_facts {
  std::string name{}, model{}, tokenizer{}, documents{};
  index_t n_layers = 0, n_query_heads = 0, n_key_heads = 0;
};

/// Options of a capture.
struct capture_options {
  input_options inputs{};
  model_options model{};
  selection_options selection{};
  statistics_options statistics{};
  run_options run{};
  protocol_facts protocol{};
};

/// Makes of a capture at length the short one that `qkgeom what-if` carries to that length: documents cut at `tokens`,
/// rows from before the rotary embedding, moments of every token, and as many rows in as many buckets. Throws `error`
/// unless the options say a length and `tokens` is below it.
void shorten(selection_options& selection, statistics_options& statistics, index_t tokens);

}  // namespace qkgeom
