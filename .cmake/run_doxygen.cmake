# SPDX-License-Identifier: MIT
# cmake -DDOXYGEN=PROGRAM -DDOXYFILE=FILE -DOUT=FOLDER [-DSTRICT=ON] -P run_doxygen.cmake
# Runs Doxygen and shows the warnings that it wrote to OUT/warnings.log; STRICT: any warning is an error.
file(REMOVE_RECURSE "${OUT}")
file(MAKE_DIRECTORY "${OUT}")
execute_process(COMMAND "${DOXYGEN}" "${DOXYFILE}" RESULT_VARIABLE _failed OUTPUT_QUIET)
if(_failed)
  message(FATAL_ERROR "doxygen ended with ${_failed}")
endif()
file(READ "${OUT}/warnings.log" _warnings)
if(_warnings AND STRICT)
  message(FATAL_ERROR "doxygen warns:\n${_warnings}")
elseif(_warnings)
  message("doxygen warns (${OUT}/warnings.log):\n${_warnings}")
endif()
