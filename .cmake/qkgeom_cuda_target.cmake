# SPDX-License-Identifier: MIT
# qkgeom::cuda: what a CUDA program needs to use cuda_context: a project of the languages CXX and CUDA, with the
# architectures that it wants. The installed package's component `cuda` reads this file too.
if(TARGET qkgeom::cuda)
  return()
endif()
find_package(CUDAToolkit 12.8 QUIET)
if(NOT CUDAToolkit_FOUND)
  return()
endif()
add_library(qkgeom_cuda INTERFACE)
add_library(qkgeom::cuda ALIAS qkgeom_cuda)
# This CMake knows no C++20 for CUDA, so the option says it. 554: a view of constants converts to itself by no operator.
target_compile_options(qkgeom_cuda INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;-diag-suppress=554>")
# The toolkit's own Thrust, before any other of the system.
foreach(_folder IN LISTS CUDAToolkit_INCLUDE_DIRS)
  if(EXISTS "${_folder}/cccl/thrust/version.h")
    target_include_directories(qkgeom_cuda SYSTEM INTERFACE "${_folder}/cccl")
  endif()
endforeach()
target_link_libraries(qkgeom_cuda INTERFACE qkgeom::qkgeom CUDA::cublas CUDA::cusolver)
