# SPDX-License-Identifier: MIT
# An outside project that finds the installed package: install, configure, build and run, each from nothing.
if(QKGEOM_INSTALL)
  add_test(NAME consumer.installed_package COMMAND "${CMAKE_COMMAND}"
    -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}/examples/consumer
    -DWORK=${CMAKE_CURRENT_BINARY_DIR}/consumer -DCOMPILER=${CMAKE_CXX_COMPILER} -DGENERATOR=${CMAKE_GENERATOR}
    -DFLAGS=${CMAKE_CXX_FLAGS} -P "${CMAKE_CURRENT_LIST_DIR}/consumer_test.cmake")
  set_tests_properties(consumer.installed_package PROPERTIES TIMEOUT 600)
endif()
