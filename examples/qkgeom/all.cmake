# SPDX-License-Identifier: MIT
# qkgeom, and qkgeom-all: the programs of all commands in one file, which shares what they have in common; it is the
# wheel's. `main` of the program qkgeom-what-if is its function qkgeom_what_if.
add_executable(qkgeom-program qkgeom/qkgeom.cpp)   # qkgeom is the library
set_target_properties(qkgeom-program PROPERTIES OUTPUT_NAME qkgeom)
target_compile_definitions(qkgeom-program PRIVATE QKGEOM_VERSION="${PROJECT_VERSION}")
target_compile_features(qkgeom-program PRIVATE cxx_std_20)
target_link_libraries(qkgeom-program PRIVATE qkgeom_warnings)
qkgeom_install_program(qkgeom-program)

add_executable(qkgeom-all $<TARGET_OBJECTS:qkgeom-program> "${CMAKE_CURRENT_BINARY_DIR}/linked.cpp")
set_target_properties(qkgeom-all PROPERTIES OUTPUT_NAME qkgeom RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/all"
  LINKER_LANGUAGE CXX)
set(_mains "// Made by examples/qkgeom/all.cmake: the programs of qkgeom-all by their commands.\n#include <cstring>\nusing program = int(int, char**);\n")
foreach(_command IN LISTS _commands ITEMS capture evaluate merge)
  if(TARGET qkgeom-${_command})
    string(REPLACE - _ _main qkgeom_${_command})
    add_custom_command(OUTPUT ${_main}.o DEPENDS $<TARGET_OBJECTS:qkgeom-${_command}>
      COMMAND "${CMAKE_OBJCOPY}" --redefine-sym main=${_main} $<TARGET_OBJECTS:qkgeom-${_command}> ${_main}.o VERBATIM)
    get_target_property(_libraries qkgeom-${_command} LINK_LIBRARIES)
    target_sources(qkgeom-all PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/${_main}.o")
    target_link_libraries(qkgeom-all PRIVATE ${_libraries})
    string(APPEND _mains "extern \"C\" program ${_main};\n")
    string(APPEND _linked "  if (std::strcmp(name, \"${_command}\") == 0) return ${_main};\n")
  endif()
endforeach()
file(CONFIGURE OUTPUT linked.cpp CONTENT "@_mains@extern \"C\" program* qkgeom_linked(const char* name) {\n@_linked@  return nullptr;\n}\n" @ONLY)
