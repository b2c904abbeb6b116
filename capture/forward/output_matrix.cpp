// SPDX-License-Identifier: MIT
#include "capture/forward/output_matrix.hpp"

#include <algorithm>
#include <vector>

#include "capture/forward/layer_weights.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

output_matrix find_output(const decoder_description& d, const checkpoint& weights, const std::string& prefix) {
  weights.check(prefix + d.final_norm + ".weight", {d.hidden});
  if (d.norm == norm_kind::layer) weights.check(prefix + d.final_norm + ".bias", {d.hidden});
  output_matrix found;
  std::string tried;
  const auto has = [&](const std::string& name, index_t rows) {
    tried += (tried.empty() ? "" : " nor ") + name;
    if (!weights.has(name)) return false;
    found = {name, {rows, d.hidden}};
    weights.check(found.name, found.shape);
    return true;
  };
  // The model's own output matrix comes before a tied embedding, as in transformers.
  for (const std::string& name : d.outputs)
    if (has(name, d.vocabulary)) return found;
  if (d.tied && has(prefix + d.embedding + ".weight", d.embedding_rows > 0 ? d.embedding_rows : d.vocabulary))
    return found;
  fail("the loss needs the output matrix, but the checkpoint has no tensor ", tried);
}

bool has_own_output(const decoder_description& d, const checkpoint& weights) {
  const std::string prefix = find_prefix(d, weights), embedding = prefix + d.embedding + ".weight";
  const output_matrix out = find_output(d, weights, prefix);
  if (out.name == embedding) return false;
  const index_t rows = d.embedding_rows > 0 ? d.embedding_rows : d.vocabulary;
  if (rows != out.shape[0]) return true;
  constexpr index_t at_once = 1024;
  std::vector<float> a(static_cast<std::size_t>(at_once * d.hidden)), b(a.size());
  for (index_t first = 0; first < rows; first += at_once) {
    const index_t count = std::min(at_once, rows - first), n = count * d.hidden;
    weights.read(embedding, {rows, d.hidden}, first, count, false, a.data());
    weights.read(out.name, out.shape, first, count, false, b.data());
    if (!std::equal(a.begin(), a.begin() + n, b.begin())) return true;
  }
  return false;
}

}  // namespace qkgeom
