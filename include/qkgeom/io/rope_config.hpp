// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "qkgeom/io/json.hpp"
#include "qkgeom/rotary/embedding.hpp"

namespace qkgeom {

/// A family's defaults for fields that config.json lacks.
struct rope_defaults {
  double theta = 10000;
  double partial = 1;  ///< share of a head's channels that rotates
  bool may_be_partial = false;
};

/// Finds the rotary parameters of a config.json: `rope_scaling` unless it is empty, else `rope_parameters`.
std::optional<json_value> rope_dictionary(const json_value& config);

/// Returns the object whose `original_max_position_embeddings` counts: config.json if the scaling is yarn or llama3 and
/// config.json has the field, else the dictionary of rotary parameters.
const json_value& original_context_holder(const json_value& config, const json_value& dictionary);

/// Reads `rope_scaling`, else `rope_parameters`, and the top-level `rope_theta` of a config.json as transformers does.
/// Throws `error` that names an unknown rope type.
rope_description read_rope(const json_value& config, index_t head_dim, index_t context, const rope_defaults& defaults);

/// Reads one dictionary of rotary parameters, if there is one.
rope_description read_rope_dictionary(const json_value& config, const std::optional<json_value>& dictionary,
                                      index_t head_dim, index_t context, const rope_defaults& defaults);

/// Returns the fields of `rope_scaling` for a text: "none", "linear:FACTOR", "dynamic:FACTOR", "yarn:FACTOR:CONTEXT",
/// "llama3:FACTOR:LOW:HIGH:CONTEXT", or "longrope:FILE", a config.json with such a scaling. Throws `error` on any
/// other.
json rope_scaling_fields(const std::string& text);

/// Returns an embedding of the planes of `was` with another base and scaling (see `rope_scaling_fields`; empty: none),
/// in a model made for `context` tokens.
rope_description other_rope(const rope_description& was, double theta, const std::string& scaling, index_t context);

}  // namespace qkgeom
