// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "capture/forward/attention/attention.hpp"
#include "capture/forward/forward_pass.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom {

/// The forward pass on the CPU. Results depend neither on which documents run together nor on the number of threads. A
/// run takes the memory of one document as long as all of them.
class cpu_forward_pass : public forward_pass {
 public:
  /// Checks names and shapes of all weights that layers up to `last_layer` need. `model` and `pool` must live longer.
  cpu_forward_pass(const decoder_description& description, const checkpoint& model, compute_type type,
                   index_t last_layer, thread_pool& pool, attention_kernel kernel = attention_kernel::best);

  void run(std::span<const token_span> documents, rope_stage stage, const batch_sinks& sinks) override;
  void check_output() const override;
  void change(std::vector<head_change> changes) override;

 private:
  std::unique_ptr<forward_pass> pass_;  // in f32, or of bf16 values
};

}  // namespace qkgeom
