// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <type_traits>

#include "qkgeom/core/config.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom {

namespace detail {

allowed_documents allowed_by(const capture_manifest& manifest, const std::optional<std::vector<index_t>>& numbers) {
  std::map<index_t, index_t> tokens;
  if (manifest.documents)
    for (const captured_document& d : *manifest.documents) tokens.emplace(d.index, d.tokens);
  std::vector<allowed_document> list;
  if (numbers) {
    for (const index_t n : *numbers) {
      const auto known = tokens.find(n);
      list.push_back({n, known == tokens.end() ? manifest.context_length : known->second});
    }
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
    return list;
  }
  if (!manifest.documents) return std::nullopt;
  for (const auto& [number, count] : tokens) list.push_back({number, count});
  return list;
}

void check_rows(const std::string& file, const std::string& tensor, int32_view position, int32_view document,
                index_t context_length, const allowed_documents& allowed) {
  index_t tokens = context_length;
  for (index_t i = 0; i < position.size; ++i) {
    const bool new_document = i == 0 || document[i] != document[i - 1];
    if (new_document) {
      bool listed = document[i] >= 0;
      if (allowed && listed) {
        const auto at = std::lower_bound(allowed->begin(), allowed->end(), index_t{document[i]},
                                         [](const allowed_document& d, index_t n) { return d.number < n; });
        listed = at != allowed->end() && at->number == document[i];
        if (listed) tokens = at->tokens;
      }
      require(listed, file, ": tensor ", tensor, ".example row ", i, ": the manifest lists no example ", document[i],
              " here");
      require(i == 0 || document[i] > document[i - 1], file, ": tensor ", tensor, ".example row ", i, ": example ",
              document[i], " follows ", i ? document[i - 1] : 0, ", but rows must be in (example, position) order");
    }
    require(position[i] >= 0 && position[i] < context_length, file, ": tensor ", tensor, ".position row ", i,
            ": position ", position[i], " is not in [0, ", context_length, "), the context length");
    require(position[i] < tokens, file, ": tensor ", tensor, ".position row ", i, ": position ", position[i],
            " lies past the end of example ", document[i], ", which has ", tokens, " tokens by the manifest");
    require(new_document || position[i] >= position[i - 1], file, ": tensor ", tensor, ".position row ", i,
            ": position ", position[i], " follows ", i ? position[i - 1] : 0, " in example ", document[i],
            ", but rows must be in (example, position) order");
  }
}

captured_side join(std::vector<captured_side> shards, const std::string& where) {
  if (shards.size() == 1) return std::move(shards.front());
  captured_side all = shards.front();
  std::size_t bytes = 0;
  index_t rows = 0;
  bool tokens = true;
  for (const auto& shard : shards) {
    require(shard.element == all.element, shard.file, ": tensor ", shard.tensor, " has dtype ", name_of(shard.element),
            ", but ", name_of(all.element), " in ", all.file);
    bytes += shard.bytes();
    rows += shard.rows;
    tokens = tokens && shard.token.size == shard.rows;
  }
  require(rows <= largest_position, where, ": tensor ", all.tensor, " has more rows than 32 bits count");
  const auto data = std::make_shared<std::vector<std::byte>>();
  const auto position = std::make_shared<std::vector<std::int32_t>>();
  const auto document = std::make_shared<std::vector<std::int32_t>>();
  const auto token = std::make_shared<std::vector<std::int32_t>>();
  data->reserve(bytes);
  for (const auto& shard : shards) {
    require(document->empty() || shard.rows == 0 || shard.document[0] > document->back(), shard.file, ": tensor ",
            shard.tensor, " starts with example ", shard.rows ? shard.document[0] : 0,
            " where the shards before it end with ", document->empty() ? 0 : document->back(),
            ", but rows must be in (example, position) order");
    data->insert(data->end(), shard.data, shard.data + shard.bytes());
    position->insert(position->end(), shard.position.begin(), shard.position.end());
    document->insert(document->end(), shard.document.begin(), shard.document.end());
    if (tokens) token->insert(token->end(), shard.token.begin(), shard.token.end());
  }
  const auto view = [](const auto& v) { return int32_view{v->data(), static_cast<index_t>(v->size())}; };
  all.file = where;
  all.rows = rows;
  all.data = data->data();
  all.position = view(position), all.document = view(document), all.token = view(token);
  all.owners = {data, position, document, token};
  return all;
}

}  // namespace detail

