// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "capture/model/description.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Weights of a model before its training: matrices and embeddings are independent normal draws with mean 0 and one
/// standard deviation, norms multiply by 1, biases are 0, as transformers initialises every family read here; sinks and
/// biases of routers (GPT-OSS) are drawn too; the fading of delta nets (Qwen 3.5) and its offsets (OLMo Hybrid) are
/// drawn too. Entry i of a tensor depends on the seed, the tensor's name and i alone.
class untrained_weights {
 public:
  /// Takes names of tensors and the form of norms from `model`; `deviation` is config.json's initializer_range.
  untrained_weights(const decoder_description& model, double deviation, std::uint64_t seed);

  /// Returns whether the model has this embedding or output matrix; all other tensors are assumed to exist.
  bool has(const std::string& name) const { return name == embedding_ || name == output_; }

  /// Draws entries [first, first + count) of the tensor `name`, row-major; `is_matrix`: it has two dimensions.
  void read(const std::string& name, bool is_matrix, index_t first, index_t count, float* out) const;

  /// Returns the SHA-256 of the seed and the deviation, which tells draws apart.
  std::string fingerprint() const;

 private:
  std::string embedding_, output_;  // output_ is empty if the embedding is the output matrix
  double deviation_;
  std::uint64_t seed_;
  float norm_;        // entries of norms as the checkpoint stores them
  bool draws_steps_;  ///< offsets of a delta net (OLMo Hybrid)
};

/// Reads initializer_range of config.json or of its text model; 0.02 without one, as in transformers. Throws `error`
/// unless it is positive.
double initializer_range(const nlohmann::json& config);

}  // namespace qkgeom
