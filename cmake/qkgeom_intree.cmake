# SPDX-License-Identifier: MIT
# What programs and tests of this project link besides the library: warnings, and compiled instantiations.

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

add_library(qkgeom_warnings INTERFACE)
target_compile_options(qkgeom_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow)
if(QKGEOM_WERROR)
  target_compile_options(qkgeom_warnings INTERFACE -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # These depend on what the optimiser inlined and are known to be wrong in g++ 12's own library; they stay warnings.
    target_compile_options(qkgeom_warnings INTERFACE -Wno-error=restrict -Wno-error=maybe-uninitialized
      -Wno-error=array-bounds -Wno-error=stringop-overflow -Wno-error=stringop-overread)
  endif()
endif()

add_library(qkgeom_intree INTERFACE)
target_link_libraries(qkgeom_intree INTERFACE qkgeom::qkgeom qkgeom_warnings)
if(TARGET qkgeom::io)
  target_link_libraries(qkgeom_intree INTERFACE qkgeom::io)
endif()

# Heavy templates that many programs share are instantiated once, in src/*.cpp; with QKGEOM_PRECOMPILED the headers
# declare exactly those `extern template`. The installed library stays header-only.
file(GLOB _qkgeom_precompiled CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.cpp")
if(_qkgeom_precompiled)
  add_library(qkgeom_precompiled STATIC EXCLUDE_FROM_ALL ${_qkgeom_precompiled})
  target_link_libraries(qkgeom_precompiled PUBLIC qkgeom::qkgeom PRIVATE qkgeom_warnings)
  target_compile_definitions(qkgeom_precompiled INTERFACE QKGEOM_PRECOMPILED)
  target_link_libraries(qkgeom_intree INTERFACE qkgeom_precompiled)
endif()
