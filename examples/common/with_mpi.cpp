// SPDX-License-Identifier: MIT
#include "examples/common/processes.hpp"
#include "qkgeom/processes/mpi/mpi_group.hpp"

namespace qkgeom::examples {

void run_in_processes(const std::string& program, const std::function<void(process_group&)>& body) {
  run_with_mpi(program, "", body);
}

}  // namespace qkgeom::examples
