// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "capture/checkpoint.hpp"
#include "capture/description.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom {

/// The tensor that turns hidden states into logits: the embedding if it is tied, else the first of the description's
/// names that the checkpoint has. Throws if there is none, or if it or the last norm has a wrong shape.
std::string find_output(const decoder_description& model, const checkpoint& weights, const std::string& prefix);

/// -ln p(ids[t + 1] | ids[0 .. t]) for t = 0 .. tokens - 2, in nats, from the last layer's hidden states
/// (tokens, hidden), which are normed in place. Logits are made a piece of the vocabulary at a time, so that memory
/// holds that piece of the output matrix and never tokens x vocabulary. `rounds`: as a model in bf16, whose logits are.
std::vector<float> token_losses(const decoder_description& model, const checkpoint& weights, const std::string& prefix,
                                std::span<const std::int32_t> ids, std::span<float> hidden, bool rounds,
                                thread_pool& pool);

}  // namespace qkgeom
