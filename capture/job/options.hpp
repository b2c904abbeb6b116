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

// option_list.hpp declares each option: its name, help, bounds and other places.
namespace qkgeom {

/// Most tokens of a document: positions are 32-bit.
inline constexpr index_t most_tokens = 0x7fffffff;

/// Documents that begin with the beginning-of-text token: as the tokenizer says, all (with one), or none.
enum class bos_rule { as_tokenizer, prepend, none };

/// Whose heads a capture holds: those of a layer's attention, or of the indexer that chooses the keys it sees.
enum class head_owner { attention, indexer };

/// Documents of a capture, one JSON Lines file or text files of one document each, and their tokenizer.
struct input_options {
  std::filesystem::path jsonl{};
  std::string text_field = "text";
  std::string id_field = "id";
  std::vector<std::string> label_fields{};  ///< fields kept as labels, beside an object `labels`
  std::vector<std::filesystem::path> text{};
  index_t skip = 0;                   ///< documents to leave out at the beginning
  index_t count = -1;                 ///< most documents after the skipped ones; -1: all
  std::filesystem::path tokenizer{};  ///< file or folder; empty: the model's folder, else the folder above
  bos_rule bos = bos_rule::as_tokenizer;

  bool named() const { return !jsonl.empty() || !text.empty(); }
};

/// The model and its arithmetic.
struct model_options {
  std::filesystem::path path{};              ///< folder with config.json and weights, or what `find_gguf` finds
  std::string name{};                        ///< empty: its name on the hub, else its folder's name
  std::string family{}, revision{};          ///< labels for the manifest; empty: left out
  std::string rope_scaling{};                ///< see `with_rope_scaling`; empty: config.json's
  std::optional<double> rope_theta{};        ///< base of the rotary frequencies; null: config.json's
  std::optional<std::uint64_t> untrained{};  ///< seed of weights that are drawn instead of read; null: the model's
  compute_type compute = compute_type::f32;
};

/// Tokens, heads and layers to capture.
struct selection_options {
  index_t max_length = 0;                   ///< tokens to which a document is cut; 0: the model's context
  token_sampler sampler{.bucket_size = 0};  ///< bucket size 0: a sixteenth of the context
  head_owner heads_of = head_owner::attention;
  std::optional<index_t> heads{};    ///< number of query heads to draw over the layers; null: all
  std::vector<head_id> head_list{};  ///< query heads, ascending, instead of a draw
  std::vector<index_t> layers{};     ///< empty: all without a sliding window and with the model's usual heads
  bool include_windowed = false;     ///< layers with a sliding window too, if `layers` is empty
  bool same_positions = false;       ///< keys at the positions of the queries instead of an independent draw
  std::uint64_t seed = 0;
  bool pre_rope = false;  ///< queries and keys before the rotary embedding
  index_t short_of = 0;   ///< tokens of the context that this capture stands for (`shorten`); 0: its own

  rope_stage stage() const { return pre_rope ? rope_stage::pre : rope_stage::post; }
};

/// Statistics over every token, beside the sampled rows.
struct statistics_options {
  bool moments = false;  ///< moments of the captured heads
  bool softmax = false;  ///< attention mass on the first tokens and by distance, and entropy, of the captured heads
  index_t softmax_queries = 128;  ///< measured per bucket and document, or all queries if there are fewer
  bool loss = false;              ///< the loss of every token but a document's first, by position
  index_t bucket_size = 0;        ///< tokens; 0: `usual_bucket_size`

  bool in_shards() const { return softmax || loss; }
};

/// How a capture runs. Except for `part`, nothing here changes its bytes.
struct run_options {
  std::filesystem::path out{};
  int threads = 0;              ///< 0: `usable_cores()`
  index_t batch_tokens = 8192;  ///< most tokens of a batch of several documents of a shard
  bool resume = false;
  capture_part part{};  ///< 1 part: the whole capture
};

/// The protocol of a capture and the model it was made for. Names are the hub's; empty and 0: unknown.
struct protocol_facts {
  std::string name{}, model{}, tokenizer{}, documents{};
  index_t n_layers = 0, n_query_heads = 0, n_key_heads = 0;
};

struct capture_options {
  input_options inputs{};
  model_options model{};
  selection_options selection{};
  statistics_options statistics{};
  run_options run{};
  protocol_facts protocol{};
};

/// Turns a capture at length into the short one that `qkgeom what-if` extrapolates to that length: documents cut at
/// `tokens`, rows from before the rotary embedding, moments of every token, the same number of rows and buckets. Throws
/// `error` unless the options state a length and `tokens` is below it.
void shorten(selection_options& selection, statistics_options& statistics, index_t tokens);

}  // namespace qkgeom
