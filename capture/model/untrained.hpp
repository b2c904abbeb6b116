// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "capture/model/description.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Weights of a model before its training: matrices and embeddings are independent normal draws with mean 0 and one
/// standard deviation, norms multiply by 1, biases are 0, as transformers initialises every family read here; sinks and
/// biases of routers (GPT-OSS) are drawn too; a delta net fades by uniform draws (Qwen 3.5). Entry i of a tensor
/// depends on the seed, the tensor's name and i alone.
class untrained_weights {
 public:
  /// Names of tensors and the form of norms are those of `model`; `deviation` is config.json's initializer_range.
  untrained_weights(const decoder_description& model, double deviation, std::uint64_t seed);

  /// Whether the model has this embedding or output matrix. Other tensors are taken to be there.
  bool has(const std::string& name) const { return name == embedding_ || name == output_; }

  /// Entries [first, first + count) of the tensor `name`, row-major; `is_matrix`: it has two dimensions.
  void read(const std::string& name, bool is_matrix, index_t first, index_t count, float* out) const;

  /// SHA-256 of the seed and the deviation: it tells one draw from another.
  std::string fingerprint() const;

 private:
  std::string embedding_, output_;  // output_ is empty where the embedding serves as output matrix
  double deviation_;
  std::uint64_t seed_;
  float norm_;  // norms' entries as the checkpoint stores them
};

/// config.json's initializer_range, or its text model's; 0.02 where it has none, as in transformers. Throws `error`
/// unless it is positive.
double initializer_range(const nlohmann::json& config);

}  // namespace qkgeom
