// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture_moments.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "qkgeom/io/safetensors.hpp"

namespace qkgeom {

namespace {

using array_sink = std::function<void(std::span<const double>)>;

/// The tensors of one side of a layer, each (heads, buckets, ...).
struct moment_arrays {
  std::string name;  ///< "layer.3.q"
  index_t heads = 0, buckets = 0, dim = 0;
  bool full = false;  ///< queries: the scatter of every bucket; keys: its diagonal, and one scatter of all rows
  std::vector<double> count{}, sum_t{}, sum_tt{}, mean{}, cov_t{}, cov{}, var{}, differences{}, pairs{};

  struct field {
    const char* name;
    std::vector<index_t> shape;
    std::vector<double>* values;                                        ///< destination of a reader
    std::function<void(const token_moments&, const array_sink&)> give;  ///< passes a layer's values on, array by array
  };
  std::vector<field> fields() {
    const index_t h = heads, b = buckets, d = dim;
    const auto sides = [queries = full](const token_moments& m) -> const std::vector<side_moments>& {
      return queries ? m.moments.q : m.moments.k;
    };
    const auto of_bucket = [sides](double (*value)(const row_moments&)) {
      return [sides, value](const token_moments& m, const array_sink& give) {
        for (const auto& x : sides(m).at(0).bucket) {
          const double v = value(x);
          give({&v, 1});
        }
      };
    };
    const auto of_head = [sides](std::vector<double> row_moments::*values) {
      return [sides, values](const token_moments& m, const array_sink& give) {
        for (const auto& side : sides(m))
          for (const auto& x : side.bucket) give(x.*values);
      };
    };
    std::vector<field> list{
        {".count", {b}, &count, of_bucket([](const row_moments& x) { return static_cast<double>(x.count); })},
        {".sum_t", {b}, &sum_t, of_bucket([](const row_moments& x) {
           return x.mean_t * static_cast<double>(x.count);
         })},
        {".sum_tt", {b}, &sum_tt, of_bucket([](const row_moments& x) { return x.tt; })},
        {".mean", {h, b, d}, &mean, of_head(&row_moments::mean)},
        {".cov_t", {h, b, d}, &cov_t, of_head(&row_moments::xt)}};
    if (full) {
      list.push_back({".cov", {h, b, d, d}, &cov, of_head(&row_moments::xx)});
      return list;
    }
    list.push_back({".cov", {h, d, d}, &cov, [](const token_moments& m, const array_sink& give) {
                      for (const auto& side : m.moments.k) give(side.total.xx);
                    }});
    list.push_back({".var", {h, b, d}, &var, of_head(&row_moments::xx)});
    list.push_back({".differences", {h, d, d}, &differences, [](const token_moments& m, const array_sink& give) {
                      for (const auto& x : m.k_differences) give(x);
                    }});
    list.push_back({".pairs", {1}, &pairs, [](const token_moments& m, const array_sink& give) {
                      give({&m.k_pairs, 1});
                    }});
    return list;
  }
};

std::vector<double> slice(const std::vector<double>& from, index_t i, index_t size) {
  return {from.begin() + i * size, from.begin() + (i + 1) * size};
}

std::vector<side_moments> unpack(const moment_arrays& a) {
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

void read_arrays(const safetensors_file& file, moment_arrays& a) {
  for (auto& f : a.fields()) {
    const std::string name = a.name + ".moments" + f.name;
    const auto& tensor = file.at(name);
    require(tensor.shape == f.shape, file.path().string(), ": tensor ", name, " must have shape ", shape_text(f.shape),
            " by the manifest, not ", shape_text(tensor.shape));
    const auto values = file.values<double>(tensor);
    f.values->assign(values.begin(), values.end());
    require(std::all_of(f.values->begin(), f.values->end(), [](double x) { return std::isfinite(x); }),
            file.path().string(), ": tensor ", name, " holds a number that is not finite");
  }
  for (const double n : a.count)
    require(n >= 0 && n < 9e15 && n == std::floor(n), file.path().string(), ": tensor ", a.name,
            ".moments.count must hold counts");
}

}  // namespace

std::string write_moments_file(const std::filesystem::path& path, capture_manifest manifest,
                               std::span<const token_moments> layers) {
  require(layers.size() == manifest.layers.size() && !layers.empty(), "cannot write ", path.string(), ": ",
          layers.size(), " layers were given, the manifest lists ", manifest.layers.size());
  manifest.shards.clear();
  const std::vector<index_t>& edges = layers[0].moments.buckets.edges();
  const std::vector<std::int64_t> wide(edges.begin(), edges.end());
  std::vector<tensor_to_write> tensors;
  const auto count = [](std::size_t n) { return static_cast<index_t>(n); };
  for (std::size_t l = 0; l < layers.size(); ++l)
    for (const bool queries : {true, false}) {
      const auto& sides = queries ? layers[l].moments.q : layers[l].moments.k;
      const std::string name = "layer." + std::to_string(manifest.layers[l].layer) + (queries ? ".q" : ".k");
      moment_arrays side{name, count(sides.size()), count(sides.at(0).bucket.size()), sides[0].total.dim(), queries};
      for (auto& f : side.fields())
        tensors.push_back({name + ".moments" + f.name,
                           "F64",
                           std::move(f.shape),
                           {},
                           [&layer = layers[l], give = std::move(f.give)](const byte_sink& sink) {
                             give(layer, [&](std::span<const double> x) { sink(std::as_bytes(x)); });
                           }});
    }
  tensors.push_back(tensor_of("moments.edges", {static_cast<index_t>(wide.size())}, wide.data()));
  return write_safetensors(path, std::move(tensors), {{"qkgeom", manifest_text(manifest)}});
}

token_moments moments_file::read(index_t layer) const {
  const auto& info = manifest_.layer(layer);
  const std::string name = "layer." + std::to_string(layer);
  const auto side = [&](const char* kind, const std::vector<index_t>& heads, bool full) {
    moment_arrays a{name + kind, static_cast<index_t>(heads.size()), edges_.count(), manifest_.model.head_dim, full};
    read_arrays(*file_, a);
    return a;
  };
  const auto q = side(".q", info.query_heads, true), k = side(".k", info.key_heads, false);
  token_moments m{{edges_, unpack(q), unpack(k), manifest_.key_of_query(info)}, {}, k.pairs[0]};
  for (index_t h = 0; h < k.heads; ++h) m.k_differences.push_back(slice(k.differences, h, k.dim * k.dim));
  return m;
}

std::vector<moments_file> open_moments(const capture& c) {
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

void merge(token_moments& into, const token_moments& from) {
  into.moments = merge(std::move(into.moments), from.moments);
  for (std::size_t h = 0; h < into.k_differences.size(); ++h)
    into.k_differences[h] = dense::sum(std::move(into.k_differences[h]), from.k_differences[h]);
  into.k_pairs += from.k_pairs;
}

moments_file::moments_file(std::shared_ptr<const safetensors_file> file, capture_manifest manifest)
    : file_(std::move(file)), manifest_(std::move(manifest)) {
  const auto values = file_->values<std::int64_t>("moments.edges");
  require(values.size() >= 2 && values[0] >= 0, file_->path().string(), ": tensor moments.edges must hold two edges");
  edges_ = bucket_edges({values.begin(), values.end()});
}

std::optional<set_moments> set_moments::open(const capture_set& source, const std::optional<bucket_edges>& buckets) {
  if (!source.has_all_rows()) return std::nullopt;
  set_moments s;
  for (const auto& c : source.captures()) {
    s.files_.push_back(open_moments(c));
    s.first_.push_back(first_moment_block(c.manifest(), c.path().string()));
    const auto& files = s.files_.back();
    if (files.empty() || files[0].edges() != s.files_[0][0].edges()) return std::nullopt;
    s.buckets_ = buckets.value_or(files[0].edges());
    if (!refines(files[0].edges(), s.buckets_)) return std::nullopt;
  }
  const index_t lowest = *std::min_element(s.first_.begin(), s.first_.end());
  for (std::size_t c = 0; c < s.first_.size(); ++c) {
    s.first_[c] -= lowest;
    s.blocks_ = std::max(s.blocks_, s.first_[c] + static_cast<index_t>(s.files_[c].size()));
  }
  return s;
}

std::vector<token_moments> set_moments::read(index_t layer) const {
  std::vector<std::optional<token_moments>> blocks(blocks_);
  for (std::size_t c = 0; c < files_.size(); ++c)
    for (std::size_t b = 0; b < files_[c].size(); ++b) {
      auto m = files_[c][b].read(layer);
      m.moments = coarser(m.moments, buckets_);
      auto& to = blocks[first_[c] + b];
      if (to)
        merge(*to, m);
      else
        to = std::move(m);
    }
  std::vector<token_moments> found;
  for (auto& block : blocks)
    if (block) found.push_back(std::move(*block));
  return found;
}

}  // namespace qkgeom
