// SPDX-License-Identifier: MIT
#include "capture/gguf/gguf_file.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <regex>
#include <span>

#include "qkgeom/core/budget.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

constexpr index_t most_tensors = 1 << 20, most_keys = 1 << 16, longest_name = 1024;
constexpr std::uint64_t most_values = std::uint64_t{1} << 22;  // entries of all arrays of the metadata
constexpr std::size_t longest_text = std::size_t{64} << 20;    // bytes of a string

class reader {
 public:
  reader(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  std::size_t at() const { return at_; }
  template <class T>
  T take() {
    need(sizeof(T));
    T x;
    std::memcpy(&x, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return x;
  }
  std::string text(std::size_t longest) {
    const auto n = take<std::uint64_t>();
    require(n <= longest, where_, ": a string of ", n, " bytes is longer than ", longest);
    need(n);
    std::string s(reinterpret_cast<const char*>(bytes_.data() + at_), n);
    at_ += n;
    return s;
  }
  /// Reads a count of items that take `least` bytes each.
  index_t count(const char* what, index_t most, std::size_t least) {
    const auto n = take<std::int64_t>();
    require(n >= 0 && n <= most && static_cast<std::size_t>(n) <= (bytes_.size() - at_) / least, where_, ": ", n, ' ',
            what, " do not fit");
    return n;
  }
  json value(std::uint32_t type, budget& values) {
    switch (type) {
      case 0:
        return take<std::uint8_t>();
      case 1:
        return take<std::int8_t>();
      case 2:
        return take<std::uint16_t>();
      case 3:
        return take<std::int16_t>();
      case 4:
        return take<std::uint32_t>();
      case 5:
        return take<std::int32_t>();
      case 6:
        return take<float>();
      case 7:
        return take<std::uint8_t>() != 0;
      case 8:
        return text(longest_text);
      case 10:
        return take<std::uint64_t>();
      case 11:
        return take<std::int64_t>();
      case 12:
        return take<double>();
      case 9:
        return list(values);
      default:
        fail(where_, ": a value has the type ", type, ", which GGUF does not know");
    }
  }

 private:
  json list(budget& values) {
    const auto of = take<std::uint32_t>();
    require(of != 9, where_, ": an array of arrays");
    const index_t n = count("values of an array", std::numeric_limits<index_t>::max(), 1);
    values.spend(static_cast<std::uint64_t>(n));
    json list = json::array();
    for (index_t i = 0; i < n; ++i) list.push_back(value(of, values));
    return list;
  }
  void need(std::size_t n) const { require(n <= bytes_.size() - at_, where_, ": the file ends within its header"); }

  std::span<const std::byte> bytes_;
  const std::string& where_;
  std::size_t at_ = 0;
};

/// Reads the tensor at the cursor; `expected` is its offset from the data, and becomes the next one's.
gguf_tensor read_tensor(reader& r, const std::string& where, std::uint64_t alignment, std::uint64_t& expected) {
  gguf_tensor t;
  t.name = r.text(longest_name);
  const auto dimensions = r.take<std::uint32_t>();
  require(dimensions >= 1 && dimensions <= 4, where, ": tensor ", printable(t.name), " has ", dimensions,
          " dimensions");
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto n = r.take<std::int64_t>();
    require(n > 0, where, ": tensor ", printable(t.name), " has a dimension of ", n);
    t.shape.insert(t.shape.begin(), n);
  }
  const auto id = r.take<std::uint32_t>();
  try {
    t.type = &find_block_type(id);
  } catch (const error& e) {
    fail(where, ": tensor ", printable(t.name), ": ", e.what());
  }
  require(t.shape.back() % t.type->elements == 0, where, ": tensor ", printable(t.name), " has rows of ",
          t.shape.back(), " entries, not whole blocks of ", t.type->elements);
  index_t rows = 1;
  for (std::size_t i = 0; i + 1 < t.shape.size(); ++i) rows = saturated_product({rows, t.shape[i]});
  const index_t bytes = saturated_product({rows, t.shape.back() / t.type->elements, t.type->bytes});
  require(bytes < std::numeric_limits<index_t>::max() / 2, where, ": tensor ", printable(t.name), " is too large");
  t.bytes = static_cast<std::size_t>(bytes);
  const auto offset = r.take<std::uint64_t>();
  require(offset == expected, where, ": tensor ", printable(t.name), " lies at ", offset, ", not at ", expected,
          ", behind the one before it");
  expected += (t.bytes + alignment - 1) / alignment * alignment;
  return t;
}

}  // namespace

