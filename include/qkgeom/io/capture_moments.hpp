// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/io/capture_manifest_text.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/io/safetensors_write.hpp"
#include "qkgeom/stats/coarser.hpp"
#include "qkgeom/stats/document_moments.hpp"

namespace qkgeom {

/// Moments of every token of a layer's captured heads, over one block of documents: of queries with the covariance of
/// every bucket, of keys with its diagonal, and in total; and of each key head what two keys of one document differ by
/// (see `block_moments`).
struct token_moments {
  layer_moments moments;
  std::vector<std::vector<double>> k_differences;  ///< (key heads)(d, d)
  double k_pairs = 0;
};

/// Adds another block of the same layer. Throws `error` if heads or buckets differ.
inline void merge(token_moments& into, const token_moments& from) {
  into.moments = merge(std::move(into.moments), from.moments);
  for (std::size_t h = 0; h < into.k_differences.size(); ++h)
    into.k_differences[h] = dense::sum(std::move(into.k_differences[h]), from.k_differences[h]);
  into.k_pairs += from.k_pairs;
}

/// Name of moment file number b of a capture folder: "moments-03.safetensors".
inline std::string moments_name(index_t b) {
  char name[48];
  std::snprintf(name, sizeof name, "moments-%02lld.safetensors", static_cast<long long>(b));
  return name;
}

namespace detail {

/// The tensors of one layer and side under their names, (heads, buckets, ...) each.
struct moment_arrays {
  std::string name;  ///< "layer.3.q"
  index_t heads = 0, buckets = 0, dim = 0;
  bool full = false;  ///< the scatter of every bucket; else its diagonal, and one scatter of all
  std::vector<double> count{}, sum_t{}, sum_tt{}, mean{}, cov_t{}, cov{}, var{}, differences{}, pairs{};