namespace {

using detail::allowed_by, detail::allowed_documents, detail::check_rows, detail::int32_view;

/// Returns whether all of n elements are finite. If all bits of an exponent are set, the value is NaN or infinite: a
/// full exponent plus its lowest bit carries into the sign bit, a loop of integer operations without an exit or a
/// comparison, which compilers vectorise.
template <class T>
bool all_finite(const T* x, index_t n) {
  using wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  using bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, wide>;
  constexpr int digits = std::is_same_v<T, bf16> ? 7 : sizeof(T) == 2 ? 10 : std::numeric_limits<T>::digits - 1;
  constexpr auto lowest = static_cast<bits>(bits{1} << digits);
  constexpr auto mask = static_cast<bits>(static_cast<bits>(~bits{0}) / 2 - lowest + 1);
  bits seen = 0;
  for (index_t i = 0; i < n; ++i)
    seen = static_cast<bits>(seen | static_cast<bits>((std::bit_cast<bits>(x[i]) & mask) + lowest));
  return seen >> (8 * sizeof(bits) - 1) == 0;
}

/// Throws `error` naming tensor and head if values of a head have a size that f64 sums do not accept (`takes_size`).
void check_sizes(const captured_side& side) {
  const double* const data = reinterpret_cast<const double*>(side.data);
  for (index_t h = 0; h < side.heads; ++h) {
    double largest = 0;
    for (index_t i = 0; i < side.rows; ++i)
      for (index_t c = 0; c < side.dim; ++c)
        largest = std::max(largest, std::abs(data[(i * side.heads + h) * side.dim + c]));
    require(takes_size(largest), side.file, ": tensor ", side.tensor, " holds values up to ", largest, " at head ", h,
            " of the tensor, but sizes must lie between ", smallest_size, " and ", largest_size, "; scale the rows");
  }
}

/// Reads integers of a shard as 32-bit ones: in place if the file has I32 and is aligned, else copied.
int32_view read_integers(const std::shared_ptr<const safetensors_file>& file, const tensor_entry& entry,
                         std::vector<std::shared_ptr<const void>>& owners) {
  const std::string where = file->path().string() + ": tensor " + entry.name;
  if (entry.dtype == "I32") {
    const auto values = std::make_shared<const tensor_values<std::int32_t>>(file->values<std::int32_t>(entry));
    owners.push_back(values);
    return {values->data(), static_cast<index_t>(values->size())};
  }
  require(entry.dtype == "I64", where, " must have dtype I32 or I64, not ", printable(entry.dtype));
  const auto wide = file->values<std::int64_t>(entry);
  auto values = std::make_shared<std::vector<std::int32_t>>(wide.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    require(wide[i] >= INT32_MIN && wide[i] <= INT32_MAX, where, " row ", i, ": ", wide[i], " does not fit in 32 bits");
    (*values)[i] = static_cast<std::int32_t>(wide[i]);
  }
  owners.push_back(values);
  return {values->data(), static_cast<index_t>(values->size())};
}

/// Reads the row vector `<tensor>.<kind>` of a shard, which must have `rows` entries.
int32_view read_row_vector(const std::shared_ptr<const safetensors_file>& file, captured_side& side, const char* kind) {
  const auto& entry = file->at(side.tensor + '.' + kind);
  require(entry.shape == std::vector<index_t>{side.rows}, side.file, ": tensor ", entry.name, " must have shape (",
          side.rows, ",), one entry for each row of ", side.tensor, ", not ", shape_text(entry.shape));
  return read_integers(file, entry, side.owners);
}

/// Returns the dtype of a tensor of rows. Throws `error` naming the tensor if rows may not have it.
dtype row_dtype(const std::string& file, const tensor_entry& entry) {
  for (const dtype t : {dtype::bf16, dtype::f16, dtype::f32, dtype::f64})
    if (entry.dtype == name_of(t)) return t;
  fail(file, ": tensor ", entry.name, " must have dtype BF16, F16, F32 or F64, not ", printable(entry.dtype));
}

/// Throws `error` unless the file has this number of rows, queries and keys of all layers together.
void require_rows(const safetensors_file& file, const capture_manifest& manifest, index_t rows) {
  index_t found = 0;
  for (const captured_layer_info& l : manifest.layers)
    for (const char* side : {".q", ".k"}) {
      const auto& shape = file.at("layer." + std::to_string(l.layer) + side).shape;
      found += shape.empty() ? 0 : shape[0];
    }
  require(found == rows, file.path().string(), ": it holds ", found, " rows of queries and keys, ", rows,
          " by the capture's list of shards");
}

/// Reads one side of a layer from one shard; `kind` is 'q' or 'k'. Checks everything but finiteness.
captured_side read_side(const std::shared_ptr<const safetensors_file>& file, const capture_manifest& manifest,
                        const captured_layer_info& info, char kind, const allowed_documents& allowed) {
  captured_side side;
  side.file = file->path().string();
  side.tensor = "layer." + std::to_string(info.layer) + '.' + kind;
  const auto& entry = file->at(side.tensor);
  side.element = row_dtype(side.file, entry);
  side.heads = static_cast<index_t>((kind == 'q' ? info.query_heads : info.key_heads).size());
  side.dim = manifest.model.head_dim;
  require(entry.shape.size() == 3 && entry.shape[1] == side.heads && entry.shape[2] == side.dim, side.file, ": tensor ",
          side.tensor, " must have shape (rows, ", side.heads, ", ", side.dim, ") after the manifest, not ",
          shape_text(entry.shape));
  side.rows = entry.shape[0];
  require(side.rows <= largest_position, side.file, ": tensor ", side.tensor, " has more rows than 32 bits can count");
  side.owners.push_back(file);
  side.data = entry.data;
  if (reinterpret_cast<std::uintptr_t>(entry.data) % size_of(side.element) != 0) {
    const auto copy = std::make_shared<const std::vector<std::byte>>(entry.data, entry.data + entry.bytes);
    side.data = copy->data();
    side.owners.push_back(copy);
  }
  side.position = read_row_vector(file, side, "position");
  side.document = read_row_vector(file, side, "example");
  if (file->find(side.tensor + ".token")) side.token = read_row_vector(file, side, "token");
  check_rows(side.file, side.tensor, side.position, side.document, manifest.context_length, allowed);
  return side;
}

capture_manifest manifest_of(const safetensors_file& file) {
  const auto it = file.metadata().find("qkgeom");
  require(it != file.metadata().end(), file.path().string(), ": not a capture: its metadata has no field qkgeom");
  return parse_manifest(it->second, file.path().string() + " (manifest)");
}

void check_same_capture(const capture_manifest& folder, const capture_manifest& shard, const std::string& name) {
  const auto same = [&](bool equal, const char* field) {
    require(equal, name, ": the shard's ", field, " differs from that in manifest.json: it belongs to another capture");
  };
  same(folder.model == shard.model, "model");
  same(folder.context_length == shard.context_length, "context_length");
  same(folder.bucket == shard.bucket, "bucket");
  same(folder.rate == shard.rate, "rate");
  same(folder.rope_stage == shard.rope_stage, "rope_stage");
  same(folder.seed == shard.seed, "seed");
  same(folder.layers == shard.layers, "layers");
}

/// Returns the documents that the rows of a shard may have.
allowed_documents documents_of(const capture_manifest& m, index_t shard) {
  return allowed_by(m, m.shards.empty() ? std::nullopt : std::optional(m.shards[shard].documents));
}

}  // namespace

