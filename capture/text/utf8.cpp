// SPDX-License-Identifier: MIT
#include "capture/text/utf8.hpp"

namespace qkgeom {

std::size_t character_start(std::string_view text, std::size_t end, std::size_t low) {
  std::size_t i = end - 1;
  while (i > low && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) --i;
  return i;
}

char32_t utf8_at(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t j) { return static_cast<unsigned char>(text[j]); };
  const std::size_t n = utf8_size(byte(i));
  if (n == 1 || i + n > text.size()) return byte(i);
  char32_t c = byte(i) & (0x7fu >> n);
  for (std::size_t j = 1; j < n; ++j) c = (c << 6) | (byte(i + j) & 0x3fu);
  return c;
}

std::string replace_ill_formed(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0, skip = 0; i < text.size();) {
    const std::size_t n = well_formed_size(text, i, &skip);
    if (n > 0)
      out.append(text, i, n);
    else
      append_utf8(out, 0xfffd);
    i += n > 0 ? n : skip;
  }
  return out;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

std::size_t space_before(std::string_view text, std::size_t low, std::size_t end) {
  while (end > low) {
    const std::size_t i = character_start(text, end, low);
    if (!is_space(utf8_at(text, i))) break;
    end = i;
  }
  return end;
}

std::size_t space_after(std::string_view text, std::size_t i) {
  while (i < text.size() && is_space(utf8_at(text, i))) i += utf8_size_at(text, i);
  return i;
}

}  // namespace qkgeom
