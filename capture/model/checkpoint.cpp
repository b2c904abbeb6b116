// SPDX-License-Identifier: MIT
#include "capture/model/checkpoint.hpp"

#include <sys/stat.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/core/budget.hpp"
#include "qkgeom/core/scalar.hpp"
#include "qkgeom/io/json.hpp"
#include "qkgeom/io/sha256.hpp"

namespace qkgeom {
namespace {

/// Returns a tensor's name for errors; names of models are short enough to stay whole.
std::string shown(const std::string& name) { return printable(name, 200); }

template <class T>
T element(const std::byte* data, index_t i) {
  T x;
  std::memcpy(&x, data + i * static_cast<index_t>(sizeof(T)), sizeof(T));
  return x;
}

/// Returns the values of E4M3: sign, four bits of exponent (bias 7), three of fraction; no infinities, NaN is all ones.
const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> all{};
    for (int bits = 0; bits < 256; ++bits) {
      const int exponent = (bits >> 3) & 15, fraction = bits & 7;
      const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                       : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
      const bool none = exponent == 15 && fraction == 7;
      all[static_cast<std::size_t>(bits)] = none ? std::numeric_limits<float>::quiet_NaN() : bits & 128 ? -size : size;
    }
    return all;
  }();
  return values;
}

/// Rows and columns of a block that shares one scale; blocks at the edges are smaller.
constexpr index_t fp8_block = 128;

/// Multiplies rows of entries by their scales, one or one per block; returns whether all are finite.
bool widen_scaled(const tensor_entry& t, const tensor_entry& scales, index_t first, index_t count, index_t width,
                  bool to_bf16, float* out) {
  const auto& values = e4m3_values();
  const bool in_bf16 = scales.dtype == "BF16", one = tensor_size(scales.shape, 1) == 1;
  bool finite = true;
  for (index_t r = first; r < first + count; ++r)
    for (index_t begin = 0; begin < width; begin += fp8_block) {
      const index_t at = one ? 0 : r / fp8_block * scales.shape[1] + begin / fp8_block;
      const float scale =
          in_bf16 ? static_cast<float>(element<bf16>(scales.data, at)) : element<float>(scales.data, at);
      for (index_t c = begin; c < std::min(width, begin + fp8_block); ++c, ++out) {
        *out = values[element<std::uint8_t>(t.data, r * width + c)] * scale;
        if (to_bf16) *out = static_cast<float>(bf16::round(*out));
        finite = finite && std::isfinite(*out);
      }
    }
  return finite;
}

/// Widens `count` entries; returns whether all are finite.
template <class T>
bool widen(const std::byte* data, index_t first, index_t count, bool to_bf16, float* out) {
  // An exponent of all ones marks Inf and NaN; collecting the bits keeps the loop free of branches.
  std::uint32_t bad = 0;
  const bool round = to_bf16 && !std::is_same_v<T, bf16>;
  for (index_t i = 0; i < count; ++i) {
    float x = static_cast<float>(element<T>(data, first + i));
    if (round) x = static_cast<float>(bf16::round(x));
    bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(x) & 0x7f800000u) == 0x7f800000u);
    out[i] = x;
  }
  return bad == 0;
}

/// Widens rows of a tensor of a GGUF file, in transformers' order; returns whether all are finite.
bool widen_rows(const named_tensor& t, index_t first, index_t count, index_t width, bool to_bf16, float* out) {
  bool finite = true;
  t.widen(first, count, width, out);
  for (index_t i = 0; i < count * width; ++i) {
    finite = finite && std::isfinite(out[i]);
    if (to_bf16) out[i] = static_cast<float>(bf16::round(out[i]));
  }
  return finite;
}

/// Returns entry `i` of MXFP4 with an exponent per 32 entries. The lower half of a byte comes first.
float mxfp4(const std::byte* blocks, const std::byte* scales, index_t i) {
  const auto code = static_cast<unsigned>(blocks[i / 2]) >> (i % 2 * 4) & 15u;
  return mxfp4_scale(static_cast<unsigned>(scales[i / 32])) * mxfp4_values[code];
}

}  // namespace

