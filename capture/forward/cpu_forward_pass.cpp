// SPDX-License-Identifier: MIT
#include "capture/forward/cpu_forward_pass.hpp"

#include <algorithm>
#include <utility>

#include "capture/forward/cpu_device.hpp"
#include "capture/forward/decoder.hpp"
#include "qkgeom/core/instruction_set.hpp"

namespace qkgeom {
namespace {

/// Packs the rows of x at some positions into `to`.
tensor_view<const float> rows_at(tensor_view<const float> x, const std::vector<std::int32_t>& positions,
                                 std::vector<float>& to) {
  const auto rows = static_cast<index_t>(positions.size());
  to.resize(rows * x.heads * x.dim);
  for (index_t r = 0; r < rows; ++r)
    for (index_t h = 0; h < x.heads; ++h)
      std::copy_n(x.head(h).row(positions[r]), x.dim, to.data() + (r * x.heads + h) * x.dim);
  return packed_tensor(static_cast<const float*>(to.data()), rows, x.heads, x.dim);
}

/// The forward pass on the CPU with activations of type T, float or wide_bf16.
template <class T>
class pass_of : public forward_pass {
 public:
  pass_of(const decoder_description& description, const checkpoint& model, index_t last_layer, thread_pool& pool,
          attention_kernel kernel)
      : device_(pool, kernel), decoder_(device_, description, model, last_layer, pool, cpu_device::sizes) {}

  void run(std::span<const token_span> documents, rope_stage stage, const batch_sinks& sinks) override {
    using view = tensor_view<const T>;
    device_sinks<T, memory_space::host> to{sinks, {}};
    if (sinks.rows || sinks.chosen)
      to.rows = [&](std::size_t document, index_t layer, index_t, view q, view k) {
        if (sinks.rows) sinks.rows(document, layer, as_floats(q), as_floats(k));
        if (!sinks.chosen) return;
        const row_choice choice = sinks.choose(document, layer);
        if (choice.q.empty() && choice.k.empty()) return;
        const auto chosen_q = rows_at(as_floats(q), choice.q, chosen_q_),
                   chosen_k = rows_at(as_floats(k), choice.k, chosen_k_);
        sinks.chosen(document, layer, chosen_q, chosen_k);
      };
    decoder_.run(documents, stage, to);
  }
  void check_output() const override { decoder_.check_output(); }
  void change(std::vector<head_change> changes) override { decoder_.change(std::move(changes)); }

 private:
  cpu_device device_;
  decoder<cpu_device, T> decoder_;
  std::vector<float> chosen_q_, chosen_k_;
};

std::unique_ptr<forward_pass> pass_here(const decoder_description& description, const checkpoint& model,
                                        compute_type type, index_t last_layer, thread_pool& pool,
                                        attention_kernel kernel) {
  if (type == compute_type::bf16)
    return std::make_unique<pass_of<device_kernels::wide_bf16>>(description, model, last_layer, pool, kernel);
  return std::make_unique<pass_of<float>>(description, model, last_layer, pool, kernel);
}

}  // namespace
}  // namespace qkgeom

#if defined(QKGEOM_KERNEL_SET)
extern "C" qkgeom::forward_pass* QKGEOM_KERNEL_SET(const qkgeom::decoder_description& description,
                                                   const qkgeom::checkpoint& model, qkgeom::compute_type type,
                                                   qkgeom::index_t last_layer, qkgeom::thread_pool& pool,
                                                   qkgeom::attention_kernel kernel) {
  return qkgeom::pass_here(description, model, type, last_layer, pool, kernel).release();
}
#else
#if defined(QKGEOM_KERNEL_SETS)
using pass_maker = qkgeom::forward_pass*(const qkgeom::decoder_description&, const qkgeom::checkpoint&,
                                         qkgeom::compute_type, qkgeom::index_t, qkgeom::thread_pool&,
                                         qkgeom::attention_kernel);
extern "C" pass_maker qkgeom_forward_v3, qkgeom_forward_v4;
#endif

namespace qkgeom {

std::unique_ptr<forward_pass> cpu_forward_pass(const decoder_description& description, const checkpoint& model,
                                               compute_type type, index_t last_layer, thread_pool& pool,
                                               attention_kernel kernel) {
#if defined(QKGEOM_KERNEL_SETS)
  if (const auto set = used_instruction_set(); set > instruction_set::v2) {
    const auto make = set == instruction_set::v3 ? qkgeom_forward_v3 : qkgeom_forward_v4;
    return std::unique_ptr<forward_pass>(make(description, model, type, last_layer, pool, kernel));
  }
#endif
  return pass_here(description, model, type, last_layer, pool, kernel);
}

forward_pass_factory cpu_forward_pass() {
  return [](const decoder_description& description, const checkpoint& model, compute_type type, index_t last_layer,
            thread_pool& pool) { return cpu_forward_pass(description, model, type, last_layer, pool); };
}

}  // namespace qkgeom
#endif
