// SPDX-License-Identifier: MIT
#include "qkgeom/io/npy.hpp"

#include <charconv>
#include <cstdint>
#include <string_view>

namespace qkgeom {

namespace detail {

/// Reads the header of a NumPy file, a Python dictionary of three fields. xtensor's reader trusts its input and reads
/// lengths as signed.
class npy_header_reader {
 public:
  npy_header_reader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  npy_header read() {
    npy_header h;
    bool type = false, order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      bool& seen = key == "descr" ? type : key == "fortran_order" ? order : key == "shape" ? shape : (wrong(), type);
      if (std::exchange(seen, true)) wrong();
      if (key == "descr") h.type = quoted();
      if (key == "fortran_order") h.column_major = truth();
      if (key == "shape") h.shape = tuple();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (!type || !order || !shape || at_ != text_.size()) wrong();
    return h;
  }

 private:
  [[noreturn]] void wrong() const { fail(where_, ": the NumPy header is damaged at byte ", at_); }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    return ++at_, true;
  }
  void expect(char c) {
    if (!take(c)) wrong();
  }
  std::string quoted() {
    const char quote = take('\'') ? '\'' : take('"') ? '"' : (wrong(), ' ');
    const auto end = text_.find(quote, at_);
    if (end == std::string_view::npos) wrong();
    const std::string value(text_.substr(at_, end - at_));
    at_ = end + 1;
    return value;
  }
  bool truth() {
    skip_spaces();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (text_.substr(at_, word.size()) == word) return at_ += word.size(), value;
    wrong();
  }
  std::vector<std::size_t> tuple() {
    std::vector<std::size_t> values;
    expect('(');
    while (!take(')')) {
      skip_spaces();
      std::int64_t n = 0;
      const auto result = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
      if (result.ec != std::errc() || n < 0 || values.size() == 32) wrong();
      at_ = result.ptr - text_.data();
      values.push_back(n);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
};

std::pair<npy_header, std::size_t> read_npy_header(const mapped_file& file, const std::string& where) {
  const auto bytes = file.bytes();
  require(bytes.size() >= 12 && std::memcmp(bytes.data(), "\x93NUMPY", 6) == 0, where, ": not a NumPy file");
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(bytes[i]); };
  require(byte(6) >= 1 && byte(6) <= 3, where, ": NumPy format version ", byte(6), " is not known");
  const bool short_length = byte(6) == 1;
  const std::size_t start = short_length ? 10 : 12;
  const std::size_t length = byte(8) | byte(9) << 8 | (short_length ? 0 : byte(10) << 16 | byte(11) << 24);
  require(length <= bytes.size() - start, where, ": the file is cut short: its header has ", length, " bytes");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + start, length);
  return {npy_header_reader(text, where).read(), start + length};
}

}  // namespace detail

}  // namespace qkgeom
