// SPDX-License-Identifier: MIT
// Captures: the analysis of those on disk, the draw of tokens, and the writing of new ones.
#include <nanobind/stl/variant.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "arguments.hpp"
#include "python.hpp"
#include "qkgeom/io/capture_writer.hpp"
#include "qkgeom/report/analyse.hpp"
#include "qkgeom/sampling/token_draw.hpp"
#include "watched_context.hpp"

namespace qkgeom::python {

namespace {

model_report analyse_capture(const capture_set& source, const buckets_argument& buckets,
                             std::vector<std::string> covariance, std::string pairs, index_t sampled_pairs,
                             bool heatmap, std::uint64_t seed, std::vector<std::pair<index_t, index_t>> heads,
                             nb::object progress) {
  auto options = options_of(buckets, covariance, pairs, sampled_pairs, heatmap, seed);
  for (const auto& [layer, head] : heads) {
    const auto& all = source.manifest().layer(layer).query_heads;
    require(std::find(all.begin(), all.end(), head) != all.end(), "heads: layer ", layer, " head ", head,
            " is not in this capture");
    options.heads.push_back({layer, head});
  }
  const index_t total = analysed_heads(source.manifest(), options);
  auto report = run([&](cpu_context& ctx) {
    index_t done = 0;
    return analyse(ctx, source, options, [&](index_t n) {
      done += n;
      check_signals();
      if (progress.is_none()) return;
      const nb::gil_scoped_acquire gil;
      const calling_back mark;
      PyObject* const result =
          PyObject_CallFunction(progress.ptr(), "LL", static_cast<long long>(done), static_cast<long long>(total));
      if (result == nullptr) throw interrupted{};
      Py_DECREF(result);
    });
  });
  note_pairs(report);
  return report;
}

/// One side of a layer to be written, its rows packed.
struct packed_side {
  array_rows rows;
  array_ints position, document;
  std::vector<std::byte> data{};

  packed_side(nb::handle x, nb::handle positions, nb::handle documents, const char* name)
      : rows(x, name), position(positions, "positions"), document(documents, "documents") {
    visit_element_type(rows.element, [&]<class T>() {
      const auto v = rows.view<T>();
      const auto bytes = static_cast<std::size_t>(v.dim) * sizeof(T);
      data.resize(static_cast<std::size_t>(v.rows * v.heads) * bytes);
      auto* to = data.data();
      for (index_t i = 0; i < v.rows; ++i)
        for (index_t h = 0; h < v.heads; ++h, to += bytes)
          std::memcpy(to, v.data + i * v.row_stride + h * v.head_stride, bytes);
    });
  }
  side_to_write to_write() const {
    const auto ints = [](const array_ints& v) {
      return std::span<const std::int32_t>(v.view().data, static_cast<std::size_t>(v.view().size));
    };
    return {data, ints(position), ints(document), {}};
  }
};

void write_capture(const std::string& folder, const std::string& manifest_json, nb::list layers, nb::dict statistics) {
  auto manifest = parse_manifest(manifest_json, "manifest");
  std::vector<std::unique_ptr<packed_side>> sides;
  std::vector<layer_to_write> out;
  for (nb::handle item : layers) {
    const auto one = nb::cast<nb::tuple>(item);
    require(one.size() == 7, "layers: each is (number, q, q_positions, q_documents, k, k_positions, k_documents)");
    sides.push_back(std::make_unique<packed_side>(one[1], one[2], one[3], "q"));
    sides.push_back(std::make_unique<packed_side>(one[4], one[5], one[6], "k"));
    const auto &q = *sides[sides.size() - 2], &k = *sides.back();
    require(q.rows.element == k.rows.element, "q and k of a layer must hold the same type");
    out.push_back({nb::cast<index_t>(one[0]), q.rows.element, q.to_write(), k.to_write()});
  }
  std::vector<nb::ndarray<const double, nb::c_contig, nb::device::cpu>> arrays;
  std::vector<tensor_to_write> extra;
  for (const auto& [name, x] : statistics) {
    const auto& a = arrays.emplace_back(nb::cast<nb::ndarray<const double, nb::c_contig, nb::device::cpu>>(x));
    extra.push_back(tensor_of(nb::cast<std::string>(name), {a.shape_ptr(), a.shape_ptr() + a.ndim()}, a.data()));
  }
  const nb::gil_scoped_release released;
  const auto documents = manifest.documents.value_or(std::vector<captured_document>{});
  capture_writer writer(folder, manifest);
  writer.add_shard(documents, out, extra);
  writer.finish();
}

nb::ndarray<nb::numpy, const std::int32_t, nb::ndim<1>> drawn(const std::string& kind, index_t bucket_size, double rate,
                                                              index_t skip_first, index_t tokens, std::uint64_t seed,
                                                              std::uint32_t document, std::uint32_t layer,
                                                              const std::string& side) {
  const auto* known = std::ranges::find(sampler_names, kind, &std::pair<std::string_view, sampler_kind>::first);
  require(known != std::end(sampler_names), "kind must be uniform, log2 or all, not ", kind);
  require(side == "q" || side == "k", "side must be q or k, not ", side);
  auto* const kept = new std::vector<std::int32_t>(
      draw_tokens({known->second, bucket_size, rate, skip_first}, tokens,
                  {seed, document, layer, side == "q" ? draw::query_token : draw::key_token}));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<std::int32_t>*>(p); });
  return {kept->data(), {kept->size()}, owner};
}

}  // namespace

