// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "capture/forward/attention/attention.hpp"
#include "capture/forward/forward_pass.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom {

/// Makes a forward pass on the CPU. Results depend neither on which documents run together nor on the number of
/// threads. A run takes the memory of one document as long as all of them. Checks names and shapes of all weights that
/// layers up to `last_layer` need. `model` and `pool` must outlive the pass.
std::unique_ptr<forward_pass> cpu_forward_pass(const decoder_description& description, const checkpoint& model,
                                               compute_type type, index_t last_layer, thread_pool& pool,
                                               attention_kernel kernel = attention_kernel::best);

}  // namespace qkgeom
