// SPDX-License-Identifier: MIT
#pragma once

#include <sstream>
#include <stdexcept>

namespace qkgeom {

/// Thrown by every public function on bad input. The sentence names the argument, the expected and the given value.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws `error` with the text of all `parts`, streamed one after another.
template <class... Parts>
[[noreturn, gnu::cold]] void fail(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw error(text.str());
}

/// Calls `fail(parts...)` unless `condition` holds.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    fail(parts...);
}

}  // namespace qkgeom
