// SPDX-License-Identifier: MIT
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "capture/device_attention.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {

/// cuDNN's fused attention on one stream. Plans are made once for each shape, and kept.
class cudnn_attention {
 public:
  explicit cudnn_attention(cudaStream_t stream);
  ~cudnn_attention();

  /// Does the call, or returns false where cuDNN has no kernel for its shape.
  bool operator()(const attention_call<bf16>& call);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace qkgeom
