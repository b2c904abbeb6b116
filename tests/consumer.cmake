# SPDX-License-Identifier: MIT
# Outside projects that find the installed package, or use these sources: configure, build and run, each from nothing.
if(NOT QKGEOM_INSTALL)
  return()
endif()
function(add_consumer name source programs project)   # more arguments for CMake; _compiler, _flags: of the consumer
  add_test(NAME consumer.${name} COMMAND "${CMAKE_COMMAND}"
    -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${source} -DWORK=${CMAKE_CURRENT_BINARY_DIR}/consumer_${name}
    -DCOMPILER=${_compiler} -DGENERATOR=${CMAKE_GENERATOR} "-DFLAGS=${_flags}" "-DPROGRAMS=${programs}"
    "-DPROJECT=${project}" "-DMORE=${ARGN}" -P "${PROJECT_SOURCE_DIR}/tests/consumer_test.cmake")
  set_tests_properties(consumer.${name} PROPERTIES TIMEOUT 900 COST 50)
endfunction()

set(_compiler "${CMAKE_CXX_COMPILER}")
set(_flags "${CMAKE_CXX_FLAGS}")
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

# Without a package; also with clang and LLVM's own library.
set(_more -DQKGEOM_SOURCE=${PROJECT_SOURCE_DIR} -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  list(APPEND _more -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
foreach(_as IN ITEMS FetchContent add_subdirectory)
  add_consumer(${_as} "${PROJECT_SOURCE_DIR}/tests/components" with_io "" ${_more} -DQKGEOM_AS=${_as})
endforeach()
if(NOT QKGEOM_NO_LIBCXX)
  set(_compiler "${QKGEOM_CLANG}")
  set(_flags -stdlib=libc++)
  add_consumer(libcxx "${PROJECT_SOURCE_DIR}/tests/components" with_headers "" ${_more} -DQKGEOM_AS=add_subdirectory -DQKGEOM_LIBCXX=ON)
endif()
