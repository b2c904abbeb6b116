// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/scalar.hpp"
#include "qkgeom/core/view.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/safetensors.hpp"

namespace qkgeom {

/// Queries or keys of a captured layer: elements (rows, heads, dim), and per row position, document and, if the capture
/// has it, token id. Views mapped files or copies, which `owners` keeps alive; copies of this share them.
struct captured_side {
  std::string file;    ///< file of the rows, for errors
  std::string tensor;  ///< e.g. "layer.3.q"
  dtype element = dtype::f32;
  index_t rows = 0, heads = 0, dim = 0;
  const std::byte* data = nullptr;
  vector_view<const std::int32_t> position{}, document{};
  vector_view<const std::int32_t> token{};  ///< empty without token ids
  std::vector<std::shared_ptr<const void>> owners{};

  std::size_t bytes() const { return rows * heads * dim * size_of(element); }
};

/// A layer as captured: rows of its query and key heads. Stays valid without its capture.
struct captured_layer {
  index_t layer = 0;
  bool rope = true;
  std::optional<index_t> window;      ///< in tokens
  dtype element = dtype::f32;         ///< of q and k
  std::vector<index_t> query_heads;   ///< the model's head indices in the order of q's axis 1
  std::vector<index_t> key_heads;     ///< the same for k
  std::vector<index_t> key_of_query;  ///< index into key_heads by query head
  captured_side q, k;

  /// Views the rows as elements of T. Throws `error` if the capture holds another type.
  template <class T>
  layer_view<T> view() const {
    require(dtype_of<T>() == element, q.tensor, " holds ", name_of(element), ", not ", name_of(dtype_of<T>()));
    const auto tensor = [](const captured_side& s) {
      return packed_tensor(reinterpret_cast<const T*>(s.data), s.rows, s.heads, s.dim);
    };
    return {tensor(q), q.position, q.document, tensor(k), k.position, k.document, key_of_query, window};
  }

  /// Calls `f(layer_view<T>)` with the capture's element type.
  template <class F>
  decltype(auto) visit(F&& f) const {
    return visit_element_type(element, [&]<class T>() -> decltype(auto) { return std::forward<F>(f)(view<T>()); });
  }
};

/// Throws `error` naming tensor and row if a query or key of the layer is NaN, infinite, or of a size that f64 sums do
/// not accept.
void check_finite(const captured_layer& layer);

namespace detail {

using int32_view = vector_view<const std::int32_t>;

/// A document whose rows a file may hold, and its tokens.
struct allowed_document {
  index_t number = 0, tokens = 0;
};
/// The documents of a file, ascending; without a value: any.
using allowed_documents = std::optional<std::vector<allowed_document>>;

/// Returns the documents with these `numbers`, or all documents of a manifest, as those that a file may hold. One that
/// the manifest does not list may be as long as the context.
allowed_documents allowed_by(const capture_manifest& manifest, const std::optional<std::vector<index_t>>& numbers);

/// Throws `error` naming tensor and row unless rows are in (document, position) order, documents among the `allowed`
/// ones, and positions in [0, tokens of the document) and [0, context_length).
void check_rows(const std::string& file, const std::string& tensor, int32_view position, int32_view document,
                index_t context_length, const allowed_documents& allowed);

/// Joins the rows of several shards. Keeps token ids if every shard has them.
captured_side join(std::vector<captured_side> shards, const std::string& where);

}  // namespace detail

/// A capture: a folder with manifest.json and shards, or one safetensors file. Shards are opened when a layer is read
/// from them. Throws `error` naming file and tensor where a file disagrees with the format or the manifest. Copies
/// share the open files; several threads may read.
class capture {
 public:
  /// Opens a folder or a single file and checks its manifest.
  static capture open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return state_->path; }
  const capture_manifest& manifest() const { return state_->manifest; }
  index_t n_shards() const { return static_cast<index_t>(state_->files.size()); }
  /// Lists the captured layers in the manifest's order.
  std::vector<index_t> layers() const;

  /// Reads the rows of a layer in one shard, in place where the file is aligned.
  captured_layer read_layer(index_t layer, index_t shard) const;
  /// Reads the rows of a layer in all shards: in place if there is one shard, else copied together.
  captured_layer read_layer(index_t layer) const;

  /// Returns the bytes of a shard's file; 0 if it is missing.
  index_t bytes(index_t shard) const;

  /// Returns the file of a shard, for tensors beside the rows. A shard of a folder must carry the folder's manifest.
  std::shared_ptr<const safetensors_file> file(index_t shard) const;

 private:
  struct state {
    std::filesystem::path path;
    capture_manifest manifest;
    std::vector<std::shared_ptr<const safetensors_file>> files;  // null: not opened yet
    std::mutex mutex;
  };
  explicit capture(std::shared_ptr<state> s) : state_(std::move(s)) {}

  static void open_file(state& s);
  static void open_folder(state& s);

  template <class Read>
  captured_layer assemble(index_t number, Read read) const;

  std::shared_ptr<state> state_;
};

}  // namespace qkgeom
