# SPDX-License-Identifier: MIT
# Target `docs`: the API reference and the pages of docs/ as HTML in <build>/api/html, Doxygen's warnings in
# <build>/api/warnings.log. Only where Doxygen is found. A test makes them anew and wants no warning.
find_package(Doxygen 1.9 QUIET)
if(NOT DOXYGEN_FOUND)
  message(STATUS "qkgeom: no target docs, Doxygen is not installed")
  return()
endif()

set(_qkgeom_doxyfile "${PROJECT_BINARY_DIR}/Doxyfile")
configure_file("${PROJECT_SOURCE_DIR}/docs/Doxyfile.in" "${_qkgeom_doxyfile}" @ONLY)
set(_qkgeom_doxygen "${CMAKE_COMMAND}" "-DDOXYGEN=${DOXYGEN_EXECUTABLE}" "-DDOXYFILE=${_qkgeom_doxyfile}"
  "-DOUT=${PROJECT_BINARY_DIR}/api")
add_custom_target(docs COMMAND ${_qkgeom_doxygen} -P "${PROJECT_SOURCE_DIR}/.cmake/run_doxygen.cmake"
  COMMENT "API reference: ${PROJECT_BINARY_DIR}/api/html/index.html" VERBATIM)
if(QKGEOM_BUILD_TESTS AND QKGEOM_SOURCE_CHECKS)
  add_test(NAME docs.doxygen_has_no_warnings
    COMMAND ${_qkgeom_doxygen} -DSTRICT=ON -P "${PROJECT_SOURCE_DIR}/.cmake/run_doxygen.cmake")
endif()