  struct field {
    const char* name;
    std::vector<index_t> shape;
    std::vector<double>* values;
  };
  std::vector<field> fields() {
    const index_t h = heads, b = buckets, d = dim;
    std::vector<field> list{{".count", {b}, &count},
                            {".sum_t", {b}, &sum_t},
                            {".sum_tt", {b}, &sum_tt},
                            {".mean", {h, b, d}, &mean},
                            {".cov_t", {h, b, d}, &cov_t}};
    if (full) {
      list.push_back({".cov", {h, b, d, d}, &cov});
    } else {
      list.push_back({".cov", {h, d, d}, &cov});
      list.push_back({".var", {h, b, d}, &var});
      list.push_back({".differences", {h, d, d}, &differences});
      list.push_back({".pairs", {1}, &pairs});
    }
    return list;
  }
};

inline void append(std::vector<double>& to, const std::vector<double>& x) { to.insert(to.end(), x.begin(), x.end()); }

inline moment_arrays pack(const std::string& name, const std::vector<side_moments>& sides, bool full) {
  const auto& first = sides.at(0);
  moment_arrays a{name, static_cast<index_t>(sides.size()), static_cast<index_t>(first.bucket.size()),
                  first.total.dim(), full};
  for (const auto& b : first.bucket) {
    a.count.push_back(static_cast<double>(b.count));
    a.sum_t.push_back(b.mean_t * static_cast<double>(b.count));
    a.sum_tt.push_back(b.tt);
  }
  for (const auto& side : sides) {
    for (const auto& b : side.bucket) {
      append(a.mean, b.mean);
      append(a.cov_t, b.xt);
      append(full ? a.cov : a.var, b.xx);
    }
    if (!full) append(a.cov, side.total.xx);
  }
  return a;
}

inline std::vector<double> slice(const std::vector<double>& from, index_t i, index_t size) {
  const auto begin = from.begin() + static_cast<std::ptrdiff_t>(i * size);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

inline std::vector<side_moments> unpack(const moment_arrays& a) {
  const index_t d = a.dim;
  const auto kind = a.full ? scatter_kind::full : scatter_kind::diagonal;
  std::vector<side_moments> sides;
  for (index_t h = 0; h < a.heads; ++h) {
    side_moments side{row_moments::zero(d, kind), {}};
    for (index_t b = 0; b < a.buckets; ++b) {
      const index_t i = h * a.buckets + b;
      const auto n = static_cast<std::size_t>(b);
      row_moments m{static_cast<index_t>(a.count[n]),
                    a.count[n] > 0 ? a.sum_t[n] / a.count[n] : 0,
                    a.sum_tt[n],
                    slice(a.mean, i, d),
                    slice(a.cov_t, i, d),
                    a.full ? slice(a.cov, i, d * d) : slice(a.var, i, d)};
      merge(side.total, m);
      side.bucket.push_back(std::move(m));
    }
    if (!a.full) side.total.xx = slice(a.cov, h, d * d);
    sides.push_back(std::move(side));
  }
  return sides;
}

inline void read_arrays(const safetensors_file& file, moment_arrays& a) {
  for (auto& f : a.fields()) {
    const std::string name = a.name + ".moments" + f.name;
    const auto& tensor = file.at(name);
    require(tensor.shape == f.shape, file.path().string(), ": tensor ", name, " must have shape ", shape_text(f.shape),
            " by the manifest, not ", shape_text(tensor.shape));
    const auto values = file.values<double>(tensor);
    f.values->assign(values.begin(), values.end());
    for (const double x : *f.values)
      require(std::isfinite(x), file.path().string(), ": tensor ", name, " holds a number that is not finite");
  }
  for (const double n : a.count)
    require(n >= 0 && n < 9e15 && n == std::floor(n), file.path().string(), ": tensor ", a.name,
            ".moments.count must hold counts");
}

}  // namespace detail

/// Writes the moments of one block of documents: every layer of the manifest over the same bucket edges. The manifest
/// stands in the file too, without its shards.
inline void write_moments_file(const std::filesystem::path& path, capture_manifest manifest,
                               std::span<const token_moments> layers) {
  require(layers.size() == manifest.layers.size() && !layers.empty(), "cannot write ", path.string(), ": ",
          layers.size(), " layers were given, the manifest lists ", manifest.layers.size());
  manifest.shards.clear();
  const std::vector<index_t>& edges = layers[0].moments.buckets.edges();
  const std::vector<std::int64_t> wide(edges.begin(), edges.end());
  std::vector<detail::moment_arrays> arrays;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const std::string name = "layer." + std::to_string(manifest.layers[l].layer);
    arrays.push_back(detail::pack(name + ".q", layers[l].moments.q, true));
    arrays.push_back(detail::pack(name + ".k", layers[l].moments.k, false));
    for (const auto& x : layers[l].k_differences) detail::append(arrays.back().differences, x);
    arrays.back().pairs = {layers[l].k_pairs};
  }
  std::vector<tensor_to_write> tensors;
  for (auto& a : arrays)
    for (const auto& f : a.fields())
      tensors.push_back(tensor_of(a.name + ".moments" + f.name, f.shape, f.values->data()));
  tensors.push_back(tensor_of("moments.edges", {static_cast<index_t>(wide.size())}, wide.data()));
  write_safetensors(path, std::move(tensors), {{"qkgeom", manifest_text(manifest)}});
}

/// One file of moments. Files are untrusted: what disagrees with the manifest throws `error` naming file and tensor.
class moments_file {
 public:
  moments_file(std::shared_ptr<const safetensors_file> file, capture_manifest manifest)
      : file_(std::move(file)), manifest_(std::move(manifest)) {
    const auto values = file_->values<std::int64_t>("moments.edges");
    require(values.size() >= 2 && values[0] >= 0, file_->path().string(), ": tensor moments.edges must hold two edges");
    edges_ = bucket_edges({values.begin(), values.end()});
  }
  const bucket_edges& edges() const { return edges_; }

