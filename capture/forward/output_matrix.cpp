// SPDX-License-Identifier: MIT
#include "capture/forward/output_matrix.hpp"

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

}  // namespace qkgeom
