// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>

#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// For programs that share nothing out: throws `error` if a launcher of MPI started several processes, by the variables
/// that it sets, since each would write the same files.
inline void require_one_process() {
  // Open MPI and PRRTE; MPICH and srun --mpi=pmi2.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* processes = std::getenv(name); processes && std::atoi(processes) > 1)
      fail("this program runs in one process, but a launcher started ", processes, " (", name,
           "); each would write the same files");
}

}  // namespace qkgeom
