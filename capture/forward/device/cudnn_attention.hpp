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

/// cuDNN's fused attention on one stream, in one or two parts of a call, whose numbers of rows are powers of two. A
/// plan is made once for each of these, and kept: it takes the number of keys as an argument. cuDNN's dynamic shapes,
/// one plan for all, are not used: version 9.19 gives wrong numbers with them on an H100, other versions have none.
class cudnn_attention {
 public:
  /// copy(to, from, bytes) brings host memory to the device in the order of the stream; `from` may change after it.
  using copy_to_device = std::function<void(void*, const void*, std::size_t)>;

  cudnn_attention(cudaStream_t stream, copy_to_device copy);
  ~cudnn_attention();

  /// Bytes that a call works in, besides its arguments; nothing where cuDNN has no kernel for it, or has failed.
  std::optional<index_t> working_bytes(const attention_call<bf16>& call);

  /// What cuDNN says where it has no kernel, or why it failed, in one line.
  std::string why_not(const attention_call<bf16>& call);

  /// A call that has a kernel, in `work` of as many bytes on the device. False where cuDNN fails: then the result is to
  /// be computed anew, and cuDNN is not asked again.
  bool operator()(const attention_call<bf16>& call, void* work);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace qkgeom
