// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom::backend {

/// The value of documents [index 2^level, (index + 1) 2^level), as far as there are.
template <class Value>
struct document_node {
  index_t level = 0, index = 0;
  Value value{};
};
template <class Value, class F>
void with_members(document_node<Value>& x, const F& f) {
  f(x.level, x.index, x.value);
}
template <class Value, class F>
void with_members(const document_node<Value>& x, const F& f) {
  f(x.level, x.index, x.value);
}

/// Merges one value for each of n documents in an order that depends on n alone: documents 2i and 2i + 1, then such
/// pairs, and so on. Whoever holds both halves of a node merges them, so a process with documents that follow one
/// another passes on few nodes: at most twice the logarithm of their number.
template <class Value>
class document_tree {
 public:
  using node = document_node<Value>;

  explicit document_tree(index_t documents) : documents_(documents) {}

  /// Adds a node that nothing before holds. merge(into, from): `from` is of the documents behind those of `into`.
  template <class Merge>
  void add(node added, const Merge& merge) {
    for (; (index_t{1} << added.level) < documents_; ++added.level, added.index /= 2) {
      const index_t other = added.index ^ 1;
      if (other << added.level >= documents_) continue;  // no document there
      const auto it = std::find_if(nodes_.begin(), nodes_.end(),
                                   [&](const node& n) { return n.level == added.level && n.index == other; });
      if (it == nodes_.end()) {
        nodes_.push_back(std::move(added));
        return;
      }
      if (other < added.index) std::swap(*it, added);
      merge(added.value, std::as_const(it->value));
      nodes_.erase(it);
    }
    nodes_.push_back(std::move(added));
  }

  /// What waits for its other half; in the end the value of all documents.
  std::vector<node> take() { return std::exchange(nodes_, {}); }

 private:
  index_t documents_;
  std::vector<node> nodes_{};
};

}  // namespace qkgeom::backend
