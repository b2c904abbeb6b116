# SPDX-License-Identifier: MIT
# How this project's own programs and tests are built: where they go, with which warnings, and what they link.

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  set(CMAKE_CXX_EXTENSIONS OFF)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND NOT CMAKE_CXX_FLAGS)
    set(CMAKE_BUILD_TYPE Release)
  endif()
  find_program(QKGEOM_CCACHE ccache)
  if(QKGEOM_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${QKGEOM_CCACHE}")
  endif()
endif()

# For a build whose own flags optimise little: the preset `tests`.
set(QKGEOM_KERNEL_OPTIONS "" CACHE STRING "Compiler options of the library's bodies and of the forward pass alone")
# Whether all is optimised, so that files that need no speed have options of their own.
set(QKGEOM_OPTIMISES_ALL OFF)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT QKGEOM_KERNEL_OPTIONS)
  set(QKGEOM_OPTIMISES_ALL ON)
endif()

add_library(qkgeom_warnings INTERFACE)
target_compile_options(qkgeom_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wconversion;-Wshadow>"
  "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-sign-conversion>")   # or each subscript would want a cast
if(QKGEOM_WERROR)
  target_compile_options(qkgeom_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # These depend on what the optimiser inlined and are known to be wrong in g++ 12's own library; they stay warnings.
    target_compile_options(qkgeom_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-error=restrict;-Wno-error=maybe-uninitialized;-Wno-error=array-bounds;-Wno-error=stringop-overflow;-Wno-error=stringop-overread>")
  endif()
endif()

# qkgeom_intree: what a program or test of this project links.
add_library(qkgeom_intree INTERFACE)
target_link_libraries(qkgeom_intree INTERFACE $<TARGET_NAME_IF_EXISTS:qkgeom_report> qkgeom_compiled qkgeom_warnings)
