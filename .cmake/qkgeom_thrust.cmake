# SPDX-License-Identifier: MIT
# qkgeom::thrust_cpu: what a program needs to use thrust_context with thrust::omp::par. THRUST_DEVICE_SYSTEM is this
# target's alone, so no other unit of a build changes. Only where Thrust and OpenMP are found: Thrust of the system
# (Debian: libthrust-dev), which needs no CUDA header, else that of a CUDA toolkit. CUDA units use the toolkit's own. The
# installed package's component `thrust` reads this file too.
if(TARGET qkgeom::thrust_cpu)
  return()
endif()
find_package(OpenMP QUIET COMPONENTS CXX)
find_path(QKGEOM_THRUST_INCLUDE_DIR thrust/version.h
  PATHS /usr/include /usr/local/cuda/include/cccl ENV CUDA_PATH PATH_SUFFIXES include/cccl
  DOC "Folder that holds thrust/, for qkgeom::thrust_cpu" NO_DEFAULT_PATH)
if(NOT QKGEOM_THRUST_INCLUDE_DIR OR NOT OpenMP_CXX_FOUND)
  return()
endif()

function(qkgeom_add_thrust_cpu name include_dir)
  add_library(${name} INTERFACE)
  target_include_directories(${name} SYSTEM INTERFACE "${include_dir}")
  target_compile_definitions(${name} INTERFACE THRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_OMP)
  target_link_libraries(${name} INTERFACE qkgeom::qkgeom OpenMP::OpenMP_CXX)
endfunction()

qkgeom_add_thrust_cpu(qkgeom_thrust_cpu "${QKGEOM_THRUST_INCLUDE_DIR}")
add_library(qkgeom::thrust_cpu ALIAS qkgeom_thrust_cpu)
