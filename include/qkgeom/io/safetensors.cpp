// SPDX-License-Identifier: MIT
#include "qkgeom/io/safetensors.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "qkgeom/core/budget.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/utf8.hpp"

namespace qkgeom {

namespace detail {

/// A tensor in the header of a safetensors file, before it is checked against the file.
struct tensor_header {
  std::string name, dtype;
  std::vector<index_t> shape;
  std::vector<std::uint64_t> offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

}  // namespace detail

namespace {

using detail::tensor_header;

/// Content of the JSON header of a safetensors file.
struct safetensors_header {
  std::map<std::string, std::string> metadata;
  std::vector<tensor_header> tensors;
};

/// Reads the JSON header of a safetensors file event by event, without a document in memory. Throws `error` naming the
/// file on other types, deep nesting, long shapes or a repeated name. Skips unknown fields of a tensor.
class safetensors_header_reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit safetensors_header_reader(const std::string& file)
      : file_(file),
        entries_(max_entries, file + ": the header has more than " + std::to_string(max_entries) + " entries") {}

  std::map<std::string, std::string> metadata;
  std::vector<tensor_header> tensors;

  bool start_object(std::size_t) override {
    if (skipping()) return deeper();
    switch (state_) {
      case state::before:
        state_ = state::top;
        return true;
      case state::top:
        state_ = key_ == "__metadata__" ? state::metadata : state::tensor;
        if (state_ == state::tensor) tensors.emplace_back().name = key_;
        return true;
      default:
        unexpected("an object");
    }
  }
  bool end_object() override {
    if (skip_ > 0) return --skip_, true;
    if (state_ == state::tensor) finish_tensor();
    state_ = state_ == state::top ? state::after : state::top;
    return true;
  }
  bool start_array(std::size_t) override {
    if (skipping()) return deeper();
    if (state_ == state::tensor && key_ == "shape") return state_ = state::shape, true;
    if (state_ == state::tensor && key_ == "data_offsets") return state_ = state::offsets, true;
    unexpected("a list");
  }
  bool end_array() override {
    if (skip_ > 0) return --skip_, true;
    (state_ == state::shape ? tensors.back().has_shape : tensors.back().has_offsets) = true;
    state_ = state::tensor;
    return true;
  }
  bool key(std::string& name) override {
    if (skip_ > 0) return true;
    key_ = name;
    if (state_ == state::top || state_ == state::metadata) {
      entries_.spend(1);
      require(name.size() <= max_name_bytes, file_, ": the header has a name of ", name.size(),
              " bytes, more than the ", max_name_bytes, " allowed");
    }
    if (state_ == state::top) require(names_.insert(name).second, file_, ": the header names ", shown(name), " twice");
    if (state_ == state::metadata)
      require(metadata.emplace(name, std::string()).second, file_, ": the metadata name ", shown(name), " twice");
    if (state_ == state::tensor) {
      auto& t = tensors.back();
      require(!(name == "dtype" && t.has_dtype) && !(name == "shape" && t.has_shape) &&
                  !(name == "data_offsets" && t.has_offsets),
              file_, ": tensor ", shown(t.name), " has two fields ", name);
    }
    return true;
  }
  bool string(std::string& value) override {
    if (skipping()) return true;
    if (state_ == state::metadata) return metadata[key_] = std::move(value), true;
    if (state_ != state::tensor || key_ != "dtype") unexpected("a string");
    tensors.back().dtype = std::move(value);
    return tensors.back().has_dtype = true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (skipping()) return true;
    constexpr std::size_t max_rank = 64;
    if (state_ == state::shape) {
      auto& t = tensors.back();
      require(t.shape.size() < max_rank, file_, ": tensor ", shown(t.name), " has more than ", max_rank, " axes");
      require(value <= std::uint64_t{INT64_MAX}, file_, ": the shape of tensor ", shown(t.name), " holds ", value);
      t.shape.push_back(static_cast<index_t>(value));
    } else if (state_ == state::offsets) {
      auto& t = tensors.back();
      require(t.offsets.size() < 2, file_, ": data_offsets of tensor ", shown(t.name), " has more than two entries");
      t.offsets.push_back(value);
    } else {
      unexpected("a number");
    }
    return true;
  }
  bool number_integer(std::int64_t) override { return skipping() || unexpected("a negative number"); }
  bool number_float(double, const std::string&) override { return skipping() || unexpected("a fraction"); }
  bool null() override { return skipping() || unexpected("null"); }
  bool boolean(bool) override { return skipping() || unexpected("a truth value"); }
  bool binary(nlohmann::json::binary_t&) override { return skipping() || unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail(file_, ": the header is not valid JSON at byte ", position, " (not a safetensors file, or a damaged one)");
  }

