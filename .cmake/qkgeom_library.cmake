# SPDX-License-Identifier: MIT
# The mathematics is headers alone; io and report are archives. The targets carry include folders, C++20 and what the headers include; no compiler flags,
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
if(NOT PROJECT_IS_TOP_LEVEL)
  set(_system SYSTEM)   # a consumer's warnings are about his own code
  set(_silent -w)
endif()
target_include_directories(qkgeom ${_system} INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(qkgeom INTERFACE cxx_std_20)
target_link_libraries(qkgeom INTERFACE Eigen3::Eigen Boost::headers Threads::Threads)

# qkgeom::compiled: the mathematics' heavy bodies compiled once; with QKGEOM_PRECOMPILED the headers only declare them
# (core/config.hpp).
add_library(qkgeom_compiled STATIC "${PROJECT_SOURCE_DIR}/.cmake/precompiled.cpp")
target_link_libraries(qkgeom_compiled PUBLIC qkgeom)
target_compile_definitions(qkgeom_compiled PUBLIC QKGEOM_PRECOMPILED)
set_source_files_properties("${PROJECT_SOURCE_DIR}/.cmake/precompiled.cpp" PROPERTIES COMPILE_OPTIONS "${QKGEOM_KERNEL_OPTIONS}")
include(qkgeom_kernel_sets)
if(QKGEOM_KERNEL_SETS)
  target_compile_definitions(qkgeom_compiled PRIVATE QKGEOM_KERNEL_SETS)
  qkgeom_add_kernel_sets(qkgeom_compiled qkgeom_kernels SETS ${QKGEOM_INSTRUCTION_SETS}
    SOURCES "${PROJECT_SOURCE_DIR}/.cmake/kernel_set.cpp" LIBRARIES qkgeom)
endif()

# qkgeom::io and qkgeom::report: the rooms that are no mathematics, a header and a .cpp beside it. Only they need
# nlohmann-json. They are compiled as any user of the headers is, so that who links them may still have the
# mathematics for his own CPU; what they take of it stands in them as inline functions.
if(QKGEOM_BUILD_TESTS OR QKGEOM_BUILD_EXAMPLES OR QKGEOM_BUILD_CAPTURE)
  set(_qkgeom_io_required REQUIRED)
else()
  set(_qkgeom_io_required QUIET)
endif()
find_package(nlohmann_json 3.11 ${_qkgeom_io_required})
set(_qkgeom_archives compiled)
if(nlohmann_json_FOUND)
  foreach(_room IN ITEMS io report)
    file(GLOB _sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/qkgeom/${_room}/*.cpp")
    add_library(qkgeom_${_room} STATIC ${_sources})
  endforeach()
  target_link_libraries(qkgeom_io PUBLIC qkgeom nlohmann_json::nlohmann_json)
  target_link_libraries(qkgeom_report PUBLIC qkgeom_io)
  list(APPEND _qkgeom_archives io report)
endif()

foreach(_name IN LISTS _qkgeom_archives)
  add_library(qkgeom::${_name} ALIAS qkgeom_${_name})
  target_link_libraries(qkgeom_${_name} PRIVATE $<BUILD_INTERFACE:$<TARGET_NAME_IF_EXISTS:qkgeom_warnings>>)
  target_compile_options(qkgeom_${_name} PRIVATE ${_silent})
  # A consumer's own Eigen may allocate with another alignment (-march): the two must not share functions.
  target_compile_definitions(qkgeom_${_name} PRIVATE Eigen=qkgeom_eigen)
  set_target_properties(qkgeom_${_name} PROPERTIES EXPORT_NAME ${_name}
    EXCLUDE_FROM_ALL $<NOT:$<BOOL:${PROJECT_IS_TOP_LEVEL}>>
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)   # for shared libraries too
endforeach()
