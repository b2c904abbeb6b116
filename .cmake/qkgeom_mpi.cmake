# SPDX-License-Identifier: MIT
# qkgeom::mpi, where MPI is found. Programs that link it share their work out among the processes of mpirun; without a
# launcher they run alone, and do not initialise MPI.
set(QKGEOM_MPI AUTO CACHE STRING "Several processes for one capture or analysis: ON, OFF, or AUTO where MPI is found")
set_property(CACHE QKGEOM_MPI PROPERTY STRINGS AUTO ON OFF)
if(QKGEOM_MPI STREQUAL "OFF" OR NOT TARGET qkgeom::io)
  return()
endif()
include(qkgeom_mpi_target)
if(NOT TARGET qkgeom::mpi)
  set(_message STATUS)
  if(NOT QKGEOM_MPI STREQUAL "AUTO")
    set(_message FATAL_ERROR)
  endif()
  message(${_message} "qkgeom: MPI (libopenmpi-dev) is not there, programs run in one process")
endif()
