// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>

#include "qkgeom/processes/process_group.hpp"

// Several processes for one analysis. with_mpi.cpp defines this function for heads, pca, rotation and plasticity where
// MPI is, no_mpi.cpp for all other programs.
namespace qkgeom::examples {

/// Runs `body` on the processes that mpirun started, as one group, or on this one alone (`run_with_mpi`).
/// Without MPI: on this one; throws `error` if a launcher started several.
void run_in_processes(const std::string& program, const std::function<void(process_group&)>& body);

}  // namespace qkgeom::examples
