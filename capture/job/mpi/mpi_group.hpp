// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>

#include "capture/job/process_group.hpp"

namespace qkgeom {

/// Runs `body` on the processes that mpirun started, as one group; without a launcher on this one alone, without
/// MPI_Init. An exception of `body` ends all of them with status 2: a `group_error` is printed once after `program`,
/// others with rank, host, work and `advice`. All processes must run the same build of the program.
void run_with_mpi(const std::string& program, const std::string& advice,
                  const std::function<void(process_group&)>& body);

}  // namespace qkgeom
