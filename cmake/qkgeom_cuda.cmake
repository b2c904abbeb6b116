# SPDX-License-Identifier: MIT
# qkgeom::cuda: what a CUDA program needs to use cuda_context; qkgeom_cuda_intree: the same with the pair kernel compiled
# once, for this project's own programs and tests. Only where a CUDA toolkit of at least 12.8 is found.
set(QKGEOM_CUDA AUTO CACHE STRING "Build what needs CUDA: AUTO (where nvcc is found), ON or OFF")
if(TARGET qkgeom::cuda OR QKGEOM_CUDA STREQUAL "OFF")
  return()
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(NOT QKGEOM_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "qkgeom: QKGEOM_CUDA is ${QKGEOM_CUDA}, but no CUDA compiler was found")
  endif()
  message(STATUS "qkgeom: no CUDA compiler, what needs CUDA is left out")
  return()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
endif()
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8)
  message(STATUS "qkgeom: CUDA ${CMAKE_CUDA_COMPILER_VERSION} is older than 12.8, what needs CUDA is left out")
  return()
endif()
find_package(CUDAToolkit REQUIRED)

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
target_link_libraries(qkgeom_cuda INTERFACE qkgeom CUDA::cublas CUDA::cusolver)

add_library(qkgeom_cuda_intree STATIC EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/precompiled_cuda.cu")
target_link_libraries(qkgeom_cuda_intree PUBLIC qkgeom_cuda qkgeom_intree)
