# SPDX-License-Identifier: MIT
# What needs CUDA among the examples.
# examples_on_cuda(PREFIX DEVICE): qkgeom-heads-cuda, which `qkgeom heads --device cuda` becomes, and its like, of the same
# objects and libraries.
function(examples_on_cuda prefix device)
  foreach(_command IN ITEMS heads what-if bands pca rotation plasticity)
    string(REPLACE - _ _folder ${_command})
    examples_program(${prefix}qkgeom-${_command}-cuda ${_folder} ${device} $<TARGET_OBJECTS:qkgeom-${_command}>)
    set_target_properties(${prefix}qkgeom-${_command}-cuda PROPERTIES OUTPUT_NAME qkgeom-${_command}-cuda)
  endforeach()
endfunction()
if(TARGET qkgeom::cuda)
  examples_library(cuda qkgeom_cuda_intree OBJECT common/analysis_cuda.cu)
  examples_on_cuda("" qkgeom_examples_cuda)
  add_executable(library_device library/device.cu)
  add_library(qkgeom_python_cuda OBJECT python/src/on_cuda.cu)   # of a project of its own; that nvcc takes it shows here
  foreach(_target IN ITEMS library_device qkgeom_python_cuda)
    target_link_libraries(${_target} PRIVATE qkgeom_cuda_intree)
  endforeach()
endif()