checkpoint::checkpoint(const std::filesystem::path& model) : folder_(model) {
  const auto gguf = find_gguf(model);
  if (gguf.empty()) {
    read_folder();
    add_experts();
    return;
  }
  const gguf_model in_gguf(gguf);
  for (const auto& t : in_gguf.tensors()) {
    const auto& found = t.tensor;
    tensors_[t.name] = {{t.name, found.type->name, found.shape, found.data, found.bytes}, {}, t};
  }
}

void checkpoint::read_folder() {
  const auto& folder = folder_;
  const auto add = [&](const std::string& file, const auto& wanted) {
    const auto shard = std::make_shared<const safetensors_file>(folder / file);
    for (const auto& tensor : shard->tensors())
      if (wanted(tensor.name)) tensors_[tensor.name] = {tensor, shard, {}};
  };
  if (std::filesystem::exists(folder / "model.safetensors")) {
    add("model.safetensors", [](const std::string&) { return true; });
    return;
  }
  const auto index_path = folder / "model.safetensors.index.json";
  require(std::filesystem::exists(index_path), folder.string(),
          " has neither model.safetensors nor model.safetensors.index.json");
  const auto index = read_json(index_path, std::size_t{32} << 20);
  const json_value fields(index, index_path.string());
  const auto map = fields["weight_map"].object();
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, file] : map.raw().items()) {
    require(
        file.is_string() && file.template get<std::string>().find_first_of(std::string("/\0", 2)) == std::string::npos,
        index_path.string(), ": weight_map of ", printable(tensor), " must be the plain name of a file");
    shards[file.template get<std::string>()].push_back(tensor);
  }
  for (auto& shard : shards) {
    std::vector<std::string>& names = shard.second;
    std::sort(names.begin(), names.end());
    add(shard.first, [&](const std::string& name) { return std::binary_search(names.begin(), names.end(), name); });
  }
}

void checkpoint::add_experts() {
  const auto all = tensors_;
  budget parts(most_experts, "the checkpoint in " + folder_.string() + ": its tensors hold more than " +
                                 std::to_string(most_experts) + " matrices of experts");
  for (const auto& [name, s] : all) {
    const auto at = name.find(".experts.");
    if (at == name.npos) continue;
    const std::string before = name.substr(0, at + 9), what = name.substr(at + 9);
    const std::vector<index_t>& shape = s.entry.shape;
    const auto add = [&, &name = name, &s = s](index_t expert, const char* kind, std::vector<index_t> own,
                                               const expert_part& part) {
      stored one = s;
      one.entry.name = before + std::to_string(expert) + '.' + kind;
      one.entry.shape = std::move(own);
      one.part = part;
      if (part.scales) one.entry.dtype = "MXFP4";
      tensors_[one.entry.name] = std::move(one);
    };
    const bool both = what.starts_with("gate_up_proj"), down = what.starts_with("down_proj");
    const std::string kind = both ? what.substr(12) : down ? what.substr(9) : "none";
    const std::byte* scales = nullptr;
    if (kind == "_blocks") {
      const auto found = all.find(name.substr(0, name.size() - 6) + "scales");
      require(s.entry.dtype == "U8" && shape.size() == 4 && shape[3] == 16 && found != all.end() &&
                  found->second.entry.dtype == "U8" &&
                  found->second.entry.shape == std::vector<index_t>(shape.begin(), shape.end() - 1),
              "the checkpoint in ", folder_.string(), ": tensor ", shown(name),
              " must have the shape (experts, rows, blocks, 16) in U8, and one of scales (experts, rows, blocks)");
      scales = found->second.entry.data;
    } else if (!(kind.empty() && shape.size() == 3) && !(kind == "_bias" && shape.size() == 2)) {
      continue;
    }
    const bool halves = before.ends_with("feed_forward.experts.");
    const bool by_output = kind.empty() && !halves && !all.contains(before + "gate_up_proj_bias");
    require(shape[0] <= 65536 && (!both || shape[kind.empty() && !by_output ? 2 : 1] % 2 == 0), "the checkpoint in ",
            folder_.string(), ": tensor ", shown(name), " cannot have the shape ", shape_text(shape));
    parts.spend(static_cast<std::uint64_t>(both ? 2 * shape[0] : shape[0]));
    for (index_t e = 0; e < shape[0]; ++e) {
      if (kind == "_bias") {
        const index_t first = e * shape[1];
        if (down) add(e, "down_proj.bias", {shape[1]}, {first, 1, 0});
        if (both) add(e, "gate_proj.bias", {shape[1] / 2}, {first, 2, 0});
        if (both) add(e, "up_proj.bias", {shape[1] / 2}, {first + 1, 2, 0});
      } else if (scales) {
        const index_t rows = shape[1], width = shape[2] * 32, first = e * rows * width;
        if (down) add(e, "down_proj.weight", {rows, width}, {first, width, 1, scales});
        if (both) add(e, "gate_proj.weight", {rows / 2, width}, {first, 2 * width, 1, scales});
        if (both) add(e, "up_proj.weight", {rows / 2, width}, {first + width, 2 * width, 1, scales});
      } else if (by_output) {
        const index_t rows = shape[1], in = shape[2], first = e * rows * in;
        if (down) add(e, "down_proj.weight", {rows, in}, {first, in, 1});
        if (both) add(e, "gate_proj.weight", {rows / 2, in}, {first, in, 1});
        if (both) add(e, "up_proj.weight", {rows / 2, in}, {first + rows / 2 * in, in, 1});
      } else {
        const index_t in = shape[1], out = shape[2], first = e * in * out;
        const index_t second = halves ? out / 2 : 1, next = halves ? 1 : 2;
        if (down) add(e, "down_proj.weight", {out, in}, {first, 1, out});
        if (both) add(e, "gate_proj.weight", {out / 2, in}, {first, next, out});
        if (both) add(e, "up_proj.weight", {out / 2, in}, {first + second, next, out});
      }
    }
  }
}

