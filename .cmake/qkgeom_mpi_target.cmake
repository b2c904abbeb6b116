# SPDX-License-Identifier: MIT
# qkgeom::mpi: what a program needs to run as several processes (room processes/mpi/). The installed package's component
# `mpi` reads this file too.
if(TARGET qkgeom::mpi)
  return()
endif()
set(MPI_CXX_SKIP_MPICXX ON)   # its C++ bindings are retired
find_package(MPI 3.0 QUIET COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  return()
endif()
add_library(qkgeom_mpi INTERFACE)
add_library(qkgeom::mpi ALIAS qkgeom_mpi)
target_compile_definitions(qkgeom_mpi INTERFACE QKGEOM_WITH_MPI)
target_link_libraries(qkgeom_mpi INTERFACE qkgeom::io MPI::MPI_CXX)
