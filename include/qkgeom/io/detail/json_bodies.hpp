// SPDX-License-Identifier: MIT
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/io/json.hpp"

namespace qkgeom {

QKGEOM_INLINE json parse_json(std::string_view text, const std::string& where, int max_depth) {
  std::vector<std::set<std::string>> seen;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    require(depth < max_depth, where, ": the JSON is nested deeper than ", max_depth, " levels");
    if (event == json::parse_event_t::object_start) seen.emplace_back();
    if (event == json::parse_event_t::object_end) seen.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      require(seen.back().insert(key).second, where, ": the JSON names the field \"", printable(key), "\" twice");
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::parse_error& e) {
    fail(where, ": not valid JSON at byte ", e.byte);
  } catch (const json::exception&) {
    fail(where, ": not valid JSON");
  }
}

}  // namespace qkgeom
