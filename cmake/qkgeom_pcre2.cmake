# SPDX-License-Identifier: MIT
# qkgeom_pcre2: PCRE2 for 8-bit text. Through pkg-config; else by looking for it.
if(TARGET qkgeom_pcre2)
  return()
endif()

add_library(qkgeom_pcre2 INTERFACE)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PCRE2 QUIET IMPORTED_TARGET libpcre2-8)
endif()
if(TARGET PkgConfig::PCRE2)
  target_link_libraries(qkgeom_pcre2 INTERFACE PkgConfig::PCRE2)
else()
  find_path(QKGEOM_PCRE2_INCLUDE_DIR pcre2.h REQUIRED)
  find_library(QKGEOM_PCRE2_LIBRARY pcre2-8 REQUIRED)
  target_include_directories(qkgeom_pcre2 SYSTEM INTERFACE "${QKGEOM_PCRE2_INCLUDE_DIR}")
  target_link_libraries(qkgeom_pcre2 INTERFACE "${QKGEOM_PCRE2_LIBRARY}")
endif()
