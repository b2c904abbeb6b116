// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/description.hpp"
#include "qkgeom/core/cache_types.hpp"
#include "qkgeom/io/json.hpp"
#include "qkgeom/sampling/head_draw.hpp"

namespace qkgeom {

/// Parses a head written as LAYER.HEAD, e.g. "3.12". `where` names it in errors.
head_id parse_head(std::string_view word, const std::string& where);

/// Parses the query heads of a JSON object {"LAYER": [HEAD, ...], ...}; returns them ascending. `where` names it in
/// errors. Throws `error` on anything else, a repeated head and an empty list.
std::vector<head_id> parse_head_lists(const json& object, const std::string& where);

/// Parses query heads as LAYER.HEAD words between blanks, commas and lines; # begins a comment. Returns them ascending.
/// `where` names them in errors. Throws `error` likewise.
std::vector<head_id> parse_head_words(std::string_view text, const std::string& where);

/// Reads query heads from a file: a JSON object or words, as above.
std::vector<head_id> read_head_list(const std::filesystem::path& path);

/// Weights of a query head that come from another checkpoint.
enum class restored_part {
  query,       ///< its query projection
  shared_keys  ///< the projections of its key head and of all query heads that read it
};

/// A change to one query head in the forward pass.
struct head_change {
  head_id head;
  bool ablate = false;                  ///< its output is 0
  std::vector<double> key_slope{};      ///< (d) per token; not empty: the head sees keys k - key_slope (t - centre)
  double centre = 0;                    ///< tokens
  std::optional<cache_type> keys_as{};  ///< the head sees keys rounded by a cache of this type
  std::optional<restored_part> restore{};
  std::optional<rope_description> rope{};  ///< the head's rotary embedding in place of its layer's
};

/// A name and the changes that are made together under it.
struct condition {
  std::string name;
  std::vector<head_change> changes;
};

/// Reads a JSON file {"conditions": [{"name": "...", "changes": [{"head": "3.12", "ablate": true}, {"head":
/// "2.0", "key_slope": [...], "centre": 4096}, {"head": "2.1", "keys_as": "q4_0"}, {"head": "2.2", "restore":
/// "query"}, {"layer": 4, "rope": {"theta": 1e6, "scaling": "yarn:4:4096", "still": [14, 15]}}]}]}. "layer" stands for
/// all query heads of a layer. "rope" gives another base or scaling, as the options of `qkgeom capture` do, and planes
/// that do not rotate. Throws `error` naming the field that is wrong or does not fit the model: an unknown or repeated
/// head, a slope of another length, a cache type that does not take the head size, a plane that does not rotate, an
/// embedding that depends on a document's length, a repeated name.
std::vector<condition> read_conditions(const std::filesystem::path& path, const decoder_description& model);

}  // namespace qkgeom
