// SPDX-License-Identifier: MIT
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "capture/forward/blockwise_attention.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {

/// Runs cuDNN's fused attention on one stream. Splits a call in one or two parts whose numbers of rows are powers of
/// two and keeps one plan for each; a plan takes the number of keys as an argument. cuDNN's dynamic shapes (one plan
/// for all) are not used: version 9.19 gives wrong numbers with them on an H100, other versions lack them.
class cudnn_attention {
 public:
  /// copy(to, from, bytes) brings host memory to the device in the order of the stream; `from` may change after it.
  using copy_to_device = std::function<void(void*, const void*, std::size_t)>;

  cudnn_attention(cudaStream_t stream, copy_to_device copy);
  ~cudnn_attention();

  /// Returns the working bytes of a call; no value if cuDNN has no kernel for it or has failed.
  std::optional<index_t> working_bytes(const attention_call<bf16>& call);

  /// Returns in one line why cuDNN has no kernel for a call or has failed.
  std::string why_not(const attention_call<bf16>& call);

  /// Runs a call that has a kernel in `work`, of `working_bytes` bytes on the device. Returns false if cuDNN fails: the
  /// caller computes the result otherwise, and cuDNN is not asked again.
  bool operator()(const attention_call<bf16>& call, void* work);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace qkgeom
