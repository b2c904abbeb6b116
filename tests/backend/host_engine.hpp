// SPDX-License-Identifier: MIT
// The fused pair sums of cuda_context on the host: the same programs, plans and launches.
#pragma once

#include <omp.h>
#include <thrust/system/omp/execution_policy.h>

#include <vector>

#include "qkgeom/backend/detail/thrust_fused.hpp"
#include "tests/backend/host_team.hpp"

namespace qkgeom::test {

class host_engine {
 public:
  using policy = std::remove_cvref_t<decltype(thrust::omp::par)>;
  const auto& machine() const { return machine_; }

  template <class Program>
  void launch(const Program& program, index_t blocks) const {
    static_assert(Program::threads == host_team::threads);
    using line = std::array<std::uint64_t, 2>;  // so that shared memory is as aligned as a device's
    const host_team team;
    for (index_t b = 0; b < blocks; ++b) {
      std::vector<line> shared(static_cast<std::size_t>(program.shared_bytes()) / sizeof(line) + 1,
                               line{0xffffffffffffffff, 0xffffffffffffffff});
      program(team, b, reinterpret_cast<unsigned char*>(shared.data()));
    }
  }
  template <class F>
  void multiply(index_t batch, index_t rows, index_t columns, index_t d, const thrust_kernels::matrix_batch<const F>& a,
                const thrust_kernels::matrix_batch<const F>& b, const thrust_kernels::matrix_batch<F>& c) const {
    thrust_kernels::multiply_by_loops{}(machine_, batch, rows, columns, d, a, b, c);
  }

 private:
  cpu_memory memory_;
  policy policy_ = thrust::omp::par;
  thrust_kernels::machine<policy, cpu_memory> machine_{policy_, memory_};
};

}  // namespace qkgeom::test
