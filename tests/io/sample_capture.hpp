// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_writer.hpp"

namespace qkgeom::test {

/// A manifest of two layers (0 with heads of both groups, 2 without RoPE and with a window) and three documents.
inline capture_manifest sample_manifest() {
  capture_manifest m;
  m.model = {"sample", "llama", "00", 3, 4, 4, 2};
  m.context_length = 32;
  m.bucket = {"uniform", 8};
  m.rate = 0.5;
  m.seed = 7;
  m.layers.push_back({0, true, std::nullopt, {0, 3}, {0, 1}, std::nullopt});
  m.layers.push_back({2, false, 16, {1}, {0}, std::nullopt});
  m.documents = {{0, "a", 32, json{{"task", "qa"}}}, {1, "b", 20, nullptr}, {4, "c", 32, nullptr}};
  m.written_by = "test";
  return m;
}

/// Rows of one side: five for each document given, with elements that tell where they belong.
template <class T>
struct sample_side {
  std::vector<T> data;
  std::vector<std::int32_t> position, document, token;

  sample_side(const std::vector<index_t>& documents, index_t heads, index_t dim, index_t step) {
    for (const index_t e : documents)
      for (index_t i = 0; i < 5; ++i) {
        position.push_back(static_cast<std::int32_t>(i * step));
        document.push_back(static_cast<std::int32_t>(e));
        token.push_back(static_cast<std::int32_t>(100 + i));
        for (index_t j = 0; j < heads * dim; ++j) {
          const auto x = static_cast<float>(100 * e + 10 * i + j);
          if constexpr (requires { T::round(x); })
            data.push_back(T::round(x));
          else
            data.push_back(static_cast<T>(x));
        }
      }
  }
  side_to_write view() const { return {std::as_bytes(std::span(data)), position, document, token}; }
};

/// Rows of both layers of the sample for the given documents.
template <class T = float>
struct sample_rows {
  sample_side<T> q0, k0, q2, k2;

  explicit sample_rows(const std::vector<index_t>& documents = {0, 1, 4})
      : q0(documents, 2, 3, 3), k0(documents, 2, 3, 2), q2(documents, 1, 3, 1), k2(documents, 1, 3, 4) {}
  std::vector<layer_to_write> layers() const {
    return {{0, dtype_of<T>(), q0.view(), k0.view()}, {2, dtype_of<T>(), q2.view(), k2.view()}};
  }
};

/// What the softmax and the losses of the sample's documents might have been, over buckets of 8 tokens. The third
/// document ends in its third bucket.
struct sample_statistics {
  static constexpr index_t buckets = 4, bins = 6;
  std::vector<std::vector<double>> values{};
  std::vector<tensor_to_write> tensors{};

  explicit sample_statistics(const std::vector<index_t>& documents = {0, 1, 4}) {
    const auto e = static_cast<index_t>(documents.size());
    values.reserve(16);  // tensors point into it
    for (const auto& l : sample_manifest().layers) {
      const auto heads = static_cast<index_t>(l.query_heads.size());
      const std::string name = "layer." + std::to_string(l.layer) + ".attention";
      add(name + ".count", {e, buckets}, documents, [](index_t d, index_t i) { return queries(d, i); });
      add(name + ".first", {e, heads, buckets, 3}, documents, [&](index_t d, index_t i) {
        return queries(d, i / 3 % buckets) * static_cast<double>(1 + i % 3) * share(d, l.layer, i / 3) / 4;
      });
      add(name + ".distance", {e, heads, buckets, bins}, documents, [&](index_t d, index_t i) {
        return queries(d, i / bins % buckets) * static_cast<double>(1 + i % bins) / 21;
      });
      add(name + ".entropy", {e, heads, buckets}, documents,
          [&](index_t d, index_t i) { return queries(d, i % buckets) * 2 * share(d, l.layer, i); });
    }
    add("loss.count", {e, buckets}, documents, [](index_t d, index_t i) { return queries(d, i); });
    add("loss.sum", {e, buckets}, documents,
        [](index_t d, index_t i) { return queries(d, i) * (3 + 0.1 * static_cast<double>(d)); });
  }
  /// Queries of document d in bucket b.
  static double queries(index_t d, index_t b) { return d == 4 && b >= 2 ? 3.0 * static_cast<double>(3 - b) : 8; }
  /// A number from 0 to 1 of a document and a cell of a layer.
  static double share(index_t d, index_t layer, index_t cell) {
    return 0.1 + 0.05 * static_cast<double>((d * 7 + layer * 3 + cell) % 11);
  }
  static capture_manifest manifest() {
    auto m = sample_manifest();
    m.extra["softmax"] = m.extra["loss"] = {{"bucket_size", 8}};
    return m;
  }

 private:
  template <class Value>
  void add(const std::string& name, const std::vector<index_t>& shape, const std::vector<index_t>& documents,
           const Value& value) {
    index_t inner = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) inner *= shape[i];
    std::vector<double> list;
    for (const index_t d : documents)
      for (index_t i = 0; i < inner; ++i) list.push_back(value(d, i));
    values.push_back(std::move(list));
    tensors.push_back(tensor_of(name, shape, values.back().data()));
  }
};

/// Writes the sample as a folder of two shards: documents 0 and 1, then 4.
template <class T = float>
void write_sample_folder(const std::filesystem::path& folder, bool statistics = false) {
  const auto m = statistics ? sample_statistics::manifest() : sample_manifest();
  capture_writer writer(folder, m);
  const auto add = [&](const std::vector<captured_document>& documents, const std::vector<index_t>& numbers) {
    const sample_statistics extra(numbers);
    writer.add_shard(documents, sample_rows<T>(numbers).layers(),
                     statistics ? extra.tensors : std::vector<tensor_to_write>{});
  };
  add({(*m.documents)[0], (*m.documents)[1]}, {0, 1});
  add({(*m.documents)[2]}, {4});
  writer.finish();
}

}  // namespace qkgeom::test