void check_finite(const captured_layer& layer) {
  visit_element_type(layer.element, [&]<class T>() {
    for (const auto* side : {&layer.q, &layer.k}) {
      const T* const data = reinterpret_cast<const T*>(side->data);
      const index_t width = side->heads * side->dim;
      for (index_t i = 0; i < side->rows; ++i) {
        const T* const row = data + i * width;
        if (all_finite(row, width)) [[likely]]
          continue;
        index_t j = 0;
        while (all_finite(row + j, 1)) ++j;
        const double value = static_cast<double>(row[j]);
        fail(side->file, ": tensor ", side->tensor, " row ", i, " (example ", side->document[i], ", position ",
             side->position[i], ") holds ", value != value ? "NaN" : "an infinity", " at head ", j / side->dim,
             " of the tensor, coordinate ", j % side->dim);
      }
      if constexpr (std::is_same_v<T, double>) check_sizes(*side);
    }
  });
}

capture capture::open(const std::filesystem::path& path) {
  auto s = std::make_shared<state>();
  s->path = path;
  std::error_code none;
  if (std::filesystem::is_directory(path, none))
    open_folder(*s);
  else
    open_file(*s);
  return capture(std::move(s));
}

std::vector<index_t> capture::layers() const {
  std::vector<index_t> list;
  for (const auto& l : manifest().layers) list.push_back(l.layer);
  return list;
}

