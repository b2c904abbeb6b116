// SPDX-License-Identifier: MIT
// The tile programs of cuda_context on the host: the same programs, plans and launches.
#pragma once

#include <omp.h>
#include <thrust/system/omp/execution_policy.h>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/backend/detail/launch/launch_observed.hpp"
#include "qkgeom/backend/detail/launch/launch_pairs.hpp"
#include "qkgeom/backend/detail/thrust/drawn.hpp"
#include "qkgeom/backend/detail/thrust/empirical_pairs.hpp"
#include "qkgeom/backend/detail/thrust/gaussian_pairs.hpp"
#include "tests/backend/host_team.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom::test {

/// The launcher (backend/detail/launch/launch.hpp) whose device is the host.
class host_launcher {
 public:
  using policy = std::remove_cvref_t<decltype(thrust::omp::par)>;
  const auto& device() const { return device_; }

  template <class Program>
  void launch(const Program& program, index_t blocks) const {
    for (index_t b = 0; b < blocks; ++b) run_block(program, b);
  }
  template <class F>
  void multiply(const thrust_kernels::matrix_products<F>& products) const {
    thrust_kernels::multiply_by_loops{}(device_, products);
  }

 private:
  cpu_memory memory_;
  policy policy_ = thrust::omp::par;
  thrust_kernels::device<policy, cpu_memory> device_{policy_, memory_};
};

/// A cpu_context whose pair sums come from tile programs.
template <class Launcher>
class tile_context_on : public cpu_context {
 public:
  template <class... Arguments>
  explicit tile_context_on(std::size_t scratch = std::size_t{1} << 30, bool split = true,
                           const Arguments&... of_launcher)
      : cpu_context({.threads = 2}), scratch_(scratch), split_(split), launcher_(of_launcher...) {}

  template <class T, class Weight = backend::no_weight>
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request,
                                        const Weight& weight = {}) {
    if (request.sample.pairs > 0)
      return thrust_kernels::drawn_pairs<device, thrust_kernels::multiply_by_loops, T, memory_space::host>(
          launcher_.device(), multiply_, scratch_, k, groups, problems, request)();
    if constexpr (std::is_same_v<Weight, backend::no_weight>)
      return pairs_of(k, groups, problems, request, weight);
    else
      return pairs_of(k, groups, problems, request, backend::given_weight<Weight>{weight});
  }

  template <class T>
  std::vector<pair_sums> empirical_pairs(const tensor_view<const T>& q, const tensor_view<const T>& k,
                                         const keys_by_document& groups, const std::vector<empirical_problem>& problems,
                                         std::optional<pair_precision> precision = {}) {
    using tile_observed = thrust_kernels::tile_observed<Launcher, T, memory_space::host>;
    if (!tile_observed::takes(launcher_.device(), q, k, precision))
      return thrust_kernels::empirical_pairs(launcher_.device(), q, k, groups, problems, pair_precision::f64);
    return tile_observed(launcher_, scratch_, q, k, groups, problems)();
  }

 private:
  template <class T, class Weight>
  std::vector<pair_sums> pairs_of(const tensor_view<const T>& k, const keys_by_document& groups,
                                  const std::vector<pair_problem>& problems, const pair_request& request,
                                  const Weight& weight) {
    using tile_pairs = thrust_kernels::tile_pairs<Launcher, T, memory_space::host>;
    if (!tile_pairs::takes(launcher_.device(), k, problems, request, Weight::given))
      return thrust_kernels::gaussian_pairs(launcher_.device(), k, groups, problems, request, weight);
    return tile_pairs(launcher_, scratch_, split_, k, groups, problems, request)(weight);
  }

  using device = std::remove_cvref_t<decltype(std::declval<const Launcher&>().device())>;
  thrust_kernels::multiply_by_loops multiply_;
  std::size_t scratch_;
  bool split_;
  Launcher launcher_;
};

using tile_context = tile_context_on<host_launcher>;

}  // namespace qkgeom::test
