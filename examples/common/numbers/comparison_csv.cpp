// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "examples/common/numbers/comparison.hpp"

namespace qkgeom {

namespace detail {

/// The numbers of a group that differences are made of: the headline, then quintiles and deciles of the model's own
/// context, counted from 1.
inline std::vector<compared_number> numbers_to_compare(const compared_group& g) {
  auto all = g.numbers;
  for (const std::string kind : {"quintile", "decile"}) {
    int i = 0;
    for (const auto& b : g.bins)
      if (b.kind == kind) {
        all.push_back(b.plasticity);
        all.back().name = kind + "_" + std::to_string(++i);
      }
  }
  return all;
}

}  // namespace detail

}  // namespace qkgeom
