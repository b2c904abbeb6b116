// SPDX-License-Identifier: MIT
#include "capture/forward/device/cudnn_attention.hpp"

#include <cudnn_frontend.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

namespace fe = cudnn_frontend;

enum tensor : std::int64_t { q_tensor = 1, k_tensor, v_tensor, out_tensor };

/// A plan and the memory that it works in; without a graph cuDNN has none for the shape, and says why.
struct plan {
  std::shared_ptr<fe::graph::Graph> graph;
  std::int64_t workspace = 0;
  std::string refusal;
};

/// Queries, keys, window, heads, key heads, dim, capacity, scale.
using plan_key = std::tuple<index_t, index_t, index_t, index_t, index_t, index_t, index_t, double>;

/// Each document's last chunk has a shape of its own.
constexpr std::size_t plans_kept = 512;

}  // namespace

struct cudnn_attention::state {
  explicit state(cudaStream_t s) : stream(s) {
    if (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS || cudnnSetStream(handle, stream) != CUDNN_STATUS_SUCCESS)
      failed.refusal = "no handle could be made";
  }
  explicit state(const described_device& device) : sm_version(device.sm_version), sm_count(device.sm_count) {
    described = std::make_shared<fe::DeviceProperties>();
    auto status = described->deserialize({device.json.begin(), device.json.end()});
    require(status.is_good(), "cuDNN: the description of a device: ", status.get_message());
  }
  ~state() {
    forget();
    if (handle) cudnnDestroy(handle);
  }

  void forget() {
    if (handle) cudaStreamSynchronize(stream);  // a plan's kernel may still run
    plans.clear();
  }

  const plan& plan_of(const attention_call<bf16>& c) {
    require(c.rows > 1, "cuDNN: an attention of one query is not given to it");
    if (!failed.refusal.empty()) return failed;
    const attended_keys keys(c);
    const plan_key key{c.rows, keys.count, keys.window, c.heads, c.key_heads, c.dim, c.capacity, c.scale};
    if (const auto found = plans.find(key); found != plans.end()) return found->second;
    if (plans.size() == plans_kept) forget();
    return plans.emplace(key, make_plan(c, keys)).first->second;
  }

  plan make_plan(const attention_call<bf16>& c, const attended_keys& keys) const {
    plan made;
    auto graph = std::make_shared<fe::graph::Graph>();
    graph->set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT)
        .set_dynamic_shape_enabled(true)
        .set_kernel_cache(kernels);
    if (described) graph->set_device_properties(described).set_sm_version(sm_version).set_sm_count(sm_count);
    const auto add = [&](const char* name, std::int64_t number, index_t heads, index_t rows, index_t head_stride,
                         index_t row_stride) {
      return graph->tensor(
          fe::graph::Tensor_attributes()
              .set_name(name)
              .set_uid(number)
              .set_dim({1, heads, rows, c.dim})
              .set_stride({std::max(heads * head_stride, rows * row_stride), head_stride, row_stride, 1}));
    };
    const auto q = add("q", q_tensor, c.heads, c.rows, c.dim, c.heads * c.dim);
    const auto k = add("k", k_tensor, c.key_heads, keys.count, c.capacity * c.dim, c.dim);
    const auto v = add("v", v_tensor, c.key_heads, keys.count, c.capacity * c.dim, c.dim);
    auto options = fe::graph::SDPA_attributes()
                       .set_name("attention")
                       .set_generate_stats(false)
                       .set_attn_scale(static_cast<float>(c.scale));
    options.set_diagonal_alignment(fe::DiagonalAlignment_t::BOTTOM_RIGHT).set_diagonal_band_right_bound(0);
    if (keys.window < keys.count) options.set_diagonal_band_left_bound(static_cast<int>(keys.window));
    const auto out = std::get<0>(graph->sdpa(q, k, v, options));
    out->set_output(true)
        .set_uid(out_tensor)
        .set_dim({1, c.heads, c.rows, c.dim})
        .set_stride({c.heads * c.rows * c.dim, c.dim, c.heads * c.dim, 1});
    auto status = graph->build(handle, {fe::HeurMode_t::A});
    if (status.is_good()) status = graph->get_workspace_size(made.workspace);
    if (status.is_good())
      made.graph = graph;
    else
      made.refusal = status.get_message();
    return made;
  }

  cudaStream_t stream = nullptr;
  cudnnHandle_t handle = nullptr;
  std::shared_ptr<fe::DeviceProperties> described;
  int sm_version = 0, sm_count = 0;
  std::shared_ptr<fe::KernelCache> kernels = std::make_shared<fe::KernelCache>();
  std::map<plan_key, plan> plans;
  plan failed;  ///< in place of all plans, with the reason, once cuDNN has failed
};

cudnn_attention::cudnn_attention(cudaStream_t stream) : state_(std::make_unique<state>(stream)) {}
cudnn_attention::cudnn_attention(const described_device& device) : state_(std::make_unique<state>(device)) {}
cudnn_attention::~cudnn_attention() = default;

std::optional<index_t> cudnn_attention::working_bytes(const attention_call<bf16>& c) {
  const plan& p = state_->plan_of(c);
  return p.graph ? std::optional(p.workspace) : std::nullopt;
}

std::string cudnn_attention::why_not(const attention_call<bf16>& c) { return state_->plan_of(c).refusal; }

bool cudnn_attention::operator()(const attention_call<bf16>& c, void* work) {
  const plan& p = state_->plan_of(c);
  require(p.graph != nullptr, "cuDNN: it has no kernel for this attention");
  const index_t begin = attended_keys(c).begin * c.dim;
  const auto plain = [](const bf16* x) { return const_cast<void*>(static_cast<const void*>(x)); };
  std::unordered_map<std::int64_t, void*> tensors{
      {q_tensor, plain(c.q)}, {k_tensor, plain(c.k + begin)}, {v_tensor, plain(c.v + begin)}, {out_tensor, c.out}};
  std::string& why = state_->failed.refusal;
  if (state_->handle == nullptr)
    why = "a device that is only described cannot run an attention";
  else if (auto status = p.graph->execute(state_->handle, tensors, work); status.is_bad())
    why = "the attention failed: " + status.get_message();
  return why.empty();
}

index_t cudnn_attention::plans() const { return static_cast<index_t>(state_->plans.size()); }

}  // namespace qkgeom
