# SPDX-License-Identifier: MIT
# qkgeom_c_library(NAME MODULE HEADER LIBRARY [FOLDER ...]): the target qkgeom_NAME of a C library that brings no CMake
# package. Through pkg-config, which knows Debian's alternatives; else by looking for the header and the library, in
# folders of these names too.
function(qkgeom_c_library name module header library)
  if(TARGET qkgeom_${name})
    return()
  endif()
  add_library(qkgeom_${name} INTERFACE)
  string(TOUPPER ${name} _upper)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(${_upper} QUIET IMPORTED_TARGET GLOBAL ${module})
  endif()
  if(TARGET PkgConfig::${_upper})
    target_link_libraries(qkgeom_${name} INTERFACE PkgConfig::${_upper})
    return()
  endif()
  find_path(QKGEOM_${_upper}_INCLUDE_DIR ${header} PATH_SUFFIXES ${ARGN} REQUIRED)
  find_library(QKGEOM_${_upper}_LIBRARY ${library} PATH_SUFFIXES ${ARGN} REQUIRED)
  target_include_directories(qkgeom_${name} SYSTEM INTERFACE "${QKGEOM_${_upper}_INCLUDE_DIR}")
  target_link_libraries(qkgeom_${name} INTERFACE "${QKGEOM_${_upper}_LIBRARY}")
endfunction()

# OpenBLAS with cblas.h.
macro(qkgeom_openblas)
  qkgeom_c_library(openblas openblas cblas.h openblas openblas openblas-pthread x86_64-linux-gnu)
endmacro()
