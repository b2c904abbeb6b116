// SPDX-License-Identifier: MIT
#include "capture/model/head_changes.hpp"

#include <set>

#include "capture/model/head_list.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

head_change read_change(const json_value& v, const decoder_description& model) {
  head_change c;
  c.head = parse_head(v["head"].string(), v.where());
  require(c.head.layer < model.n_layers() && c.head.head < model.query_heads && model.attends(c.head.layer), v.where(),
          ": the model has no head ", c.head.layer, ".", c.head.head);
  c.ablate = v.has("ablate") && v["ablate"].boolean();
  const index_t dim = model.heads_of(model.layers[c.head.layer]).head_dim;
  if (v.has("key_slope")) {
    c.key_slope = v["key_slope"].numbers();
    require(static_cast<index_t>(c.key_slope.size()) == dim, v.where(), ": key_slope has ", c.key_slope.size(),
            " numbers for a head size of ", dim);
    c.centre = v["centre"].number();
  }
  if (v.has("keys_as")) {
    try {
      c.keys_as = parse_cache_type(v["keys_as"].string());
      require_blocks(*c.keys_as, dim);
    } catch (const error& e) {
      fail(v.where(), ": ", e.what());
    }
  }
  if (v.has("restore")) {
    const std::string part = v["restore"].string();
    require(part == "query" || part == "shared_keys", v.where(),
            ": \"restore\" is \"query\" or \"shared_keys\", not \"", printable(part), "\"");
    c.restore = part == "query" ? restored_part::query : restored_part::shared_keys;
  }
  require(c.ablate + !c.key_slope.empty() + c.keys_as.has_value() + c.restore.has_value() == 1, v.where(),
          ": a change is either \"ablate\": true, or a \"key_slope\", or \"keys_as\" a cache type, or \"restore\"");
  return c;
}

}  // namespace

std::vector<condition> read_conditions(const std::filesystem::path& path, const decoder_description& model) {
  const std::string where = path.string();
  const json document = parse_json(read_text(path, std::size_t{16} << 20), where);
  std::vector<condition> conditions;
  std::set<std::string> names;
  for (const auto& entry : json_value(document, where)["conditions"].entries()) {
    condition c{entry["name"].string(), {}};
    require(!c.name.empty() && names.insert(c.name).second, entry.where(),
            ": each condition needs a name of its own, not \"", printable(c.name), "\" again");
    std::set<head_id> heads;
    for (const auto& change : entry["changes"].entries()) {
      c.changes.push_back(read_change(change, model));
      const head_id h = c.changes.back().head;
      require(heads.insert(h).second, change.where(), ": condition \"", printable(c.name), "\" names head ", h.layer,
              ".", h.head, " twice");
    }
    conditions.push_back(std::move(c));
  }
  require(!conditions.empty(), where, ": there is no condition");
  return conditions;
}

}  // namespace qkgeom
