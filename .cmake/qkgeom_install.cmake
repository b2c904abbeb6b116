# SPDX-License-Identifier: MIT
# cmake --install, and the package that find_package(qkgeom [COMPONENTS compiled io report thrust cuda]) reads. Component `qkgeom_library` is what
# another project needs; programs, and files for them, are the component `qkgeom_programs`.

# Installs the program TARGET and TARGET-cuda, if they were built. The file of the build tree is copied as it is: its run
# path finds libraries that lie where the linker does not look by itself, such as cuDNN's.
function(qkgeom_install_program target)
  if(QKGEOM_INSTALL)
    install(PROGRAMS "$<TARGET_FILE:${target}>" DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT qkgeom_programs OPTIONAL)
    install(PROGRAMS "$<TARGET_FILE_DIR:${target}>/${target}-cuda" DESTINATION "${CMAKE_INSTALL_BINDIR}"
      COMPONENT qkgeom_programs OPTIONAL)
  endif()
endfunction()

if(NOT QKGEOM_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
if(QKGEOM_BUILD_EXAMPLES)
  install(FILES examples/qkgeom/completion.bash DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
    RENAME qkgeom COMPONENT qkgeom_programs)
  install(DIRECTORY examples/thesis/data/ DESTINATION "${CMAKE_INSTALL_DATADIR}/qkgeom/thesis" COMPONENT qkgeom_programs)
endif()

set(_qkgeom_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/qkgeom")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/qkgeom" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  COMPONENT qkgeom_library FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh")
install(TARGETS qkgeom EXPORT qkgeom_targets)
install(EXPORT qkgeom_targets FILE qkgeomTargets.cmake NAMESPACE qkgeom:: DESTINATION "${_qkgeom_package_dir}"
  COMPONENT qkgeom_library)

# Headers need no build: an archive that was not built is not installed, and its component not found.
foreach(_name IN LISTS _qkgeom_archives)
  install(TARGETS qkgeom_${_name} EXPORT qkgeom_${_name}_targets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT qkgeom_library OPTIONAL)
  install(EXPORT qkgeom_${_name}_targets FILE qkgeom_${_name}_targets.cmake NAMESPACE qkgeom::
    DESTINATION "${_qkgeom_package_dir}" COMPONENT qkgeom_library)
endforeach()

configure_package_config_file("${PROJECT_SOURCE_DIR}/.cmake/qkgeomConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/qkgeomConfig.cmake" INSTALL_DESTINATION "${_qkgeom_package_dir}"
  PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/qkgeomConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/qkgeomConfig.cmake" "${PROJECT_BINARY_DIR}/qkgeomConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/.cmake/qkgeom_thrust.cmake" "${PROJECT_SOURCE_DIR}/.cmake/qkgeom_cuda_target.cmake"
  DESTINATION "${_qkgeom_package_dir}" COMPONENT qkgeom_library)
