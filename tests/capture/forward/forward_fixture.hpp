// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "capture/forward/cpu_forward_pass.hpp"
#include "capture/model/checkpoint.hpp"
#include "qkgeom/io/json.hpp"
#include "qkgeom/io/safetensors.hpp"
#include "tests/common/data_files.hpp"

namespace qkgeom {

/// A model's tensors by name, to be changed and written.
template <class T>
struct weight_values {
  std::vector<index_t> shape;
  std::vector<T> values;
};
template <class T>
using model_weights = std::map<std::string, weight_values<T>>;

/// The weights of a folder's model.safetensors, all in bf16.
inline model_weights<bf16> read_weights(const std::filesystem::path& folder) {
  const safetensors_file file(folder / "model.safetensors");
  model_weights<bf16> weights;
  for (const auto& t : file.tensors()) {
    const auto values = file.values<bf16>(t);
    weights[t.name] = {t.shape, {values.begin(), values.end()}};
  }
  return weights;
}
template <class T>
void write_weights(const std::filesystem::path& folder, const model_weights<T>& weights) {
  std::filesystem::create_directories(folder);
  std::vector<tensor_to_write> tensors;
  for (const auto& [name, t] : weights) tensors.push_back(tensor_of(name, t.shape, t.values.data()));
  write_safetensors(folder / "model.safetensors", tensors);
}

/// What transformers computed: ids in; q, k of every layer as its attention function receives them, or of its indexer.
struct forward_fixture {
  std::string file, folder;

  safetensors_file open() const { return safetensors_file(file); }
  /// Its ids, at most that many.
  std::vector<std::int32_t> ids(std::size_t most = std::size_t(-1)) const {
    const safetensors_file fixture = open();
    const auto all = fixture.values<std::int32_t>("ids");
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), most))};
  }

  /// The model as its config.json and the fixture's rope scaling describe it.
  decoder_description description() const {
    json config = read_json(folder + "/config.json");
    const safetensors_file fixture = open();
    const auto scaling = fixture.metadata().find("rope_scaling");
    if (scaling != fixture.metadata().end() && !scaling->second.empty())
      config = with_rope_scaling(std::move(config), scaling->second);
    decoder_description d = read_description(config);
    d.indexer_rows = fixture.metadata().contains("heads_of");
    return d;
  }
};

/// Runs one document; the sink gets queries and keys of each layer.
template <class Sink>
void run_document(forward_pass& pass, token_span ids, rope_stage stage, const Sink& sink) {
  batch_sinks sinks;
  sinks.rows = [&](std::size_t, index_t layer, auto q, auto k) { sink(layer, q, k); };
  pass.run({&ids, 1}, stage, sinks);
}

/// The entries of x, (heads, rows, dim).
inline std::vector<float> values_of(tensor_view<const float> x) {
  std::vector<float> values;
  for (index_t h = 0; h < x.heads; ++h)
    for (index_t t = 0; t < x.rows; ++t) values.insert(values.end(), x.head(h).row(t), x.head(h).row(t) + x.dim);
  return values;
}

using named_tensors = std::map<std::string, std::vector<float>>;

inline std::unique_ptr<forward_pass> on_the_cpu(const decoder_description& d, const checkpoint& model,
                                                compute_type type, index_t last_layer, thread_pool& pool) {
  return cpu_forward_pass(d, model, type, last_layer, pool);
}

/// Runs `ids` through a model and picks positions; q and k of every layer as (heads, positions, head_dim).
inline named_tensors rows_of(const std::filesystem::path& folder, const decoder_description& description,
                             token_span ids, const std::vector<std::int32_t>& positions, compute_type type,
                             const forward_pass_factory& make = on_the_cpu, int threads = 2) {
  const checkpoint model(folder);
  thread_pool pool(threads);
  const auto pass = make(description, model, type, description.n_layers() - 1, pool);
  named_tensors out;
  run_document(*pass, ids, rope_stage::post,
               [&](index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
                 for (const auto& [name, x] : {std::pair{".q", q}, {".k", k}}) {
                   auto& to = out["layer." + std::to_string(layer) + name];
                   for (index_t h = 0; h < x.heads; ++h)
                     for (const std::int32_t t : positions)
                       to.insert(to.end(), x.head(h).row(t), x.head(h).row(t) + x.dim);
                 }
               });
  return out;
}

/// `rows_of` the fixture's ids at its positions.
inline named_tensors run_fixture(const forward_fixture& f, const decoder_description& description, compute_type type,
                                 const forward_pass_factory& make = on_the_cpu, int threads = 2) {
  const safetensors_file fixture = f.open();
  const auto positions = fixture.values<std::int32_t>("position");
  return rows_of(f.folder, description, f.ids(), {positions.begin(), positions.end()}, type, make, threads);
}

/// Writes the rows of all positions of `ids` as the reference of `qkgeom capture --check`.
inline void write_reference(const std::filesystem::path& file, const decoder_description& d, token_span ids,
                            const named_tensors& rows) {
  const auto n = static_cast<index_t>(ids.size());
  std::vector<tensor_to_write> tensors{{"ids", "I32", {n}, std::as_bytes(ids)}};
  for (const auto& [name, x] : rows)  // layer.N.q becomes q.N
    tensors.push_back({name.back() + name.substr(5, name.size() - 7),
                       "F32",
                       {name.back() == 'q' ? d.query_heads : d.key_heads, n, d.head_dim},
                       std::as_bytes(std::span(x))});
  write_safetensors(file, tensors);
}

template <class T>
std::vector<float> widened(const safetensors_file& file, const std::string& name) {
  const auto v = file.values<T>(name);
  return {v.begin(), v.end()};
}

inline Eigen::VectorXd in_f64(const std::vector<float>& x) {
  return Eigen::Map<const Eigen::VectorXf>(x.data(), std::ssize(x)).cast<double>();
}
inline double norm(const std::vector<float>& x) { return in_f64(x).norm(); }
inline double distance(const std::vector<float>& x, const std::vector<float>& y) {
  return x.size() == y.size() ? (in_f64(x) - in_f64(y)).norm() : HUGE_VAL;
}

/// The tiny checkpoint of a family (tests/data/make_family_fixtures.py).
inline forward_fixture family_fixture(const std::string& name) {
  const std::string folder = test::family_folder(name);
  return {folder + "/forward.safetensors", folder};
}

/// The rows of a family's indexers.
inline forward_fixture indexer_fixture(const std::string& name) {
  return {test::family_folder(name) + "/indexer.safetensors", test::family_folder(name)};
}

/// The bundled model, a Llama with llama3 scaling and biases, and every family's checkpoint.
inline std::vector<forward_fixture> forward_fixtures() {
  std::vector<forward_fixture> list;
  for (const char* name : {"forward-short", "forward-mid", "forward-long"}) {
    const std::string file = std::string(QKGEOM_TEST_DATA) + "/forward/" + name + ".safetensors";
    list.push_back({file, std::string(QKGEOM_EXAMPLE_DATA) + "/kjv-smollm3/" +
                              safetensors_file(file).metadata().at("checkpoint")});
  }
  const std::string llama = std::string(QKGEOM_TEST_DATA) + "/llama-tiny";
  list.push_back({llama + "/forward.safetensors", llama});
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(QKGEOM_TEST_DATA) + "/families"))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    list.push_back(family_fixture(name));
    if (const forward_fixture f = indexer_fixture(name); std::filesystem::exists(f.file)) list.push_back(f);
  }
  return list;
}

}  // namespace qkgeom
