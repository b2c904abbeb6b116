// SPDX-License-Identifier: MIT
#include "examples/common/figures/characters.hpp"

#include <algorithm>
#include <cstddef>

#include "qkgeom/core/utf8.hpp"

namespace qkgeom::examples {

char32_t code_point(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  char32_t code = character.size() == 1 ? lead : lead & (0x7fu >> character.size());
  for (const char c : character.substr(1)) code = (code << 6) | (static_cast<unsigned char>(c) & 0x3fu);
  return code;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> all;
  for (std::size_t i = 0, skip = 0; i < text.size(); i += all.back().size())
    all.push_back(text.substr(i, std::max<std::size_t>(1, well_formed_size(text, i, &skip))));
  return all;
}

}  // namespace qkgeom::examples
