// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <map>
#include <numeric>
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

/// The planes of a query head: their totals over documents, and the rows behind them.
struct head_planes {
  index_t layer, q_head;
  double queries;
  std::vector<plane_total> planes;
};

struct captured_planes {
  captured_rope rope;              ///< of every layer that has one
  std::vector<head_planes> heads;  ///< of these layers, in their order
};

/// Reads the planes of every head in a layer with a rotary embedding. Throws `error` unless the rows are from before
/// that embedding, which must be one for all layers, and the same for all documents.
captured_planes read_planes(const capture_set& source) {
  require_before_rope(source);
  const auto& manifest = source.manifest();
  const std::string where = source.captures()[0].path().string();
  std::optional<captured_rope> first;
  std::vector<head_planes> heads;
  progress bar("export", static_cast<index_t>(manifest.layers.size()), "layers");
  for (const auto& info : manifest.layers) {
    bar.add(1);
    const auto rope = sole_rope_of(source, info.layer, "the file holds one set of frequencies");
    if (!rope) continue;
    if (!first) first = rope;
    require(*rope == *first, where, ": layer ", info.layer,
            " has another rotary embedding than the layers before it, but TriAttention reads one for all layers");
    const auto layer = source.read_layer(info.layer);
    check_finite(layer);
    require(layer.q.rows > 0, where, ": layer ", info.layer, " has no rows of queries");
    layer.visit([&]<class T>(const layer_view<T>& rows) {
      for (std::size_t h = 0; h < info.query_heads.size(); ++h) {
        const auto sums = sums_of(rows, static_cast<index_t>(h), *rope);
        head_planes head{info.layer, info.query_heads[h], 0, {}};
        for (const auto& [document, s] : sums) head.queries += s.queries;
        for (index_t j = 0; j < rope->rotary_dim / 2; ++j) head.planes.emplace_back(sums, j);
        heads.push_back(std::move(head));
      }
    });
  }
  bar.done();
  require(first.has_value(), where, " has no layer with a rotary embedding");
  return {*std::move(first), std::move(heads)};
}

void write_planes(output_folder& out, const captured_planes& found) {
  struct row {
    const head_planes* head;
    index_t plane;
    double inv_freq;
    const plane_total* total;
  };
  table_columns<row> c;
  c.of(&row::head)
      .add("layer", "number of the layer", &head_planes::layer)
      .add("q_head", "number of the query head", &head_planes::q_head);
  c.add("plane", "number j of the plane", &row::plane);
  c.add("inv_freq", "radians per token", &row::inv_freq);
  c.add("queries", "number of rows behind the means", [](auto& r) { return r.head->queries; });
  c.add("q_mean_real", "mean of x", [](auto& r) { return r.total->z.real() / r.head->queries; });
  c.add("q_mean_imag", "mean of y", [](auto& r) { return r.total->z.imag() / r.head->queries; });
  c.add("q_abs_mean", "mean of sqrt(x^2 + y^2)", [](auto& r) { return r.total->size / r.head->queries; });
  c.add("concentration", "length of the mean over mean length, 0 to 1", [](auto& r) { return r.total->concentration; });
  out.write("triattention.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& head : found.heads)
      for (std::size_t j = 0; j < head.planes.size(); ++j)
        f(row{&head, static_cast<index_t>(j), found.rope.inv_freq[j], &head.planes[j]});
  }));
}

/// The means that both files hold as f32, each (planes).
struct head_means {
  std::vector<float> real, imaginary, size, concentration;

  explicit head_means(const head_planes& head) {
    for (const auto& p : head.planes) {
      real.push_back(static_cast<float>(p.z.real() / head.queries));
      imaginary.push_back(static_cast<float>(p.z.imag() / head.queries));
      size.push_back(static_cast<float>(p.size / head.queries));
      concentration.push_back(p.size > 0 ? static_cast<float>(p.concentration.value) : 0.0f);
    }
  }
};

/// Returns the base of a rotary embedding without scaling, whose plane j turns by base^(-2j / rotary_dim) radians per
/// token. Throws `error` for any other.
double base_of(const captured_rope& rope, const std::string& where) {
  const auto d = static_cast<double>(rope.rotary_dim), last = static_cast<double>(rope.inv_freq.size() - 1);
  const double base = last > 0 ? std::pow(rope.inv_freq.back(), -d / (2 * last)) : 1e4;
  for (std::size_t j = 0; j < rope.inv_freq.size(); ++j)
    require(std::abs(rope.inv_freq[j] * std::pow(base, 2 * static_cast<double>(j) / d) - 1) < 1e-4, where,
            " scales its rotary frequencies, but a TRIA file holds their base alone");
  return base;
}

/// Returns for each layer the mean concentration, over heads, in the two planes with the longest queries.
std::map<index_t, double> concentration_of(const std::vector<head_planes>& heads) {
  std::map<index_t, std::pair<double, double>> sums;
  for (const auto& head : heads) {
    const head_means m(head);
    std::vector<std::size_t> order(m.size.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t two = std::min<std::size_t>(2, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(two), order.end(),
                      [&](std::size_t a, std::size_t b) { return m.size[a] > m.size[b]; });
    auto& [sum, count] = sums[head.layer];
    for (std::size_t j = 0; j < two; ++j)
      sum += static_cast<double>(m.concentration[order[j]]) / static_cast<double>(two);
    ++count;
  }
  std::map<index_t, double> mean;
  for (const auto& [layer, s] : sums) mean[layer] = s.first / s.second;
  return mean;
}

std::string digits(index_t n) { return (n < 10 ? "0" : "") + std::to_string(n); }

}  // namespace