bool checkpoint::read_part(const stored& t, index_t first, index_t count, index_t width, bool to_bf16,
                           float* out) const {
  const expert_part& p = *t.part;
  const std::byte* const data = t.entry.data;
  bool finite = true;
  const auto take = [&](const auto& entry_at) {
    for (index_t r = first; r < first + count; ++r)
      for (index_t c = 0; c < width; ++c, ++out) {
        *out = entry_at(p.first + r * p.row + c * p.column);
        if (to_bf16) *out = static_cast<float>(bf16::round(*out));
        finite = finite && std::isfinite(*out);
      }
  };
  if (p.scales)
    take([&](index_t i) { return mxfp4(data, p.scales, i); });
  else if (t.entry.dtype == "BF16")
    take([&](index_t i) { return static_cast<float>(element<bf16>(data, i)); });
  else if (t.entry.dtype == "F16")
    take([&](index_t i) { return static_cast<float>(element<f16>(data, i)); });
  else
    take([&](index_t i) { return element<float>(data, i); });
  return finite;
}

const checkpoint::stored& checkpoint::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  require(found != tensors_.end(), "the checkpoint in ", folder_.string(), " has no tensor ", shown(name));
  return found->second;
}

void checkpoint::check(const std::string& name, const std::vector<index_t>& shape) const {
  if (untrained_) return;
  const tensor_entry& t = entry(name);
  require(t.shape != std::vector<index_t>{0} || shape == t.shape, "the checkpoint in ", folder_.string(), ": tensor ",
          shown(name),
          " is empty, as ZeRO stage 3 writes weights that were not gathered: zero_to_fp32.py gathers them");
  require(t.shape == shape, "the checkpoint in ", folder_.string(), ": tensor ", shown(name), " must have shape ",
          shape_text(shape), " by config.json, not ", shape_text(t.shape));
  if (t.dtype == "F8_E4M3") scales_of(name);
  if (t.dtype == "F8_E4M3" || tensor(name).gguf || t.dtype == "MXFP4") return;
  require(t.dtype == "BF16" || t.dtype == "F16" || t.dtype == "F32", "the checkpoint in ", folder_.string(),
          ": tensor ", shown(name), " must be BF16, F16, F32 or F8_E4M3, not ", t.dtype);
}

/// Finds the scales of an FP8 tensor; their names say inverses, but they are multiplied.
const tensor_entry& checkpoint::scales_of(const std::string& name) const {
  const tensor_entry &t = entry(name), &s = entry(name + "_scale_inv");
  std::vector<index_t> blocks;
  for (const index_t n : t.shape) blocks.push_back((n + fp8_block - 1) / fp8_block);
  require((tensor_size(s.shape, 1) == 1 || (blocks.size() == 2 && s.shape == blocks)) &&
              (s.dtype == "BF16" || s.dtype == "F32"),
          "the checkpoint in ", folder_.string(), ": tensor ", shown(s.name),
          " must be one number, or one per block of ", fp8_block, " x ", fp8_block, ", ", shape_text(blocks),
          ", BF16 or F32, not ", s.dtype, " of shape ", shape_text(s.shape));
  return s;
}

