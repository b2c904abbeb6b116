# SPDX-License-Identifier: MIT
# A portable build for x86-64 holds its heavy functions once for each of several instruction sets and chooses when it
# starts (core/instruction_set.hpp). Each set is one object whose only public symbol is the function that gives it:
# everything else in it, the standard library's and Eigen's templates too, is local, since the linker would else take any
# one copy of an inline function for all sets.

set(QKGEOM_KERNEL_SETS OFF)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$" AND CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_OBJCOPY
   AND NOT "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_RELEASE}" MATCHES "-march=|-fsanitize=|-flto" AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(QKGEOM_KERNEL_SETS ON)
endif()
set(QKGEOM_INSTRUCTION_SETS v2 v3 v4 v4x)
set(_qkgeom_options_v2 -march=x86-64-v2)
set(_qkgeom_options_v3 -march=x86-64-v3)
set(_qkgeom_options_v4 -march=x86-64-v4)
set(_qkgeom_options_v4x -march=x86-64-v4 -mavx512vnni -mavx512vbmi -mavx512vbmi2 -mavx512vpopcntdq)

# Adds to TARGET an object for each instruction set of SETS, with SOURCES, which define the function
# PREFIX_<set> under the name of the macro QKGEOM_KERNEL_SET.
function(qkgeom_add_kernel_sets target prefix)
  cmake_parse_arguments(PARSE_ARGV 2 _arg "" "" "SETS;SOURCES;LIBRARIES")
  foreach(_set IN LISTS _arg_SETS)
    set(_objects ${target}_${_set})
    add_library(${_objects} OBJECT ${_arg_SOURCES})
    target_link_libraries(${_objects} PRIVATE ${_arg_LIBRARIES})
    target_compile_definitions(${_objects} PRIVATE QKGEOM_PRECOMPILED QKGEOM_KERNEL_SET=${prefix}_${_set} Eigen=qkgeom_eigen)
    target_compile_options(${_objects} PRIVATE -O3 ${_qkgeom_options_${_set}}
      $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)   # a unique symbol can't be made local
    set_target_properties(${_objects} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    set(_object "${CMAKE_CURRENT_BINARY_DIR}/${prefix}_${_set}.o")
    add_custom_command(OUTPUT "${_object}"
      COMMAND "${CMAKE_LINKER}" -r --force-group-allocation -o "${_object}.all" $<TARGET_OBJECTS:${_objects}>
      COMMAND "${CMAKE_OBJCOPY}" --keep-global-symbol=${prefix}_${_set} "${_object}.all" "${_object}"
      DEPENDS ${_objects} $<TARGET_OBJECTS:${_objects}> COMMAND_EXPAND_LISTS VERBATIM)
    target_sources(${target} PRIVATE "${_object}")
    set_source_files_properties("${_object}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  endforeach()
endfunction()
