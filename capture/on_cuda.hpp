// SPDX-License-Identifier: MIT
#pragma once

#include "capture/forward/forward_pass.hpp"
#include "capture/job/job.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Which layers' weights stay on the device from one batch of documents to the next: as many as memory holds beside the
/// work, all, or none.
enum class resident_layers { automatic, all, stream };

struct cuda_capture_options {
  resident_layers resident = resident_layers::automatic;
  index_t longest = 0;   ///< tokens of a document, at most; 0: the model's context
  index_t batch = 0;     ///< tokens of documents that run together, at most, if one is not longer
  bool softmax = false;  ///< what the softmax gives is measured, which `automatic` leaves room for
  index_t chunk = 0;     ///< rows of a document that go through a layer together; 0: as a decoder has it
};

/// Makes forward passes on the first CUDA device. Throws `error` if there is none.
forward_pass_factory cuda_forward_pass(const cuda_capture_options& options);

/// The forward pass and the analyses of one capture on the first CUDA device, for a model that runs in `type`: moments
/// are taken and documents analysed where their rows lie. Throws `error` if there is none.
capture_backend cuda_backend(const cuda_capture_options& options, compute_type type);

}  // namespace qkgeom
