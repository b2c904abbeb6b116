// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/io/capture_manifest_text.hpp"
#include "qkgeom/io/capture_moments.hpp"
#include "qkgeom/io/detail/all_finite.hpp"
#include "qkgeom/io/safetensors_write.hpp"

namespace qkgeom {

namespace detail {

/// The tensors of one side of a layer as they are read, each (heads, buckets, ...).
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

/// A tensor of f64 that `hand_out` gives array by array.
QKGEOM_INLINE tensor_to_write
produced(std::string name, std::vector<index_t> shape,
         std::function<void(const std::function<void(std::span<const double>)>&)> hand_out) {
  return {std::move(name), "F64", std::move(shape), {}, [hand_out](const byte_sink& sink) {
            hand_out([&](std::span<const double> x) { sink(std::as_bytes(x)); });
          }};
}

/// Lists the tensors of one side of a layer, as `moment_arrays` reads them; they point to `layer`.
QKGEOM_INLINE void list_tensors(const std::string& name, const token_moments& layer, bool queries,
                                std::vector<tensor_to_write>& to) {
  const auto& sides = queries ? layer.moments.q : layer.moments.k;
  const auto& first = sides.at(0);
  const auto h = static_cast<index_t>(sides.size()), b = static_cast<index_t>(first.bucket.size()),
             d = first.total.dim();
  const auto by_bucket = [&](const char* what, double (*value)(const row_moments&)) {
    to.push_back(produced(name + what, {b}, [&first, value](const auto& give) {
      for (const auto& m : first.bucket) {
        const double x = value(m);
        give({&x, 1});
      }
    }));
  };
  const auto by_head = [&](const char* what, std::vector<index_t> shape, std::vector<double> row_moments::*values) {
    to.push_back(produced(name + what, std::move(shape), [&sides, values](const auto& give) {
      for (const auto& side : sides)
        for (const auto& m : side.bucket) give(m.*values);
    }));
  };
  by_bucket(".count", [](const row_moments& m) { return static_cast<double>(m.count); });
  by_bucket(".sum_t", [](const row_moments& m) { return m.mean_t * static_cast<double>(m.count); });
  by_bucket(".sum_tt", [](const row_moments& m) { return m.tt; });
  by_head(".mean", {h, b, d}, &row_moments::mean);
  by_head(".cov_t", {h, b, d}, &row_moments::xt);
  if (queries) return by_head(".cov", {h, b, d, d}, &row_moments::xx);
  to.push_back(produced(name + ".cov", {h, d, d}, [&sides](const auto& give) {
    for (const auto& side : sides) give(side.total.xx);
  }));
  by_head(".var", {h, b, d}, &row_moments::xx);
  to.push_back(produced(name + ".differences", {h, d, d}, [&layer](const auto& give) {
    for (const auto& x : layer.k_differences) give(x);
  }));
  to.push_back(tensor_of(name + ".pairs", {1}, &layer.k_pairs));
}

QKGEOM_INLINE std::vector<double> slice(const std::vector<double>& from, index_t i, index_t size) {
  return {from.begin() + i * size, from.begin() + (i + 1) * size};
}

QKGEOM_INLINE std::vector<side_moments> unpack(const moment_arrays& a) {
  const index_t d = a.dim;
  const auto kind = a.full ? scatter_kind::full : scatter_kind::diagonal;
  std::vector<side_moments> sides;
  for (index_t h = 0; h < a.heads; ++h) {
    side_moments side{row_moments::zero(d, kind), {}};
    for (index_t b = 0; b < a.buckets; ++b) {
      const index_t i = h * a.buckets + b;
      row_moments m{static_cast<index_t>(a.count[b]),
                    a.count[b] > 0 ? a.sum_t[b] / a.count[b] : 0,
                    a.sum_tt[b],
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

QKGEOM_INLINE void read_arrays(const safetensors_file& file, moment_arrays& a) {
  for (auto& f : a.fields()) {
    const std::string name = a.name + ".moments" + f.name;
    const auto& tensor = file.at(name);
    require(tensor.shape == f.shape, file.path().string(), ": tensor ", name, " must have shape ", shape_text(f.shape),
            " by the manifest, not ", shape_text(tensor.shape));
    const auto values = file.values<double>(tensor);
    f.values->assign(values.begin(), values.end());
    require(all_finite(f.values->data(), static_cast<index_t>(f.values->size())), file.path().string(), ": tensor ",
            name, " holds a number that is not finite");
  }
  for (const double n : a.count)
    require(n >= 0 && n < 9e15 && n == std::floor(n), file.path().string(), ": tensor ", a.name,
            ".moments.count must hold counts");
}

}  // namespace detail

QKGEOM_INLINE std::string write_moments_file(const std::filesystem::path& path, capture_manifest manifest,
                                             std::span<const token_moments> layers) {
  require(layers.size() == manifest.layers.size() && !layers.empty(), "cannot write ", path.string(), ": ",
          layers.size(), " layers were given, the manifest lists ", manifest.layers.size());
  manifest.shards.clear();
  const std::vector<index_t>& edges = layers[0].moments.buckets.edges();
  const std::vector<std::int64_t> wide(edges.begin(), edges.end());
  std::vector<tensor_to_write> tensors;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const std::string name = "layer." + std::to_string(manifest.layers[l].layer);
    detail::list_tensors(name + ".q.moments", layers[l], true, tensors);
    detail::list_tensors(name + ".k.moments", layers[l], false, tensors);
  }
  tensors.push_back(tensor_of("moments.edges", {static_cast<index_t>(wide.size())}, wide.data()));
  return write_safetensors(path, std::move(tensors), {{"qkgeom", manifest_text(manifest)}});
}

QKGEOM_INLINE token_moments moments_file::read(index_t layer) const {
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

QKGEOM_INLINE std::vector<moments_file> open_moments(const capture& c) {
  std::vector<moments_file> files;
  const auto& m = c.manifest();
  if (!std::filesystem::is_directory(c.path())) {
    if (c.file(0)->find("moments.edges")) files.emplace_back(c.file(0), m);
    return files;
  }
  if (!m.extra.contains("moments")) return files;
  const json_value blocks(m.extra["moments"], (c.path() / "manifest.json").string(), "moments");
  const index_t n = blocks["blocks"].integer(1, 100),
                first = first_moment_block(m, (c.path() / "manifest.json").string());
  for (index_t b = first; b < first + n; ++b) {
    auto file = std::make_shared<const safetensors_file>(c.path() / moments_name(b));
    const auto it = file->metadata().find("qkgeom");
    require(it != file->metadata().end(), file->path().string(), ": its metadata has no field qkgeom");
    const auto own = parse_manifest(it->second, file->path().string() + " (manifest)");
    require(own.model == m.model && own.layers == m.layers && own.seed == m.seed, file->path().string(),
            ": its manifest differs from manifest.json: it belongs to another capture");
    files.emplace_back(std::move(file), m);
    require(files.back().edges() == files[0].edges(), (c.path() / moments_name(b)).string(),
            ": its bucket edges differ from those of ", moments_name(first));
  }
  return files;
}

}  // namespace qkgeom
