# SPDX-License-Identifier: MIT
# qkgeom_cudnn: cuDNN 9 and the headers of its frontend 1.13 or newer (PyPI: nvidia-cudnn-frontend), for the attention of
# the forward pass on a GPU. Without them there is no such target, and attention is blockwise, through cuBLAS.
if(TARGET qkgeom_cudnn)
  return()
endif()
find_path(QKGEOM_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(QKGEOM_CUDNN_LIBRARY cudnn HINTS "${CUDAToolkit_LIBRARY_DIR}")
find_path(QKGEOM_CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend/backend/device_properties.h HINTS "${PROJECT_SOURCE_DIR}/build/cudnn-frontend"
  PATH_SUFFIXES include DOC "Folder that holds cudnn_frontend.h")   # where tests/run.sh puts it
if(NOT QKGEOM_CUDNN_INCLUDE_DIR OR NOT QKGEOM_CUDNN_LIBRARY OR NOT QKGEOM_CUDNN_FRONTEND_INCLUDE_DIR)
  message(STATUS "qkgeom: cuDNN or its frontend's headers are not there, attention on a GPU goes through cuBLAS")
  return()
endif()

add_library(qkgeom_cudnn INTERFACE)
target_include_directories(qkgeom_cudnn SYSTEM INTERFACE
  "${QKGEOM_CUDNN_FRONTEND_INCLUDE_DIR}" "${QKGEOM_CUDNN_INCLUDE_DIR}")
target_compile_definitions(qkgeom_cudnn INTERFACE QKGEOM_CUDNN)
target_link_libraries(qkgeom_cudnn INTERFACE "${QKGEOM_CUDNN_LIBRARY}" CUDA::cudart CUDA::nvrtc ${CMAKE_DL_LIBS})
