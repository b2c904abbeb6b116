# SPDX-License-Identifier: MIT
# qkgeom_mpi, where MPI is found: the processes of mpirun share a capture out; without a launcher qkgeom-capture runs alone and
# does not initialise MPI.
set(QKGEOM_MPI AUTO CACHE STRING "Several processes for one capture: ON, OFF, or AUTO where MPI is found")
set_property(CACHE QKGEOM_MPI PROPERTY STRINGS AUTO ON OFF)
if(QKGEOM_MPI STREQUAL "OFF")
  return()
endif()
set(MPI_CXX_SKIP_MPICXX ON)   # its C++ bindings are retired
find_package(MPI 3.0 QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND)
  add_library(qkgeom_mpi INTERFACE)
  target_compile_definitions(qkgeom_mpi INTERFACE QKGEOM_WITH_MPI)
  target_link_libraries(qkgeom_mpi INTERFACE MPI::MPI_CXX)
elseif(QKGEOM_MPI STREQUAL "AUTO")
  message(STATUS "qkgeom: MPI (libopenmpi-dev) is not there, qkgeom-capture runs in one process")
else()
  message(FATAL_ERROR "qkgeom: MPI (libopenmpi-dev) is not there")
endif()
