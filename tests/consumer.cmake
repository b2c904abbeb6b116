# SPDX-License-Identifier: MIT
# Outside projects that find the installed package: install, configure, build and run, each from nothing.
if(NOT QKGEOM_INSTALL)
  return()
endif()
function(add_consumer name source programs project)   # more arguments for CMake
  add_test(NAME consumer.${name} COMMAND "${CMAKE_COMMAND}"
    -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${source} -DWORK=${CMAKE_CURRENT_BINARY_DIR}/consumer_${name}
    -DCOMPILER=${CMAKE_CXX_COMPILER} -DGENERATOR=${CMAKE_GENERATOR} -DFLAGS=${CMAKE_CXX_FLAGS} "-DPROGRAMS=${programs}"
    "-DPROJECT=${project}" "-DMORE=${ARGN}" -P "${PROJECT_SOURCE_DIR}/tests/consumer_test.cmake")
  set_tests_properties(consumer.${name} PROPERTIES TIMEOUT 900 COST 50)
endfunction()

set(_project)
if(TARGET qkgeom-capture AND TARGET qkgeom-heads)
  set(_project "${PROJECT_SOURCE_DIR}")
endif()
add_consumer(installed_package "${PROJECT_SOURCE_DIR}/examples/consumer" consumer "${_project}")
set(_programs with_io with_compiled with_report with_compiled_report)
if(TARGET qkgeom::thrust_cpu)
  list(APPEND _programs with_thrust)
endif()
set(_more -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0)   # what they find and link is tested, not how fast they are
if(TARGET qkgeom::cuda)   # an architecture is enough
  list(APPEND _more -DWITH_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=80)
endif()
add_consumer(components "${PROJECT_SOURCE_DIR}/tests/components" "${_programs}" "" ${_more})
