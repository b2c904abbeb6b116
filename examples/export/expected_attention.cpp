// SPDX-License-Identifier: MIT
#include <map>
#include <vector>

#include "examples/common/each_layer.hpp"
#include "examples/export/exports.hpp"
#include "qkgeom/io/safetensors.hpp"

namespace qkgeom::examples {

void export_expected_attention(output_folder& out, const arguments& a, const export_arguments& choice) {
  const auto source = capture_set::open(a.captures);
  require_before_rope(source);
  require_every_head(source);
  const auto& manifest = source.manifest();
  const auto& model = manifest.model;
  const auto d = model.head_dim;
  if (const auto& rope = manifest.rope; rope && (rope->style != "half" || rope->rotary_dim != d))
    choice.note(
        std::string("this model turns ") + (rope->style == "half" ? "a part of a head's" : "neighbouring") +
        " coordinates, but kvpress turns the halves of whole heads: the file is right, its use in kvpress is not");
  const index_t skipped = skipped_tokens(source);
  if (skipped == 0)
    choice.note(
        "the statistics hold the first tokens of documents, which kvpress leaves out (n_sink 4); "
        "qkgeom capture --skip-first 4 does too");
  std::vector<float> mean, covariance;
  cpu_context cpu{{.threads = a.threads}};
  cpu.pool().watch(a.watch);
  for_each_layer(cpu, source, a, analysis_options{}, "export",
                 [&](const captured_layer& layer, const auto&, const layer_moments& moments) {
                   for (std::size_t h = 0; h < moments.q.size(); ++h) {
                     const row_moments& m = moments.q[h].total;
                     require(m.count > 1, "layer ", layer.layer, ": head ", layer.query_heads[h],
                             " has fewer than two queries");
                     for (const double x : m.mean) mean.push_back(static_cast<float>(x));
                     for (const double x : m.xx)
                       covariance.push_back(static_cast<float>(x / static_cast<double>(m.count - 1)));
                   }
                 });
  json config{{"num_layers", model.n_layers},
              {"num_heads", model.n_query_heads},
              {"head_dim", d},
              {"dataset_name", choice.texts},
              {"model_name", model.name},
              {"num_samples", source.documents()},
              {"sample_seq_len", manifest.context_length},
              {"n_sink", skipped}};
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  for (const auto& [name, fact] : provenance_of(source)) config[name] = metadata[name] = fact;
  write_safetensors(out.table("model.safetensors"),
                    {tensor_of("query_mean", {model.n_layers, model.n_query_heads, d}, mean.data()),
                     tensor_of("query_cov", {model.n_layers, model.n_query_heads, d, d}, covariance.data())},
                    metadata);
  write_text(out.table("config.json"), config.dump(2) + "\n");
}

}  // namespace qkgeom::examples
