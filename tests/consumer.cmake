# SPDX-License-Identifier: MIT
# Outside projects that find the installed package: install, configure, build and run, each from nothing.
if(QKGEOM_INSTALL)
  add_test(NAME consumer.installed_package COMMAND "${CMAKE_COMMAND}"
    -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}/examples/consumer
    -DWORK=${CMAKE_CURRENT_BINARY_DIR}/consumer -DCOMPILER=${CMAKE_CXX_COMPILER} -DGENERATOR=${CMAKE_GENERATOR}
    -DFLAGS=${CMAKE_CXX_FLAGS} -DPROGRAMS=consumer -P "${CMAKE_CURRENT_LIST_DIR}/consumer_test.cmake")
  set(_programs with_io)
  if(TARGET qkgeom::thrust_cpu)
    list(APPEND _programs with_thrust)
  endif()
  set(_cuda OFF)
  if(TARGET qkgeom::cuda)   # an architecture is enough
    set(_cuda ON)
  endif()
  add_test(NAME consumer.components COMMAND "${CMAKE_COMMAND}"
    -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${CMAKE_CURRENT_LIST_DIR}/components
    -DWORK=${CMAKE_CURRENT_BINARY_DIR}/components -DCOMPILER=${CMAKE_CXX_COMPILER} -DGENERATOR=${CMAKE_GENERATOR}
    -DFLAGS=${CMAKE_CXX_FLAGS} "-DPROGRAMS=${_programs}" "-DMORE=-DWITH_CUDA=${_cuda};-DCMAKE_CUDA_ARCHITECTURES=90-real"
    -P "${CMAKE_CURRENT_LIST_DIR}/consumer_test.cmake")
  set_tests_properties(consumer.installed_package consumer.components PROPERTIES TIMEOUT 900)
endif()
