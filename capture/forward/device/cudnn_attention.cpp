// SPDX-License-Identifier: MIT
#include "capture/forward/device/cudnn_attention.hpp"

#include <cudnn_frontend.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

namespace fe = cudnn_frontend;

enum tensor : std::int64_t { q_tensor = 1, k_tensor, v_tensor, out_tensor, rows_tensor, keys_tensor };

/// A plan and the size of its working memory. Without a kernel for the shape: no graph, and cuDNN's reason.
struct plan {
  std::shared_ptr<fe::graph::Graph> graph;
  std::int64_t workspace = 0;
  std::string refusal;
};

/// Shape of a plan: queries, most keys, window (the number of keys: no window), heads, key heads, dim, capacity, scale.
using plan_key = std::tuple<index_t, index_t, index_t, index_t, index_t, index_t, index_t, double>;

/// cuDNN reads the numbers of rows and keys of a call from the device, each aligned like a tensor.
constexpr std::int64_t alignment = 16, bytes_of_numbers = 2 * alignment;

/// Cuts rows [skip, skip + rows) out of a call.
attention_call<bf16> part_of(attention_call<bf16> c, index_t skip, index_t rows) {
  c.q += skip * c.heads * c.dim;
  c.out += skip * c.heads * c.dim;
  c.first += skip;
  c.rows = rows;
  return c;
}

/// Splits a call in one or two parts whose lengths are powers of two, so that documents share their plans: one from the
/// first row on, one up to the last row. The second may overlap the first and computes these rows again.
std::vector<attention_call<bf16>> parts_of(const attention_call<bf16>& c) {
  require(c.rows > 1, "cuDNN: an attention of one query is not given to it");
  constexpr index_t shortest = 128;  // rows of a kernel's tile
  const auto power = [](auto f, index_t n) { return static_cast<index_t>(f(static_cast<std::uint64_t>(n))); };
  const index_t rows = power(std::bit_floor<std::uint64_t>, c.rows), rest = c.rows - rows;
  std::vector parts{part_of(c, 0, rows)};
  if (rest == 0) return parts;
  const index_t last = std::min(rows, std::max(shortest, power(std::bit_ceil<std::uint64_t>, rest)));
  parts.push_back(part_of(c, c.rows - last, last));
  return parts;
}

/// Returns the first reason in a message of several lines, or the whole message on one line without one.
std::string first_reason(std::string message) {
  const std::string before = "Reason: ";
  if (const std::size_t at = message.find(before); at != std::string::npos) {
    message.erase(0, at + before.size());
    message.resize(std::min(message.find('\n'), message.size()));
  }
  std::replace(message.begin(), message.end(), '\n', ' ');
  return message;
}

}  // namespace

struct cudnn_attention::state {
  state(cudaStream_t s, copy_to_device c) : stream(s), copy(std::move(c)) {
    if (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS || cudnnSetStream(handle, stream) != CUDNN_STATUS_SUCCESS)
      failed.refusal = "no handle could be made";
  }
  ~state() {
    cudaStreamSynchronize(stream);  // a plan's kernel may still run
    plans.clear();
    if (handle) cudnnDestroy(handle);
  }

  const plan& plan_of(const attention_call<bf16>& c) {
    if (!failed.refusal.empty()) return failed;
    const index_t keys = c.key_rows ? c.key_rows : c.capacity, window = std::min(c.window, keys);
    const plan_key key{c.rows, keys, window, c.heads, c.key_heads, c.dim, c.capacity, c.scale};
    const auto found = plans.find(key);
    return found != plans.end() ? found->second : plans.emplace(key, make_plan(c, keys, window)).first->second;
  }

