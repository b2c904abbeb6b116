// SPDX-License-Identifier: MIT
#pragma once

#include <set>
#include <string>
#include <type_traits>

#include "qkgeom/core/error.hpp"

namespace qkgeom::detail {

/// Throws `error` if two entries of a list have the same key.
template <class List, class Key>
void require_each_once(const List& list, const std::string& where, const char* what, Key key) {
  std::set<std::decay_t<decltype(key(*list.begin()))>> seen;
  for (const auto& entry : list)
    require(seen.insert(key(entry)).second, where, ": ", what, ' ', key(entry), " stands twice");
}

}  // namespace qkgeom::detail
