# SPDX-License-Identifier: MIT
# cmake -DBUILD=.. -DSOURCE=.. -DWORK=.. -DCOMPILER=.. -DGENERATOR=.. -DFLAGS=.. -DPROGRAMS=.. [-DMORE=..] [-DPROJECT=..]
#   -P consumer_test.cmake
# Installs the library, and builds and runs an outside project; one that MORE tells of the sources (-DQKGEOM_AS=..) uses no
# installed library. With PROJECT, the folder of this project, all of it is
# installed as after examples/demo.sh: from the preset `native`, of which only some programs were built. BUILD's programs
# stand for them, so that nothing is compiled.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(status)
    message(FATAL_ERROR "failed (${status}): ${ARGN}\n${said}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
if(MORE MATCHES "-DQKGEOM_AS=")
elseif(NOT PROJECT)
  run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix" --component qkgeom_library)
  # A consumer's Eigen, compiled for another CPU, must not meet the archives'.
  file(GLOB archives "${WORK}/prefix/lib*/libqkgeom_*.a" "${WORK}/prefix/lib*/*/libqkgeom_*.a")
  execute_process(COMMAND nm -C ${archives} OUTPUT_VARIABLE symbols ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  if(NOT symbols MATCHES "qkgeom_eigen::" OR symbols MATCHES " Eigen::")
    message(FATAL_ERROR "the archives hold functions of namespace Eigen, or none of their own")
  endif()
else()
  # The preset overrules what an earlier configuration of the folder left out.
  run("${CMAKE_COMMAND}" -S "${PROJECT}" -B "${WORK}/demo" --preset native -DQKGEOM_CUDA=OFF -DQKGEOM_BUILD_BENCH=OFF)
  run("${CMAKE_COMMAND}" -S "${PROJECT}" -B "${WORK}/demo" --preset native)
  file(STRINGS "${WORK}/demo/CMakeCache.txt" wanted REGEX "^QKGEOM_BUILD_(CAPTURE|EXAMPLES|BENCH):BOOL=ON$")
  list(LENGTH wanted count)
  if(NOT count EQUAL 3)
    message(FATAL_ERROR "the preset native builds ${wanted} alone")
  endif()

  file(COPY "${BUILD}/bin/qkgeom-capture" "${BUILD}/bin/qkgeom-heads" "${BUILD}/bin/qkgeom" DESTINATION "${WORK}/demo/bin")
  run("${CMAKE_COMMAND}" --install "${WORK}/demo" --prefix "${WORK}/prefix")
  file(GLOB installed RELATIVE "${WORK}/prefix/bin" "${WORK}/prefix/bin/*")
  if(NOT installed STREQUAL "qkgeom;qkgeom-capture;qkgeom-heads")
    message(FATAL_ERROR "qkgeom, capture and heads were built, but ${installed} installed")
  endif()
  run("${WORK}/prefix/bin/qkgeom" heads "${PROJECT}/tests/data/golden/short-bf16.safetensors" --out "${WORK}/results")

  run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix")
  execute_process(COMMAND "${WORK}/prefix/bin/qkgeom" --commands OUTPUT_VARIABLE commands COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[a-z-]+" commands "${commands}")
  foreach(command IN ITEMS ${commands} pca thesis capture evaluate)
    run("${WORK}/prefix/bin/qkgeom" ${command} --help)
  endforeach()
  run("${WORK}/prefix/bin/qkgeom" pca "${PROJECT}/tests/data/golden/short-bf16.safetensors" --out "${WORK}/results")
  run("${WORK}/prefix/bin/qkgeom" thesis "${WORK}/prefix/share/qkgeom/thesis" --out "${WORK}/results" --no-figures)
endif()

run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${WORK}/build" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
  "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DCMAKE_PREFIX_PATH=${WORK}/prefix" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
  -DCMAKE_EXPORT_COMPILE_COMMANDS=ON ${MORE})
if(PROJECT)
  file(STRINGS "${WORK}/build/compile_commands.json" optimised REGEX "-O[23]")
  if(NOT optimised)
    message(FATAL_ERROR "${SOURCE}, configured without a build type, is built without optimisation")
  endif()
endif()
run("${CMAKE_COMMAND}" --build "${WORK}/build")
foreach(program IN LISTS PROGRAMS)
  run("${CMAKE_COMMAND}" -E chdir "${WORK}/build" "./${program}")
endforeach()
