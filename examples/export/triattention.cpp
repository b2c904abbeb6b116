// SPDX-License-Identifier: MIT
#include <cmath>
#include <complex>
#include <map>
#include <optional>
#include <vector>

#include "examples/export/exports.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/io/what_if.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom::examples {
namespace {

/// Sums over the queries of one document: z_j and |z_j| of each plane j.
struct plane_sums {
  double queries = 0;
  std::vector<std::complex<double>> z;
  std::vector<double> size;
};

using document_sums = std::map<std::int32_t, plane_sums>;

template <class T>
document_sums sums_of(const layer_view<T>& rows, index_t head, const captured_rope& rope) {
  const index_t planes = rope.rotary_dim / 2;
  const std::size_t size = planes;
  document_sums sums;
  const auto q = rows.q.head(head);
  for (index_t i = 0; i < q.rows; ++i) {
    auto& sum = sums[rows.q_document[i]];
    sum.z.resize(size);
    sum.size.resize(size);
    ++sum.queries;
    const T* const x = q.row(i);
    for (index_t j = 0; j < planes; ++j) {
      const auto [a, b] = plane_of(rope, j);
      const std::complex<double> z(static_cast<double>(x[a]), static_cast<double>(x[b]));
      sum.z[j] += z;
      sum.size[j] += std::abs(z);
    }
  }
  return sums;
}

/// The sums of plane j over all documents: of z, of |z|, and |mean of z| over mean of |z|, 0 to 1, with its jackknife
/// error.
struct plane_total {
  std::complex<double> z = 0;
  double size = 0;
  estimate concentration{};

  plane_total(const document_sums& sums, index_t j) {
    for (const auto& [document, s] : sums) {
      z += s.z[j];
      size += s.size[j];
    }
    std::vector<double> without;
    for (const auto& [document, s] : sums) without.push_back(std::abs(z - s.z[j]) / (size - s.size[j]));
    concentration = jackknife(std::abs(z) / size, without);
  }
};

void require_readable(const capture_set& source, const captured_layer_info& info, const captured_rope& rope,
                      const captured_rope& first) {
  const std::string where = source.captures()[0].path().string();
  require(rope.rotary_dim == source.manifest().model.head_dim, where, ": layer ", info.layer, " turns ",
          rope.rotary_dim, " of ", source.manifest().model.head_dim,
          " coordinates of a head, but TriAttention reads planes of whole heads");
  require(rope == first, where, ": layer ", info.layer,
          " has another rotary embedding than the layers before it, but TriAttention reads one for all layers");
}

std::string digits(index_t n) { return (n < 10 ? "0" : "") + std::to_string(n); }

}  // namespace

void export_triattention(output_folder& out, const arguments& a, const export_arguments& choice) {
  const auto source = capture_set::open(a.captures);
  require_before_rope(source);
  const auto& manifest = source.manifest();
  torch_value::list sampled_heads, inv_freq;
  torch_value::dict stats;
  std::optional<captured_rope> first;
  struct exported_plane {
    index_t layer, q_head, plane;
    double inv_freq, queries, real, imaginary, size;
    estimate concentration;
  };
  std::vector<exported_plane> planes;
  progress bar("export", static_cast<index_t>(manifest.layers.size()), "layers");
  for (const auto& info : manifest.layers) {
    bar.add(1);
    const auto rope = sole_rope_of(source, info.layer, "the file holds one set of frequencies");
    if (!rope) continue;
    if (!first) first = rope;
    require_readable(source, info, *rope, *first);
    const auto layer = source.read_layer(info.layer);
    check_finite(layer);
    require(layer.q.rows > 0, source.captures()[0].path().string(), ": layer ", info.layer, " has no rows of queries");
    layer.visit([&]<class T>(const layer_view<T>& rows) {
      for (std::size_t h = 0; h < info.query_heads.size(); ++h) {
        const auto sums = sums_of(rows, static_cast<index_t>(h), *rope);
        double queries = 0;
        for (const auto& [document, s] : sums) queries += s.queries;
        std::vector<float> real, imaginary, size;
        for (index_t j = 0; j < rope->rotary_dim / 2; ++j) {
          const plane_total plane(sums, j);
          const auto mean = plane.z / queries;
          planes.push_back({info.layer, info.query_heads[h], j, rope->inv_freq[j], queries, mean.real(), mean.imag(),
                            plane.size / queries, plane.concentration});
          real.push_back(static_cast<float>(mean.real()));
          imaginary.push_back(static_cast<float>(mean.imag()));
          size.push_back(static_cast<float>(plane.size / queries));
        }
        sampled_heads.push_back({torch_value::list{{info.layer}, {info.query_heads[h]}}});
        stats.emplace_back("layer" + digits(info.layer) + "_head" + digits(info.query_heads[h]),
                           torch_value{torch_value::dict{{"q_mean_real", {std::move(real)}},
                                                         {"q_mean_imag", {std::move(imaginary)}},
                                                         {"q_abs_mean", {std::move(size)}}}});
      }
    });
  }
  bar.done();
  require(first.has_value(), source.captures()[0].path().string(), " has no layer with a rotary embedding");
  for (const double f : first->inv_freq) inv_freq.push_back({f});
  torch_value::dict metadata{{"num_traces", {source.documents()}},
                             {"head_dim", {manifest.model.head_dim}},
                             {"dtype", {std::string(manifest.compute_dtype == "bf16" ? "bfloat16" : "float32")}},
                             {"use_chat_template", {false}},
                             {"system_prompt", {std::string()}},
                             {"attn_implementation", {std::string("qkgeom")}},
                             {"rope_style", {first->style}},
                             {"inv_freq", {std::move(inv_freq)}},
                             {"num_layers", {manifest.model.n_layers}},
                             {"num_attention_heads", {manifest.model.n_query_heads}},
                             {"num_kv_heads", {manifest.model.n_key_heads}},
                             {"sampled_heads", {std::move(sampled_heads)}},
                             {"documents", {choice.texts}}};
  for (auto& [name, fact] : provenance_of(source)) metadata.emplace_back(name, torch_value{std::move(fact)});
  table_columns<exported_plane> c;
  c.add("layer", "number of the layer", &exported_plane::layer);
  c.add("q_head", "number of the query head", &exported_plane::q_head);
  c.add("plane", "number j of the plane", &exported_plane::plane);
  c.add("inv_freq", "radians per token", &exported_plane::inv_freq);
  c.add("queries", "number of rows behind the means", &exported_plane::queries);
  c.add("q_mean_real", "mean of x", &exported_plane::real).add("q_mean_imag", "mean of y", &exported_plane::imaginary);
  c.add("q_abs_mean", "mean of sqrt(x^2 + y^2)", &exported_plane::size);
  c.add("concentration", "length of the mean over mean length, 0 to 1", &exported_plane::concentration);
  out.write("triattention.csv", std::move(c).with_rows(planes));
  write_torch(out.table("triattention.pt"),
              {torch_value::dict{{"metadata", {std::move(metadata)}}, {"stats", {std::move(stats)}}}});
}

}  // namespace qkgeom::examples