bool checkpoint::has_fp8() const {
  return std::any_of(tensors_.begin(), tensors_.end(), [](const auto& t) { return t.second.entry.dtype == "F8_E4M3"; });
}

void checkpoint::read(const std::string& name, const std::vector<index_t>& shape, index_t first, index_t count,
                      bool to_bf16, float* out) const {
  if (untrained_) {
    const index_t width = row_size(shape), n = count * width;
    untrained_->read(name, shape.size() > 1, first * width, n, out);
    if (to_bf16) std::transform(out, out + n, out, [](float x) { return static_cast<float>(bf16::round(x)); });
    return;
  }
  check(name, shape);
  const tensor_entry& t = entry(name);
  require(first >= 0 && count >= 0 && first + count <= shape[0], "rows ", first, " to ", first + count, " of tensor ",
          shown(name), ", which has ", shape[0]);
  const index_t width = row_size(shape), n = count * width;
  const auto& gguf = tensor(name).gguf;
  const bool finite = tensor(name).part      ? read_part(tensor(name), first, count, width, to_bf16, out)
                      : gguf                 ? widen_rows(*gguf, first, count, width, to_bf16, out)
                      : t.dtype == "F8_E4M3" ? widen_scaled(t, scales_of(name), first, count, width, to_bf16, out)
                      : t.dtype == "BF16"    ? widen<bf16>(t.data, first * width, n, to_bf16, out)
                      : t.dtype == "F16"     ? widen<f16>(t.data, first * width, n, to_bf16, out)
                                             : widen<float>(t.data, first * width, n, to_bf16, out);
  if (finite) return;
  const float* bad = std::find_if(out, out + n, [](float x) { return !std::isfinite(x); });
  fail("the checkpoint in ", folder_.string(), ": tensor ", shown(name), " holds ", std::isnan(*bad) ? "NaN" : "Inf",
       " at entry ", first * width + (bad - out));
}

void checkpoint::read_bf16(const std::string& name, const std::vector<index_t>& shape, index_t first, index_t count,
                           bf16* out) const {
  const index_t width = row_size(shape), n = count * width;
  const auto* const t = untrained_ ? nullptr : &entry(name);
  if (t && t->dtype == "BF16" && !tensor(name).gguf && !tensor(name).part && t->shape == shape && first >= 0 &&
      count >= 0 && first + count <= shape[0]) {
    std::memcpy(out, t->data + first * width * static_cast<index_t>(sizeof(bf16)), n * sizeof(bf16));
    unsigned bad = 0;
    for (index_t i = 0; i < n; ++i) bad |= (out[i].bits & 0x7f80u) == 0x7f80u;
    if (!bad) return;
  }
  // `read` handles the other types and reports errors.
  std::vector<float> rows(n);
  read(name, shape, first, count, true, rows.data());
  std::transform(rows.begin(), rows.end(), out, bf16::round);
}

std::string checkpoint::name_behind(const std::string& ending) const {
  for (const auto& [name, s] : tensors_)
    if (name.size() > ending.size() && name.ends_with('.' + ending)) return name;
  return {};
}

std::string checkpoint::fingerprint(thread_pool& pool) const {
  if (untrained_) return untrained_->fingerprint();
  constexpr std::size_t piece = std::size_t{8} << 20;
  std::vector<std::pair<const stored*, std::size_t>> pieces;  // with the first byte
  for (const auto& [name, s] : tensors_)
    for (std::size_t first = 0; !s.part && first < s.entry.bytes; first += piece) pieces.emplace_back(&s, first);
  std::vector<std::string> digests(pieces.size());
  pool.for_each(static_cast<index_t>(pieces.size()), [&](index_t i, int) {
    const auto [s, first] = pieces[static_cast<std::size_t>(i)];
    const std::size_t n = std::min(piece, s->entry.bytes - first);
    digests[static_cast<std::size_t>(i)] = sha256().add(std::span(s->entry.data + first, n)).hex();
    if (first + n == s->entry.bytes) forget(*s);
  });
  sha256 hash;
  auto digest = digests.begin();
  for (const auto& [name, s] : tensors_) {
    if (s.part) continue;  // of another tensor
    const tensor_entry& t = s.entry;
    hash.add(name + ' ' + t.dtype + ' ' + shape_text(t.shape) + ' ' + std::to_string(t.bytes) + '\n');
    for (std::size_t first = 0; first < t.bytes; first += piece) hash.add(*digest++);
  }
  return hash.hex();
}

