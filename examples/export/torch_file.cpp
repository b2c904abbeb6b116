// SPDX-License-Identifier: MIT
#include "examples/export/exports.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom::examples {
namespace {

template <class Integer>
void add_little(std::string& to, Integer x) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof x];
  std::memcpy(bytes, &x, sizeof x);
  to.append(bytes, sizeof x);
}

std::uint32_t crc32(const std::string& bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = (t[i] >> 1) ^ (t[i] & 1 ? 0xEDB88320u : 0);
    }
    return t;
  }();
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 255];
  return ~crc;
}

/// Pickles values with protocol 2. All tensors are parts of one storage.
class pickler {
 public:
  pickler() { out_ = "\x80\x02"; }

  void add(const torch_value& v) {
    std::visit([&](const auto& x) { put(x); }, v.held);
  }
  std::string finish() { return out_ + '.'; }
  const std::vector<float>& storage() const { return storage_; }
  /// Elements of all tensors, which each of them must state before they are all known.
  void set_storage_size(index_t n) { size_ = n; }

 private:
  void put(bool x) { out_ += x ? '\x88' : '\x89'; }
  void put(index_t x) {
    if (x >= std::numeric_limits<std::int32_t>::min() && x <= std::numeric_limits<std::int32_t>::max()) {
      out_ += 'J';
      add_little(out_, static_cast<std::int32_t>(x));
    } else {
      out_ += "\x8a\x08";  // LONG1 of eight bytes
      add_little(out_, static_cast<std::int64_t>(x));
    }
  }
  void put(double x) {
    out_ += 'G';  // big-endian
    std::string bytes;
    add_little(bytes, std::bit_cast<std::uint64_t>(x));
    out_.append(bytes.rbegin(), bytes.rend());
  }
  void put(const std::string& x) {
    out_ += 'X';
    add_little(out_, static_cast<std::uint32_t>(x.size()));
    out_ += x;
  }
  void put(const torch_value::list& x) {
    out_ += "](";
    for (const auto& v : x) add(v);
    out_ += 'e';
  }
  void put(const torch_value::dict& x) {
    out_ += "}(";
    for (const auto& [name, v] : x) {
      put(name);
      add(v);
    }
    out_ += 'u';
  }
  /// torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks)
  void put(const std::vector<float>& x) {
    const auto offset = static_cast<index_t>(storage_.size());
    storage_.insert(storage_.end(), x.begin(), x.end());
    out_ += "ctorch._utils\n_rebuild_tensor_v2\n((";
    put(std::string("storage"));
    out_ += "ctorch\nFloatStorage\n";
    put(std::string("0"));
    put(std::string("cpu"));
    put(size_);
    out_ += "tQ";  // the tuple is a persistent id
    put(offset);
    put(static_cast<index_t>(x.size()));
    out_ += '\x85';  // (size,)
    put(index_t{1});
    out_ += '\x85';  // (stride,)
    put(false);
    out_ += "ccollections\nOrderedDict\n)RtR";
  }

  std::string out_;
  std::vector<float> storage_;
  index_t size_ = 0;
};

/// A zip whose entries are stored as they are, each at a multiple of 64 bytes, as torch places them.
class stored_zip {
 public:
  void add(const std::string& name, const std::string& bytes) {
    constexpr std::size_t head = 30, alignment = 64;
    const std::size_t plain = out_.size() + head + name.size() + 4;
    const auto padding = static_cast<std::uint16_t>((alignment - plain % alignment) % alignment);
    const auto extra = static_cast<std::uint16_t>(4 + padding);
    const auto at = static_cast<std::uint32_t>(out_.size());
    std::string fields;                           // those that the local header and the directory share
    add_little(fields, std::uint16_t{0});         // flags
    add_little(fields, std::uint16_t{0});         // stored
    add_little(fields, std::uint32_t{0x210000});  // midnight of 1 January 1980, the first that zip knows
    add_little(fields, crc32(bytes));
    add_little(fields, static_cast<std::uint32_t>(bytes.size()));
    add_little(fields, static_cast<std::uint32_t>(bytes.size()));
    add_little(fields, static_cast<std::uint16_t>(name.size()));
    out_ += "PK\x03\x04";
    add_little(out_, std::uint16_t{20});
    out_ += fields;
    add_little(out_, extra);
    out_ += name + "FB";  // the padding is an extra field of that name
    add_little(out_, padding);
    out_.append(padding, 'Z');
    out_ += bytes;
    directory_ += "PK\x01\x02";
    add_little(directory_, std::uint16_t{20});
    add_little(directory_, std::uint16_t{20});
    directory_ += fields;
    directory_.append(2 + 2 + 2 + 2 + 4, '\0');  // no extra field, no comment, disk 0, no attributes
    add_little(directory_, at);
    directory_ += name;
    ++entries_;
  }
  std::string finish() {
    const auto at = static_cast<std::uint32_t>(out_.size());
    out_ += directory_ + "PK\x05\x06";
    add_little(out_, std::uint32_t{0});  // disks
    add_little(out_, entries_);
    add_little(out_, entries_);
    add_little(out_, static_cast<std::uint32_t>(directory_.size()));
    add_little(out_, at);
    add_little(out_, std::uint16_t{0});
    return std::move(out_);
  }

 private:
  std::string out_, directory_;
  std::uint16_t entries_ = 0;
};

index_t tensor_elements(const torch_value& v) {
  index_t n = 0;
  if (const auto* t = std::get_if<std::vector<float>>(&v.held)) n = static_cast<index_t>(t->size());
  if (const auto* l = std::get_if<torch_value::list>(&v.held))
    for (const auto& x : *l) n += tensor_elements(x);
  if (const auto* d = std::get_if<torch_value::dict>(&v.held))
    for (const auto& x : *d) n += tensor_elements(x.second);
  return n;
}

}  // namespace

void write_torch(const std::filesystem::path& path, const torch_value& value) {
  pickler p;
  p.set_storage_size(tensor_elements(value));
  p.add(value);
  const std::string pickle = p.finish();
  const std::size_t bytes = p.storage().size() * sizeof(float);
  require(bytes + 2 * pickle.size() < std::numeric_limits<std::uint32_t>::max() - (1u << 16), path.string(),
          " would take more than the 4 GB that its format allows");
  const std::string folder = path.stem().string() + '/';
  stored_zip zip;
  zip.add(folder + "data.pkl", pickle);
  zip.add(folder + "byteorder", "little");
  std::string storage(bytes, '\0');
  if (bytes > 0) std::memcpy(storage.data(), p.storage().data(), bytes);
  zip.add(folder + "data/0", storage);
  zip.add(folder + "version", "3\n");
  write_text(path, zip.finish());
}

}  // namespace qkgeom::examples
