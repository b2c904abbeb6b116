// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Values in host memory, as `host_copy` of a context returns them: a view of the caller's memory, or an owned copy.
template <class T>
class host_values {
 public:
  explicit host_values(vector_view<const T> here) : view_(here) {}
  explicit host_values(std::vector<T> copy)
      : copy_(std::move(copy)), view_{copy_.data(), static_cast<index_t>(copy_.size())} {}
  host_values(host_values&&) noexcept = default;
  host_values& operator=(host_values&&) noexcept = default;

  const vector_view<const T>& view() const { return view_; }

 private:
  std::vector<T> copy_;
  vector_view<const T> view_;
};

}  // namespace qkgeom
