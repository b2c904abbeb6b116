# SPDX-License-Identifier: MIT
# cmake -DBUILD=.. -DSOURCE=.. -DWORK=.. -DCOMPILER=.. -DGENERATOR=.. -DFLAGS=.. -DPROGRAMS=.. [-DMORE=..] -P consumer_test.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status)
  if(status)
    message(FATAL_ERROR "failed (${status}): ${ARGN}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix" --component qkgeom_library)
run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${WORK}/build" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
  "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DCMAKE_PREFIX_PATH=${WORK}/prefix" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF ${MORE})
run("${CMAKE_COMMAND}" --build "${WORK}/build")
foreach(program IN LISTS PROGRAMS)
  run("${CMAKE_COMMAND}" -E chdir "${WORK}/build" "./${program}")
endforeach()