  bool complete() const { return state_ == state::after; }

 private:
  static constexpr std::size_t max_entries = 1'000'000;  // tensors and metadata; each takes up to 500 bytes of memory
  enum class state { before, top, metadata, tensor, shape, offsets, after };

  /// Returns whether the reader is inside an unknown field of a tensor.
  bool skipping() const {
    return skip_ > 0 || (state_ == state::tensor && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets");
  }
  bool deeper() {
    require(++skip_ < 64, file_, ": the header is nested too deeply");
    return true;
  }
  [[noreturn]] bool unexpected(const char* what) const {
    if (state_ == state::before) fail(file_, ": the header is ", what, " where a safetensors file has an object");
    if (state_ == state::top) fail(file_, ": the header entry ", shown(key_), " is ", what, " instead of an object");
    if (state_ == state::metadata)
      fail(file_, ": the metadata field ", shown(key_), " is ", what, " instead of a string");
    fail(file_, ": ", key_, " of tensor ", shown(tensors.back().name), " holds ", what);
  }
  void finish_tensor() const {
    const auto& t = tensors.back();
    require(t.has_dtype && t.has_shape && t.has_offsets, file_, ": tensor ", shown(t.name), " has no ",
            !t.has_dtype   ? "dtype"
            : !t.has_shape ? "shape"
                           : "data_offsets");
    require(t.offsets.size() == 2, file_, ": data_offsets of tensor ", shown(t.name), " must have two entries, not ",
            t.offsets.size());
  }
  static std::string shown(const std::string& name) { return '"' + printable(name) + '"'; }

  const std::string& file_;
  std::string key_;
  budget entries_;
  std::set<std::string> names_;
  state state_ = state::before;
  int skip_ = 0;
};

/// Reads the JSON text of a header; throws `error` naming `file`.
safetensors_header read_safetensors_header(std::string_view text, const std::string& file) {
  const std::size_t nul = text.find('\0');  // the parser would take NUL for the end
  require(nul == std::string_view::npos, file, ": the header is not valid JSON at byte ", nul + 1, ", which is NUL");
  safetensors_header_reader reader(file);
  nlohmann::json::sax_parse(text, &reader);
  require(reader.complete(), file, ": the header is not a JSON object");
  return {std::move(reader.metadata), std::move(reader.tensors)};
}

}  // namespace

std::optional<std::size_t> safetensors_element_bits(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::size_t> sizes[] = {
      {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"BOOL", 8},        {"U8", 8},      {"I8", 8},
      {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E8M0", 8}, {"U16", 16},
      {"I16", 16},    {"F16", 16},    {"BF16", 16},       {"U32", 32},        {"I32", 32},    {"F32", 32},
      {"U64", 64},    {"I64", 64},    {"F64", 64},        {"C64", 64}};
  for (const auto& [name, bits] : sizes)
    if (name == dtype) return bits;
  return std::nullopt;
}

std::string shape_text(const std::vector<index_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ')';
}

std::optional<std::size_t> tensor_size(const std::vector<index_t>& shape, std::size_t element) {
  index_t size = static_cast<index_t>(element);
  bool fits = true;
  // A zero makes the tensor empty only if the axes before it did not overflow, as in the safetensors library.
  for (const index_t n : shape) fits = fits && n >= 0 && !__builtin_mul_overflow(size, n, &size);
  return fits ? std::optional(static_cast<std::size_t>(size)) : std::nullopt;
}

safetensors_file::safetensors_file(const std::filesystem::path& path) : file_(path) {
  const auto bytes = file_.bytes();
  const std::string name = file_.path().string();
  require_no_pointer({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name);
  require(bytes.size() >= 8, name, ": not a safetensors file: it has only ", bytes.size(), " bytes");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  require(length <= max_safetensors_header, name, ": not a safetensors file: its header would have ", length,
          " bytes, more than the ", max_safetensors_header, " allowed");
  require(length <= bytes.size() - 8, name, ": the file is cut short: its header has ", length,
          " bytes, the file only ", bytes.size() - 8, " after the length");
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + 8;
  require(length >= 2 && *text == '{', name, ": not a safetensors file: no JSON object follows the header length");
  auto header = read_safetensors_header({text, length}, name);
  metadata_ = std::move(header.metadata);
  place(std::move(header.tensors), bytes.subspan(8 + length));
}

const tensor_entry* safetensors_file::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

const tensor_entry& safetensors_file::at(std::string_view name) const {
  const tensor_entry* const entry = find(name);
  require(entry != nullptr, path().string(), ": there is no tensor ", name);
  return *entry;
}

void safetensors_file::place(std::vector<detail::tensor_header> headers, std::span<const std::byte> data) {
  const std::string file = path().string();
  for (const auto& t : headers) {
    const std::string name = '"' + printable(t.name) + '"';
    require(t.offsets[0] <= t.offsets[1] && t.offsets[1] <= data.size(), file, ": tensor ", name, " lies at bytes ",
            t.offsets[0], " to ", t.offsets[1], " of data that has ", data.size(),
            " (the file is cut short, or its header is wrong)");
    const auto element = safetensors_element_bits(t.dtype);
    require(element.has_value(), file, ": tensor ", name, " has the unknown dtype \"", printable(t.dtype), '"');
    const auto bits = tensor_size(t.shape, *element);
    require(bits.has_value(), file, ": tensor ", name, " of shape ", shape_text(t.shape), " is too large to exist");
    require(*bits % 8 == 0, file, ": tensor ", name, " of shape ", shape_text(t.shape), " and dtype ", t.dtype,
            " needs ", *bits, " bits, which are no whole bytes");
    require(*bits / 8 == t.offsets[1] - t.offsets[0], file, ": tensor ", name, " of shape ", shape_text(t.shape),
            " and dtype ", t.dtype, " needs ", *bits / 8, " bytes, but its data_offsets span ",
            t.offsets[1] - t.offsets[0]);
  }
  std::stable_sort(headers.begin(), headers.end(), [](const auto& a, const auto& b) { return a.offsets < b.offsets; });
  std::uint64_t end = 0;
  tensors_.reserve(headers.size());
  for (auto& t : headers) {
    const bool overlap = t.offsets[0] < end;
    require(t.offsets[0] == end, file, ": tensor \"", printable(t.name), "\" starts at byte ", t.offsets[0],
            overlap ? " inside the tensor before it, which ends at " : " and leaves a hole after byte ", end);
    end = t.offsets[1];
    tensors_.push_back({std::move(t.name), std::move(t.dtype), std::move(t.shape), data.data() + t.offsets[0],
                        t.offsets[1] - t.offsets[0]});
  }
  require(end == data.size(), file, ": the tensors end at byte ", end, " of ", data.size(), " bytes of data");
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

void write_safetensors(atomic_file& file, std::vector<tensor_to_write> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string target = file.path().string();
  const auto size = [&](const tensor_to_write& t) {
    const auto bits = safetensors_element_bits(t.dtype);
    require(bits.has_value(), "cannot write ", target, ": tensor ", t.name, " has the unknown dtype ", t.dtype);
    return *bits;
  };
  std::stable_sort(tensors.begin(), tensors.end(), [&](const auto& a, const auto& b) { return size(a) > size(b); });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::vector<std::size_t> ends;
  std::set<std::string> names{"__metadata__"};
  std::size_t end = 0;
  for (const auto& t : tensors) {
    const auto bits = tensor_size(t.shape, size(t));
    require(names.insert(t.name).second, "cannot write ", target, ": two tensors would be called ", t.name);
    require(bits.has_value() && *bits % 8 == 0 && (t.produce || t.data.size() == *bits / 8), "cannot write ", target,
            ": tensor ", t.name, " of shape ", shape_text(t.shape), " and dtype ", t.dtype, " was given ",
            t.data.size(), " bytes");
    header[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {end, end + *bits / 8}}};
    ends.push_back(end += *bits / 8);
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    fail("cannot write ", target, ": a tensor name or the metadata is not UTF-8");
  }
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' ');
  require(text.size() <= max_safetensors_header, "cannot write ", target, ": the header would have ", text.size(),
          " bytes");

  const std::uint64_t length = text.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  const std::size_t data_start = file.written();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].produce)
      tensors[i].produce([&](std::span<const std::byte> bytes) { file.write(bytes); });
    else
      file.write(tensors[i].data);
    require(file.written() - data_start == ends[i], "cannot write ", target, ": tensor ", tensors[i].name,
            " was given ", "a wrong number of bytes");
  }
}

std::string write_safetensors(const std::filesystem::path& path, std::vector<tensor_to_write> tensors,
                              const std::map<std::string, std::string>& metadata) {
  sha256 digest;
  atomic_file file(path);
  file.digest_into(digest);
  write_safetensors(file, std::move(tensors), metadata);
  file.commit();
  return digest.hex();
}

}  // namespace qkgeom