captured_layer capture::read_layer(index_t layer, index_t shard) const {
  const auto file = this->file(shard);
  const auto allowed = documents_of(manifest(), shard);
  return assemble(layer, [&](const captured_layer_info& info, char kind) {
    return read_side(file, manifest(), info, kind, allowed);
  });
}

captured_layer capture::read_layer(index_t layer) const {
  if (n_shards() == 1) return read_layer(layer, 0);
  return assemble(layer, [&](const captured_layer_info& info, char kind) {
    std::vector<captured_side> sides;
    for (index_t s = 0; s < n_shards(); ++s)
      sides.push_back(read_side(file(s), manifest(), info, kind, documents_of(manifest(), s)));
    return detail::join(std::move(sides), path().string());
  });
}

index_t capture::bytes(index_t shard) const {
  std::error_code missing;
  const auto& listed = manifest().shards;
  const auto size = std::filesystem::file_size(listed.empty() ? path() : path() / listed[shard].file, missing);
  return missing ? 0 : static_cast<index_t>(size);
}

std::shared_ptr<const safetensors_file> capture::file(index_t shard) const {
  require(shard >= 0 && shard < n_shards(), path().string(), ": there is no shard ", shard, " of ", n_shards());
  const std::lock_guard lock(state_->mutex);
  auto& file = state_->files[shard];
  if (!file) {
    const auto name = state_->path / manifest().shards[shard].file;
    auto opened = std::make_shared<const safetensors_file>(name);
    check_same_capture(manifest(), manifest_of(*opened), name.string());
    require_rows(*opened, manifest(), manifest().shards[shard].rows);
    file = std::move(opened);
  }
  return file;
}

void capture::open_file(state& s) {
  s.files.push_back(std::make_shared<const safetensors_file>(s.path));
  s.manifest = manifest_of(*s.files[0]);
  // A single file that was a shard has the whole manifest without the other shards.
  s.manifest.shards.clear();
}

void capture::open_folder(state& s) {
  const auto name = s.path / "manifest.json";
  require(std::filesystem::exists(name), s.path.string(),
          ": no manifest.json in this folder: it is not a capture, or one that is not finished");
  s.manifest = parse_manifest(read_text(name, max_manifest_bytes), name.string());
  require(!s.manifest.shards.empty(), name.string(), ": shards must list at least one file");
  detail::require_each_once(s.manifest.shards, name.string(), "shard", [](const auto& x) { return x.file; });
  if (s.manifest.documents) {
    std::set<index_t> listed;
    for (const auto& e : *s.manifest.documents) listed.insert(e.index);
    for (const auto& shard : s.manifest.shards)
      for (const index_t e : shard.documents)
        require(listed.count(e) == 1, name.string(), ": ", shard.file, " holds example ", e,
                ", which examples does not list");
  }
  s.files.resize(s.manifest.shards.size());
}

template <class Read>
captured_layer capture::assemble(index_t number, Read read) const {
  const auto known = layers();
  require(std::find(known.begin(), known.end(), number) != known.end(), path().string(), ": layer ", number,
          " is not in this capture");
  const auto& info = manifest().layer(number);
  captured_layer l;
  l.layer = info.layer, l.rope = info.rope, l.window = info.window;
  l.query_heads = info.query_heads, l.key_heads = info.key_heads;
  l.key_of_query = manifest().key_of_query(info);
  l.q = read(info, 'q');
  l.k = read(info, 'k');
  require(l.q.element == l.k.element, l.k.file, ": tensor ", l.k.tensor, " must have the dtype of ", l.q.tensor, ", ",
          name_of(l.q.element), ", not ", name_of(l.k.element));
  l.element = l.q.element;
  return l;
}

}  // namespace qkgeom
