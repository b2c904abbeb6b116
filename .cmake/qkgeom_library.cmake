# SPDX-License-Identifier: MIT
# The library: headers only. The targets carry include folders, C++20 and what the headers include; no compiler flags,
# so that nothing is forced on the consumer.

find_package(Eigen3 REQUIRED NO_MODULE)   # of at least 3.4; asked for that, Eigen 5 says that it is none
if(Eigen3_VERSION VERSION_LESS 3.4)
  message(FATAL_ERROR "qkgeom needs Eigen 3.4 or newer, not ${Eigen3_VERSION} (${Eigen3_DIR})")
endif()
find_package(Boost 1.74 CONFIG QUIET)   # headers only: Boost.Math
if(NOT Boost_FOUND)
  find_package(Boost 1.74 REQUIRED)   # by CMake's own module, which newer CMakes are about to drop
endif()
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(qkgeom INTERFACE)
add_library(qkgeom::qkgeom ALIAS qkgeom)
target_include_directories(qkgeom INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(qkgeom INTERFACE cxx_std_20)
target_link_libraries(qkgeom INTERFACE Eigen3::Eigen Boost::headers Threads::Threads)

# Files (room io/, and adapt/xtensor.hpp): only this needs nlohmann-json and xtensor, so it is a target of its own.
if(QKGEOM_BUILD_TESTS OR QKGEOM_BUILD_EXAMPLES OR QKGEOM_BUILD_CAPTURE)
  set(_qkgeom_io_required REQUIRED)
else()
  set(_qkgeom_io_required QUIET)
endif()
find_package(nlohmann_json 3.11 ${_qkgeom_io_required})
find_package(xtensor 0.24 ${_qkgeom_io_required})
if(nlohmann_json_FOUND AND xtensor_FOUND)
  add_library(qkgeom_io INTERFACE)
  add_library(qkgeom::io ALIAS qkgeom_io)
  set_target_properties(qkgeom_io PROPERTIES EXPORT_NAME io)
  target_link_libraries(qkgeom_io INTERFACE qkgeom nlohmann_json::nlohmann_json xtensor)
endif()

# qkgeom::compiled: the heavy bodies compiled once; with QKGEOM_PRECOMPILED the headers only declare them (core/config.hpp).
add_library(qkgeom_compiled STATIC "${PROJECT_SOURCE_DIR}/.cmake/precompiled.cpp")
target_link_libraries(qkgeom_compiled PUBLIC qkgeom PRIVATE $<BUILD_INTERFACE:$<TARGET_NAME_IF_EXISTS:qkgeom_warnings>>)
if(TARGET qkgeom_io)   # its bodies, and those of report/; who calls them links qkgeom::io
  target_sources(qkgeom_compiled PRIVATE "${PROJECT_SOURCE_DIR}/.cmake/precompiled_io.cpp")
  target_link_libraries(qkgeom_compiled PRIVATE $<BUILD_INTERFACE:qkgeom_io>)
endif()
target_compile_definitions(qkgeom_compiled PUBLIC QKGEOM_PRECOMPILED)
set_source_files_properties("${PROJECT_SOURCE_DIR}/.cmake/precompiled.cpp" PROPERTIES COMPILE_OPTIONS "${QKGEOM_KERNEL_OPTIONS}")
set_target_properties(qkgeom_compiled PROPERTIES UNITY_BUILD OFF   # its files at once
  POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)       # for shared libraries too
add_library(qkgeom::compiled ALIAS qkgeom_compiled)
set_target_properties(qkgeom_compiled PROPERTIES EXPORT_NAME compiled EXCLUDE_FROM_ALL $<NOT:$<BOOL:${PROJECT_IS_TOP_LEVEL}>>)
