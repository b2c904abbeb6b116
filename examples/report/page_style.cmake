# SPDX-License-Identifier: MIT
# Adds page_style.cpp to `sources`: it holds the texts of page.css and page.js.
file(READ "${CMAKE_CURRENT_LIST_DIR}/page.css" QKGEOM_PAGE_STYLE)
file(READ "${CMAKE_CURRENT_LIST_DIR}/page.js" QKGEOM_PAGE_SCRIPT)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/page.css" "${CMAKE_CURRENT_LIST_DIR}/page.js")
configure_file("${CMAKE_CURRENT_LIST_DIR}/page_style.cpp.in" page_style.cpp @ONLY)
list(APPEND sources "${CMAKE_CURRENT_BINARY_DIR}/page_style.cpp")