void export_triattention(output_folder& out, const arguments& a, const export_arguments& choice) {
  const auto source = capture_set::open(a.captures);
  const auto& manifest = source.manifest();
  for (const auto& info : manifest.layers)
    if (const auto rope = manifest.rope_of(info))
      require(rope->rotary_dim == manifest.model.head_dim, source.captures()[0].path().string(), ": layer ", info.layer,
              " turns ", rope->rotary_dim, " of ", manifest.model.head_dim,
              " coordinates of a head, but TriAttention reads planes of whole heads");
  const auto found = read_planes(source);
  write_planes(out, found);
  torch_value::list sampled_heads, inv_freq;
  torch_value::dict stats;
  for (const auto& head : found.heads) {
    head_means m(head);
    sampled_heads.push_back({torch_value::list{{head.layer}, {head.q_head}}});
    stats.emplace_back("layer" + digits(head.layer) + "_head" + digits(head.q_head),
                       torch_value{torch_value::dict{{"q_mean_real", {std::move(m.real)}},
                                                     {"q_mean_imag", {std::move(m.imaginary)}},
                                                     {"q_abs_mean", {std::move(m.size)}}}});
  }
  for (const double f : found.rope.inv_freq) inv_freq.push_back({f});
  torch_value::dict metadata{{"num_traces", {source.documents()}},
                             {"head_dim", {manifest.model.head_dim}},
                             {"dtype", {std::string(manifest.compute_dtype == "bf16" ? "bfloat16" : "float32")}},
                             {"use_chat_template", {false}},
                             {"system_prompt", {std::string()}},
                             {"attn_implementation", {std::string("qkgeom")}},
                             {"rope_style", {found.rope.style}},
                             {"inv_freq", {std::move(inv_freq)}},
                             {"num_layers", {manifest.model.n_layers}},
                             {"num_attention_heads", {manifest.model.n_query_heads}},
                             {"num_kv_heads", {manifest.model.n_key_heads}},
                             {"sampled_heads", {std::move(sampled_heads)}},
                             {"documents", {choice.texts}}};
  for (auto& [name, fact] : provenance_of(source)) metadata.emplace_back(name, torch_value{std::move(fact)});
  write_torch(out.table("triattention.pt"),
              {torch_value::dict{{"metadata", {std::move(metadata)}}, {"stats", {std::move(stats)}}}});
}

void export_tria(output_folder& out, const arguments& a, const export_arguments& choice) {
  const auto source = capture_set::open(a.captures);
  const auto& manifest = source.manifest();
  const auto& model = manifest.model;
  const std::string where = source.captures()[0].path().string();
  std::string absent;
  for (index_t l = 0; l < model.n_layers; ++l) {
    const index_t at = manifest.find_layer(l);
    if (at < 0) {
      absent += " " + std::to_string(l);
      continue;
    }
    const auto& info = manifest.layers[at];
    require(static_cast<index_t>(info.query_heads.size()) == model.n_query_heads, where, ": layer ", l,
            " was captured in part, but a TRIA file holds every head of a layer");
    require(info.rope, where, ": layer ", l,
            " has no rotary embedding, but a TRIA file's reader turns the keys of every layer");
  }
  if (!absent.empty())
    choice.note("the capture lacks layers" + absent +
                ": they are zeros in the file, which is right only where layers have no keys (delta nets)");
  const auto found = read_planes(source);
  const auto& rope = found.rope;
  const double base = base_of(rope, where);
  write_planes(out, found);
  const auto planes = rope.rotary_dim / 2;
  std::vector<std::uint32_t> words;  // all fields have four bytes
  const auto add = [&](double x) { words.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(x))); };
  for (const index_t x : {index_t{0x54524941}, index_t{2}, model.n_layers, model.n_query_heads, model.n_key_heads,
                          rope.rotary_dim, planes})
    words.push_back(static_cast<std::uint32_t>(x));
  add(base);
  add(rope.attention_factor);
  words.resize(16);  // the header's 64 bytes
  std::vector<double> scale(static_cast<std::size_t>(model.n_layers), 1);
  const auto concentration = concentration_of(found.heads);
  double mean = 0;
  for (const auto& [layer, c] : concentration) mean += (2 - c) / static_cast<double>(concentration.size());
  for (const auto& [layer, c] : concentration) scale[static_cast<std::size_t>(layer)] = (2 - c) / mean;
  for (const double x : scale) add(x);
  auto head = found.heads.begin();
  for (index_t l = 0; l < model.n_layers; ++l)
    for (index_t h = 0; h < model.n_query_heads; ++h) {
      if (manifest.find_layer(l) < 0) {
        words.resize(words.size() + 4 * static_cast<std::size_t>(planes));
        continue;
      }
      const head_means m(*head++);
      for (const auto* values : {&m.real, &m.imaginary, &m.size, &m.concentration})
        for (const float x : *values) add(static_cast<double>(x));
    }
  write_text(out.table("tria.bin"),
             {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(std::uint32_t)});
  write_origin(out, source, choice);
}

}  // namespace qkgeom::examples
