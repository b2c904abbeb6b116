# SPDX-License-Identifier: MIT
# qkgeom_openblas: OpenBLAS with cblas.h. Through pkg-config, which knows Debian's alternatives; else by looking for it.
if(TARGET qkgeom_openblas)
  return()
endif()

add_library(qkgeom_openblas INTERFACE)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(OPENBLAS QUIET IMPORTED_TARGET openblas)
endif()
if(TARGET PkgConfig::OPENBLAS)
  target_link_libraries(qkgeom_openblas INTERFACE PkgConfig::OPENBLAS)
else()
  find_path(QKGEOM_CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas openblas-pthread x86_64-linux-gnu REQUIRED)
  find_library(QKGEOM_OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-pthread REQUIRED)
  target_include_directories(qkgeom_openblas SYSTEM INTERFACE "${QKGEOM_CBLAS_INCLUDE_DIR}")
  target_link_libraries(qkgeom_openblas INTERFACE "${QKGEOM_OPENBLAS_LIBRARY}")
endif()