gguf_file::gguf_file(const std::filesystem::path& path) : file_(path) {
  const std::string where = path.string();
  reader r(file_.bytes(), where);
  require(is_one(path), where, " is not a GGUF file");
  r.take<std::uint32_t>();
  const auto version = r.take<std::uint32_t>();
  require((version & 0xffffu) != 0, where, ": the file is big-endian, which is not supported");
  require(version == 2 || version == 3, where, ": GGUF version ", version, " is not supported; supported: 2, 3");
  const index_t n_tensors = r.count("tensors", most_tensors, 24), n_keys = r.count("keys", most_keys, 13);
  budget values(most_values,
                where + ": the metadata hold more than " + std::to_string(most_values) + " values in arrays");
  for (index_t i = 0; i < n_keys; ++i) {
    const std::string key = r.text(longest_name);
    require(!key.empty() && !metadata_.contains(key), where, ": the key '", printable(key),
            "' is empty or there twice");
    const auto type = r.take<std::uint32_t>();
    metadata_[key] = r.value(type, values);
  }
  std::uint64_t alignment = 32;
  if (metadata_.contains("general.alignment"))
    alignment = json_value(metadata_["general.alignment"], where, "general.alignment").integer(1, 1 << 20);
  require(std::has_single_bit(alignment), where, ": general.alignment is ", alignment, ", not a power of two");
  std::vector<std::pair<gguf_tensor, std::uint64_t>> found;  // with offsets
  std::uint64_t end = 0;
  for (index_t i = 0; i < n_tensors; ++i) {
    const auto offset = end;
    found.emplace_back(read_tensor(r, where, alignment, end), offset);
  }
  const std::uint64_t start = (r.at() + alignment - 1) / alignment * alignment;
  const std::uint64_t size = file_.bytes().size();
  if (!found.empty() && size > start && size - start > end) {
    const auto rest = file_.bytes().subspan(start + end);
    require(std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{}; }), where, ": ",
            rest.size(), " bytes follow the last tensor, which no tensor has");
    padding_ = rest.size();
  }
  for (auto& [t, offset] : found) {
    require(start <= size && offset <= size - start && t.bytes <= size - start - offset, where,
            ": the file ends within tensor ", printable(t.name), "; it may be cut short");
    t.data = file_.bytes().data() + start + offset;
    const std::string name = t.name;
    require(tensors_.emplace(name, std::move(t)).second, where, ": tensor ", printable(name), " is there twice");
  }
}

bool gguf_file::is_one(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  file.read(magic, 4);
  return file && std::memcmp(magic, "GGUF", 4) == 0;
}

std::vector<std::filesystem::path> parts_of_gguf(const std::filesystem::path& first) {
  static const std::regex name("(.*-)([0-9]{5})-of-([0-9]{5})\\.gguf");
  std::smatch m;
  const std::string file = first.filename().string();
  if (!std::regex_match(file, m, name)) return {first};
  const int own = std::stoi(m[2]), parts = std::stoi(m[3]);
  require(own >= 1 && own <= parts, first.string(), ": there is no part ", own, " of ", parts);
  std::vector<std::filesystem::path> all;
  for (int i = 1; i <= parts; ++i) {
    char number[16];
    std::snprintf(number, sizeof number, "%05d", i);
    all.push_back(first.parent_path() / (m[1].str() + number + "-of-" + m[3].str() + ".gguf"));
    require(std::filesystem::exists(all.back()), first.string(), " is one of ", parts, " parts; ", all.back().string(),
            " is missing");
  }
  return all;
}

}  // namespace qkgeom
