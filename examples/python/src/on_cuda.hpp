// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/report/head_report.hpp"
#include "qkgeom/stats/moments.hpp"

/// The module's calls for tensors on a CUDA device. A library beside the module holds it, `_qkgeom_cuda.so`, which
/// the first such tensor loads: so the module itself needs none of CUDA's libraries.
namespace qkgeom::python {

/// A CUDA device, and the stream on which the caller's work runs there (a cudaStream_t; 0: the default stream).
struct cuda_place {
  int device = 0;
  std::uintptr_t stream = 0;
  bool operator==(const cuda_place&) const = default;
};

/// Rows of a layer on a CUDA device, with positions and documents in host memory.
struct cuda_rows {
  cuda_place place;
  dtype element = dtype::f32;
  tensor_view<const char, memory_space::device> q, k;  ///< strides in elements of `element`
  vector_view<const std::int32_t> q_position, q_document, k_position, k_document;
  std::vector<index_t> key_of_query;
  std::optional<index_t> window;
};

enum class pairs_of_profile { all, prefix_uniform };

/// The calls on a device. All throw `error` where CUDA reports one, and what `before_each_step` throws.
class cuda_calls {
 public:
  virtual ~cuda_calls() = default;
  /// Copies `bytes` of the device's memory, in the order of the stream.
  virtual void copy_to_host(const cuda_place& place, void* to, const void* from, std::size_t bytes) = 0;
  /// See analyse_layer.
  virtual std::vector<head_report> analyse(const cuda_rows& rows, const layer_names& names, const bucket_edges& buckets,
                                           index_t context_length, const analysis_options& options) = 0;
  /// See accumulate.
  virtual layer_moments accumulate(const cuda_rows& rows, const bucket_edges& buckets, index_t context_length) = 0;
  /// See plasticity_profile.
  virtual std::vector<plasticity_profile_result> profiles(const std::vector<query_model>& models, const cuda_rows& rows,
                                                          pairs_of_profile pairs, bool across_documents,
                                                          const profile_options& options) = 0;
};

}  // namespace qkgeom::python

/// The one symbol of `_qkgeom_cuda.so`. `before_each_step` is called before each step that takes time.
extern "C" qkgeom::python::cuda_calls* qkgeom_cuda_calls(void (*before_each_step)());
