// SPDX-License-Identifier: MIT
#pragma once

#include "capture/forward/forward_pass.hpp"
#include "capture/job/run_capture.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Layers whose weights stay on the device between batches: those that fit beside the working memory, all, or none.
enum class resident_layers { automatic, all, stream };

/// Options of a forward pass on a device.
struct cuda_capture_options {
  resident_layers resident = resident_layers::automatic;
  index_t max_length = 0;    ///< tokens of the longest document; 0: the model's context
  index_t batch_tokens = 0;  ///< most tokens of a batch of several documents
  bool softmax = false;      ///< whether softmax statistics are measured; `automatic` leaves room for them
  index_t chunk = 0;         ///< rows of a document that go through a layer together; 0: the default of decoder_options
};

/// Makes forward passes on the first CUDA device. Throws `error` if there is none.
forward_pass_factory cuda_forward_pass(const cuda_capture_options& options);

/// Makes forward pass and moments of one capture on the first CUDA device, for a model that runs in `type`. Throws
/// `error` if there is none.
capture_backend cuda_backend(const cuda_capture_options& options, compute_type type);

}  // namespace qkgeom
