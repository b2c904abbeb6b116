// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/utf8.hpp"

namespace qkgeom {

QKGEOM_INLINE std::string printable(std::string_view text, std::size_t longest) {
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t skip = 0;
    const std::size_t n = well_formed_size(text, i, &skip);
    if (i + (n ? n : skip) > longest) return shown + "...";
    const auto byte = [&](std::size_t j) { return static_cast<unsigned char>(text[j]); };
    const bool control = n == 1 ? byte(i) < 0x20 || byte(i) == 0x7f : n == 2 && byte(i) == 0xc2 && byte(i + 1) < 0xa0;
    if (n == 0 || control)
      shown += '?';
    else
      shown.append(text, i, n);
    i += n ? n : skip;
  }
  return shown;
}

}  // namespace qkgeom
