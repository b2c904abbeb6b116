// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "qkgeom/io/json.hpp"
#include "qkgeom/rotary/embedding.hpp"

namespace qkgeom {

/// A family's values for fields that config.json lacks.
struct rope_defaults {
  double theta = 10000;
  double partial = 1;  ///< share of a head's channels that is rotated
  bool may_be_partial = false;
};

/// The rotary parameters of a config.json: `rope_scaling` unless it is empty, else `rope_parameters`.
std::optional<json_value> rope_dictionary(const json_value& config);

/// The object whose `original_max_position_embeddings` counts: config.json itself if the scaling is yarn or llama3 and
/// config.json has the field, else the dictionary of rotary parameters.
const json_value& original_context_holder(const json_value& config, const json_value& dictionary);

/// Reads `rope_scaling`, else `rope_parameters`, and the top-level `rope_theta` of a config.json as transformers does.
/// Throws on a rope type that is not known, by name.
rope_description read_rope(const json_value& config, index_t head_dim, index_t context, const rope_defaults& defaults);

/// Reads one dictionary of rotary parameters, which may be absent.
rope_description read_rope_dictionary(const json_value& config, const std::optional<json_value>& dictionary,
                                      index_t head_dim, index_t context, const rope_defaults& defaults);

/// The fields of `rope_scaling` that a text names: "none", "linear:FACTOR", "dynamic:FACTOR", "yarn:FACTOR:CONTEXT" or
/// "llama3:FACTOR:LOW:HIGH:CONTEXT". Throws `error` on any other.
json rope_scaling_fields(const std::string& text);

}  // namespace qkgeom