void bind_captures(nb::module_& m) {
  nb::class_<capture_set>(m, "CaptureSet", "Captures of one model over different documents, as one.")
      .def_prop_ro(
          "context_length", [](const capture_set& c) { return c.manifest().context_length; }, "tokens")
      .def_prop_ro("model", [](const capture_set& c) { return c.manifest().model.name; })
      .def_prop_ro("layers", [](const capture_set& c) { return c.layers(); })
      .def_prop_ro("manifest_json", [](const capture_set& c) { return manifest_text(c.manifest(), -1); })
      .def("analyse", &analyse_capture, nb::arg("buckets") = nb::none(),
           nb::arg("covariance") = std::vector<std::string>{"joint"}, nb::arg("pairs") = "all",
           nb::arg("sampled_pairs") = 0, nb::arg("heatmap") = true, nb::arg("seed") = 0,
           nb::arg("heads") = std::vector<std::pair<index_t, index_t>>{}, nb::arg("progress") = nb::none(),
           "The analysis that `qkgeom heads` runs; progress(done, total) is called after each layer.");
  m.def(
      "open_captures",
      [](const std::vector<std::string>& paths) {
        const nb::gil_scoped_release released;
        return capture_set::open({paths.begin(), paths.end()});
      },
      nb::arg("paths"));
  m.def("draw_tokens", &drawn, nb::arg("kind"), nb::arg("bucket_size"), nb::arg("rate"), nb::arg("skip_first"),
        nb::arg("tokens"), nb::arg("seed"), nb::arg("document"), nb::arg("layer"), nb::arg("side"),
        "Positions (n) that qkgeom capture keeps of a document of so many tokens (4.1.2).");
  m.def("write_capture", &write_capture, nb::arg("folder"), nb::arg("manifest_json"), nb::arg("layers"),
        nb::arg("statistics"),
        nb::sig("def write_capture(folder: str, manifest_json: str, layers: list[tuple[typing.Any, ...]], statistics: "
                "typing.Mapping[str, typing.Any]) -> None"),
        "Writes a capture of one shard; layers: (number, q, q_positions, q_documents, k, k_positions, k_documents);\n"
        "statistics: f64 tensors of the softmax and the losses by name (docs/formats.md).");
}

}  // namespace qkgeom::python
