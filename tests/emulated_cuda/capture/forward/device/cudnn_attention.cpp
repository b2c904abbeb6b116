// SPDX-License-Identifier: MIT
// A cuDNN that has a kernel for everything, and fails when it runs: what the forward pass does then.
#include "capture/forward/device/cudnn_attention.hpp"

#include <utility>

#include "qkgeom/core/error.hpp"

namespace qkgeom {

struct cudnn_attention::state {
  bool failed = false;
};

cudnn_attention::cudnn_attention(cudaStream_t) : state_(std::make_unique<state>()) {}
cudnn_attention::~cudnn_attention() = default;
std::optional<index_t> cudnn_attention::working_bytes(const attention_call<bf16>&) {
  return state_->failed ? std::nullopt : std::optional<index_t>(0);
}
std::string cudnn_attention::why_not(const attention_call<bf16>&) { return "this device is emulated"; }
bool cudnn_attention::operator()(const attention_call<bf16>&, void*) {
  require(!std::exchange(state_->failed, true), "cuDNN was asked again after it had failed");
  return false;
}

}  // namespace qkgeom
