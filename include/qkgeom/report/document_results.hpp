// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/io/safetensors.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/document_analysis.hpp"

namespace qkgeom {

/// Names in heads.csv of the numbers of a head's geometry that are stored per document: `rotation_numbers` in their
/// order, then each side's share of variance that is linear in position.
std::vector<std::string> kept_numbers();

/// Shape of the results of documents in one layer.
struct document_shape {
  index_t heads = 0, dim = 0;
  std::vector<covariance_kind> covariances{};
  bucket_edges buckets{};
  index_t context_length = 0;  ///< tokens
  index_t heatmap_cell = 0;    ///< tokens; 0: no heatmap

  index_t cells() const { return heatmap_cell > 0 ? (context_length + heatmap_cell - 1) / heatmap_cell : 0; }
};

/// Results of analysed documents in one layer, stored as tensors of a shard, from which reports are rebuilt: PCA and
/// rotation as they are, profiles and the headline's heatmap as sums over pairs. A document without results has no
/// tokens.
class document_results {
 public:
  explicit document_results(document_shape shape) : shape_(std::move(shape)) {}
  const document_shape& shape() const { return shape_; }
  index_t documents() const { return documents_; }

  /// Makes room for `count` documents without results; `more` will follow.
  void add_documents(index_t count, index_t more = 0);

  /// Keeps the reports of a document's heads, as `document_analysis` gives them.
  void put(index_t document, const std::vector<head_report>& heads);

  /// The reports of a document's heads; none if it has no results. Their one document gets the number `id`.
  std::vector<head_report> get(index_t document, const analysed_layer& layer, std::int32_t id) const;

  /// All results as tensors `NAME.numbers` and so on, (documents, ...); valid until the next change.
  std::vector<tensor_to_write> tensors(const std::string& name) const;
  /// Reads these tensors. Throws `error` naming file and tensor where a shape or a count is wrong.
  void read(const safetensors_file& file, const std::string& name, index_t documents);
  void clear();

 private:
  static constexpr double none = std::numeric_limits<double>::quiet_NaN();

  struct array {
    const char* name;
    std::vector<index_t> shape;
    std::vector<double>* values;
    double missing;
  };
  std::vector<array> arrays(index_t documents);

  void put_geometry(std::size_t at, const head_report& head);
  void get_geometry(std::size_t at, head_report& head) const;

  void put_heatmap(const plasticity_heatmap& map, std::size_t at, index_t document);
  void get_heatmap(index_t document, std::size_t at, plasticity_heatmap& map) const;

  plasticity_profile_result profile(index_t document, const double* sum, covariance_kind covariance,
                                    std::int32_t id) const;

  document_shape shape_;
  index_t kept_ = static_cast<index_t>(kept_numbers().size());
  index_t documents_ = 0;
  std::vector<double> numbers_, components_, tokens_, queries_, pairs_, sum_, heatmap_pairs_, heatmap_sum_;
};

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/report/detail/document_results.hpp"
#endif
