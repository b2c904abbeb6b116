// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>

#include "qkgeom/processes/process_group.hpp"

namespace qkgeom {

/// Runs `body` on the processes that mpirun started, as one group; without a launcher on this one alone, and MPI is not
/// initialised then. What `body` throws ends all of them: a `group_error` passes through on rank 0 and ends the others
/// with status 2; anything else is printed with rank, host and work after `program`, and aborts the job with status 2.
/// `advice` ends that sentence: what to do then. Throws `error` if the processes do not run the same build of the
/// program.
inline void run_with_mpi(const std::string& program, const std::string& advice,
                         const std::function<void(process_group&)>& body);

}  // namespace qkgeom

#include "qkgeom/processes/mpi/detail/mpi_group.hpp"
