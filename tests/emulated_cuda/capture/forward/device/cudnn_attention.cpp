// SPDX-License-Identifier: MIT
// A cuDNN that has a kernel for everything, and fails when it runs: what the forward pass does then. It reads all rows
// of keys and values that a call says there are.
#include "capture/forward/device/cudnn_attention.hpp"

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "qkgeom/core/error.hpp"

namespace qkgeom {

struct cudnn_attention::state {
  cudaStream_t stream;
  bool failed = false;
};

cudnn_attention::cudnn_attention(cudaStream_t stream, copy_to_device) : state_(std::make_unique<state>(state{stream})) {}
cudnn_attention::~cudnn_attention() = default;
std::optional<index_t> cudnn_attention::working_bytes(const attention_call<bf16>&) {
  return state_->failed ? std::nullopt : std::optional<index_t>(0);
}
std::string cudnn_attention::why_not(const attention_call<bf16>&) { return "this device is emulated"; }
bool cudnn_attention::operator()(const attention_call<bf16>& c, void*) {
  require(!std::exchange(state_->failed, true), "cuDNN was asked again after it had failed");
  const index_t there = c.key_rows ? c.key_rows : c.capacity;
  require(c.first + c.rows <= there, "a call needs more keys than it says there are");
  std::vector<bf16> rows(static_cast<std::size_t>(((c.key_heads - 1) * c.capacity + there) * c.dim));
  for (const bf16* const from : {c.k, c.v}) {
    require(cudaMemcpyAsync(rows.data(), from, rows.size() * sizeof(bf16), cudaMemcpyDeviceToHost, state_->stream) ==
                    cudaSuccess &&
                cudaStreamSynchronize(state_->stream) == cudaSuccess,
            "keys of a call are not on the device");
    for (const bf16 x : rows) require(std::isfinite(static_cast<float>(x)), "a key or value is not finite");
  }
  return false;
}

}  // namespace qkgeom
