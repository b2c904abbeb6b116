# SPDX-License-Identifier: MIT
# MPI::MPI_CXX, where MPI is found: the processes of mpirun share a capture out; without a launcher qkgeom-capture runs alone
# and does not initialise MPI.
set(QKGEOM_MPI AUTO CACHE STRING "Several processes for one capture: ON, OFF, or AUTO where MPI is found")
set_property(CACHE QKGEOM_MPI PROPERTY STRINGS AUTO ON OFF)
if(QKGEOM_MPI STREQUAL "OFF")
  return()
endif()
set(MPI_CXX_SKIP_MPICXX ON)   # its C++ bindings are retired
find_package(MPI 3.0 QUIET COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  set(_message STATUS)
  if(NOT QKGEOM_MPI STREQUAL "AUTO")
    set(_message FATAL_ERROR)
  endif()
  message(${_message} "qkgeom: MPI (libopenmpi-dev) is not there, qkgeom-capture runs in one process")
endif()