std::string checkpoint::file_stamps() const {
  std::set<std::filesystem::path> files;
  for (const auto& [name, s] : tensors_) files.insert(s.gguf ? s.gguf->file->path() : s.file->path());
  std::string stamps;
  for (const auto& path : files) {
    struct stat info {};
    require(::stat(path.c_str(), &info) == 0, "cannot read ", path.string(), ": ", std::strerror(errno));
    stamps += path.filename().string();
    for (const auto n :
         {static_cast<std::intmax_t>(info.st_size), static_cast<std::intmax_t>(info.st_ino),
          static_cast<std::intmax_t>(info.st_mtim.tv_sec), static_cast<std::intmax_t>(info.st_mtim.tv_nsec),
          static_cast<std::intmax_t>(info.st_ctim.tv_sec), static_cast<std::intmax_t>(info.st_ctim.tv_nsec)})
      stamps += ' ' + std::to_string(n);
    stamps += '\n';
  }
  return stamps;
}

void checkpoint::forget(const std::string& name) const {
  if (!untrained_) forget(tensor(name));
}

void checkpoint::replace_rows(const std::string& name, index_t first, index_t count, const checkpoint& from,
                              const std::string& from_name) {
  const auto plain = [](const checkpoint& c, const std::string& of) -> const tensor_entry& {
    require(!c.untrained_, "weights that are drawn have no rows to replace");
    const stored& t = c.tensor(of);
    require(!t.gguf && !t.part && (t.entry.dtype == "BF16" || t.entry.dtype == "F16" || t.entry.dtype == "F32"),
            "the checkpoint in ", c.folder_.string(), ": rows of tensor ", shown(of),
            " cannot be replaced: it must be BF16, F16 or F32 of safetensors, not ", t.entry.dtype,
            t.gguf ? " of GGUF" : "");
    return t.entry;
  };
  const tensor_entry& source = plain(from, from_name);
  const tensor_entry& old = plain(*this, name);
  require(old.shape == source.shape && old.dtype == source.dtype, "tensor ", shown(name), " is ", old.dtype, ' ',
          shape_text(old.shape), " in ", folder_.string(), " and ", source.dtype, ' ', shape_text(source.shape), " in ",
          from.folder_.string());
  require(first >= 0 && count >= 0 && first + count <= old.shape[0], "rows ", first, " to ", first + count,
          " of tensor ", shown(name), ", which has ", old.shape[0]);
  stored& t = tensors_.at(name);
  if (t.own.use_count() != 1) {  // no copy yet, or another checkpoint's too
    t.own = std::make_shared<std::vector<std::byte>>(t.entry.data, t.entry.data + t.entry.bytes);
    t.entry.data = t.own->data();
  }
  const std::size_t row = t.entry.bytes / static_cast<std::size_t>(t.entry.shape[0]);
  std::memcpy(t.own->data() + static_cast<std::size_t>(first) * row,
              source.data + static_cast<std::size_t>(first) * row, static_cast<std::size_t>(count) * row);
}

void checkpoint::write(const std::filesystem::path& path) const {
  std::vector<tensor_to_write> list;
  for (const auto& [name, s] : tensors_)
    if (!s.part) list.push_back({name, s.entry.dtype, s.entry.shape, std::span(s.entry.data, s.entry.bytes)});
  write_safetensors(path, std::move(list), {{"format", "pt"}});
}

void checkpoint::forget(const stored& t) const {
  if (t.own) return;
  if (!t.gguf) return t.file->forget(t.entry);
  t.gguf->file->forget(t.gguf->tensor);
  if (const auto& values = t.gguf->values) values->file->forget(values->tensor);
}

}  // namespace qkgeom