  /// Moments of one layer, by its number in the model. Throws `error` if the capture has not got it.
  token_moments read(index_t layer) const {
    const auto& info = manifest_.layer(layer);
    const std::string name = "layer." + std::to_string(layer);
    const auto side = [&](const char* kind, const std::vector<index_t>& heads, bool full) {
      detail::moment_arrays a{name + kind, static_cast<index_t>(heads.size()), edges_.count(), manifest_.model.head_dim,
                              full};
      detail::read_arrays(*file_, a);
      return a;
    };
    const auto q = side(".q", info.query_heads, true), k = side(".k", info.key_heads, false);
    token_moments m{{edges_, detail::unpack(q), detail::unpack(k), manifest_.key_of_query(info)}, {}, k.pairs[0]};
    for (index_t h = 0; h < k.heads; ++h) m.k_differences.push_back(detail::slice(k.differences, h, k.dim * k.dim));
    return m;
  }

 private:
  std::shared_ptr<const safetensors_file> file_;
  capture_manifest manifest_;
  bucket_edges edges_;
};

/// The moments of every token that a capture holds beside its rows: the files moments-BB.safetensors of its folder, one
/// a block of documents, or the same tensors inside a single file.
inline std::vector<moments_file> open_moments(const capture& c) {
  std::vector<moments_file> files;
  const auto& m = c.manifest();
  if (!std::filesystem::is_directory(c.path())) {
    if (c.file(0)->find("moments.edges")) files.emplace_back(c.file(0), m);
    return files;
  }
  if (!m.extra.contains("moments")) return files;
  const json_value blocks(m.extra["moments"], (c.path() / "manifest.json").string(), "moments");
  const index_t n = blocks["blocks"].integer(1, 100);
  for (index_t b = 0; b < n; ++b) {
    auto file = std::make_shared<const safetensors_file>(c.path() / moments_name(b));
    const auto it = file->metadata().find("qkgeom");
    require(it != file->metadata().end(), file->path().string(), ": its metadata has no field qkgeom");
    const auto own = parse_manifest(it->second, file->path().string() + " (manifest)");
    require(own.model == m.model && own.layers == m.layers && own.seed == m.seed, file->path().string(),
            ": its manifest differs from manifest.json: it belongs to another capture");
    files.emplace_back(std::move(file), m);
    require(files.back().edges() == files[0].edges(), (c.path() / moments_name(b)).string(),
            ": its bucket edges differ from those of ", moments_name(0));
  }
  return files;
}

/// Moments of every token of a set of captures, if all of them hold some over the same edges, these refine `buckets`,
/// and the set has all its documents. Block b of one capture counts together with block b of the others.
class set_moments {
 public:
  /// Those of `source` over `buckets`, or over the buckets in which they are held; none if it holds no such. Throws
  /// `error` on a file that is not as it should be.
  static std::optional<set_moments> open(const capture_set& source, const std::optional<bucket_edges>& buckets = {}) {
    if (!source.has_all_documents()) return std::nullopt;
    set_moments s;
    for (const auto& c : source.captures()) {
      s.files_.push_back(open_moments(c));
      const auto& files = s.files_.back();
      if (files.empty() || files[0].edges() != s.files_[0][0].edges()) return std::nullopt;
      s.buckets_ = buckets.value_or(files[0].edges());
      if (!refines(files[0].edges(), s.buckets_)) return std::nullopt;
      s.blocks_ = std::max(s.blocks_, static_cast<index_t>(files.size()));
    }
    return s;
  }
  index_t blocks() const { return blocks_; }

  /// Moments of a layer over `buckets`, one entry a block.
  std::vector<token_moments> read(index_t layer) const {
    std::vector<token_moments> blocks;
    for (const auto& files : files_)
      for (std::size_t b = 0; b < files.size(); ++b) {
        auto m = files[b].read(layer);
        m.moments = coarser(m.moments, buckets_);
        if (b < blocks.size())
          merge(blocks[b], m);
        else
          blocks.push_back(std::move(m));
      }
    return blocks;
  }

 private:
  set_moments() = default;
  std::vector<std::vector<moments_file>> files_;  // by capture, block
  bucket_edges buckets_;
  index_t blocks_ = 0;
};

}  // namespace qkgeom