  plan make_plan(const attention_call<bf16>& c, index_t keys, index_t window) const {
    plan made;
    auto graph = std::make_shared<fe::graph::Graph>();
    graph->set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const auto add = [&](const char* name, std::int64_t number, index_t heads, index_t rows, index_t head_stride,
                         index_t row_stride) {
      return graph->tensor(
          fe::graph::Tensor_attributes()
              .set_name(name)
              .set_uid(number)
              .set_dim({1, heads, rows, c.dim})
              .set_stride({std::max(heads * head_stride, rows * row_stride), head_stride, row_stride, 1}));
    };
    const auto number = [&](const char* name, std::int64_t id) {
      return graph->tensor(fe::graph::Tensor_attributes()
                               .set_name(name)
                               .set_uid(id)
                               .set_dim({1, 1, 1, 1})
                               .set_stride({1, 1, 1, 1})
                               .set_data_type(fe::DataType_t::INT32));
    };
    const auto q = add("q", q_tensor, c.heads, c.rows, c.dim, c.heads * c.dim);
    const auto k = add("k", k_tensor, c.key_heads, keys, c.capacity * c.dim, c.dim);
    const auto v = add("v", v_tensor, c.key_heads, keys, c.capacity * c.dim, c.dim);
    auto options = fe::graph::SDPA_attributes()
                       .set_name("attention")
                       .set_generate_stats(false)
                       .set_attn_scale(static_cast<float>(c.scale));
    options.set_diagonal_alignment(fe::DiagonalAlignment_t::BOTTOM_RIGHT).set_diagonal_band_right_bound(0);
    if (window < keys) options.set_diagonal_band_left_bound(static_cast<int>(window));
    options.set_padding_mask(true)
        .set_seq_len_q(number("rows", rows_tensor))
        .set_seq_len_kv(number("keys", keys_tensor));
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
      made.refusal = first_reason(status.get_message());
    return made;
  }

  static std::int64_t numbers_at(const plan& p) { return (p.workspace + alignment - 1) / alignment * alignment; }

  /// Runs a call; returns the reason of a failure, else an empty text.
  std::string run(const attention_call<bf16>& c, void* work) {
    const plan& p = plan_of(c);
    require(p.graph != nullptr, "cuDNN: it has no kernel for this attention");
    std::int32_t numbers[bytes_of_numbers / sizeof(std::int32_t)] = {};
    numbers[0] = static_cast<std::int32_t>(c.rows);
    numbers[alignment / sizeof(std::int32_t)] = static_cast<std::int32_t>(c.first + c.rows);
    std::byte* const to = static_cast<std::byte*>(work) + numbers_at(p);
    copy(to, numbers, sizeof numbers);
    const auto plain = [](const bf16* x) { return const_cast<void*>(static_cast<const void*>(x)); };
    std::unordered_map<std::int64_t, void*> tensors{{q_tensor, plain(c.q)}, {k_tensor, plain(c.k)},
                                                    {v_tensor, plain(c.v)}, {out_tensor, c.out},
                                                    {rows_tensor, to},      {keys_tensor, to + alignment}};
    auto status = p.graph->execute(handle, tensors, work);
    return status.is_bad() ? "the attention failed: " + first_reason(status.get_message()) : "";
  }

  cudaStream_t stream;
  copy_to_device copy;
  cudnnHandle_t handle = nullptr;
  std::map<plan_key, plan> plans;
  plan failed;  ///< in place of all plans, with the reason, once cuDNN has failed
};

cudnn_attention::cudnn_attention(cudaStream_t stream, copy_to_device copy)
    : state_(std::make_unique<state>(stream, std::move(copy))) {}
cudnn_attention::~cudnn_attention() = default;

std::optional<index_t> cudnn_attention::working_bytes(const attention_call<bf16>& c) {
  index_t most = 0;
  for (const auto& part : parts_of(c)) {
    const plan& p = state_->plan_of(part);
    if (!p.graph) return std::nullopt;
    most = std::max(most, state::numbers_at(p) + bytes_of_numbers);
  }
  return most;
}

std::string cudnn_attention::why_not(const attention_call<bf16>& c) {
  for (const auto& part : parts_of(c))
    if (const plan& p = state_->plan_of(part); !p.graph) return p.refusal;
  return "";
}

bool cudnn_attention::operator()(const attention_call<bf16>& c, void* work) {
  for (const auto& part : parts_of(c))
    if (std::string why = state_->run(part, work); !why.empty()) {
      state_->failed.refusal = std::move(why);
      return false;
    }
  return true;
}

}  // namespace qkgeom
