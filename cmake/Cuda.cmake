# The GPU module is built where a CUDA compiler is found, with no GPU needed: MEMEST_CUDA is AUTO (where one is found), ON (an
# error where none is) or OFF. Sets MEMEST_HAS_CUDA and MEMEST_HAS_CUDNN.
include(CheckLanguage)
set(MEMEST_CUDA AUTO CACHE STRING "Build the GPU module: AUTO, ON or OFF")
set_property(CACHE MEMEST_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MEMEST_HAS_CUDA FALSE)
set(MEMEST_HAS_CUDNN FALSE)

# Ampere, Ada, Hopper and Blackwell, those of data centres and those of workstations; the newest as PTX too, for what comes after.
set(memest_cuda_architectures 80 86 89 90 100 120)

# memest_cuda_missing(REASON): an error where CUDA is asked for, a line of the log where it would be welcome.
function(memest_cuda_missing reason)
  if(MEMEST_CUDA STREQUAL "AUTO")
    message(STATUS "No GPU module: ${reason}")
  else()
    message(FATAL_ERROR "MEMEST_CUDA is ${MEMEST_CUDA}, but ${reason}")
  endif()
endfunction()

# memest_known_architectures(RESULT): those of the list that the compiler knows, as CMake writes them.
function(memest_known_architectures result)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  foreach(architecture IN LISTS memest_cuda_architectures)
    if(known MATCHES "compute_${architecture}\n")
      list(APPEND architectures ${architecture}-real)
      set(newest ${architecture})
    endif()
  endforeach()
  set(${result} ${architectures} ${newest}-virtual PARENT_SCOPE)
endfunction()

if(MEMEST_CUDA STREQUAL "OFF" OR MEMEST_FUZZ)  # nvcc knows no option of the fuzzers
  return()
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(memest_nvcc nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(memest_nvcc)
    set(CMAKE_CUDA_COMPILER ${memest_nvcc})
  endif()
  mark_as_advanced(memest_nvcc)
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  memest_cuda_missing("there is no CUDA compiler that works")
  return()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  memest_known_architectures(CMAKE_CUDA_ARCHITECTURES)
endif()
if(DEFINED CMAKE_CXX_COMPILER_LAUNCHER AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.0)
  memest_cuda_missing("CUDA ${CMAKE_CUDA_COMPILER_VERSION} knows no C++20, which begins with 12.0")
  return()
endif()
find_package(CUDAToolkit QUIET)
if(NOT TARGET CUDA::cudart_static OR NOT TARGET CUDA::cublasLt)
  memest_cuda_missing("the static CUDA runtime or cuBLASLt is missing")
  return()
endif()
set(MEMEST_HAS_CUDA TRUE)

# Attention is timed through cuDNN where its headers and those of its frontend are found. Neither is linked: the library is opened
# where it is used.
find_path(MEMEST_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} DOC "Folder of cudnn.h")
find_path(
  MEMEST_CUDNN_FRONTEND_INCLUDE cudnn_frontend_version.h HINTS ${MEMEST_CUDNN_INCLUDE} DOC "Folder of cudnn_frontend.h, 1.13 or newer"
)
if(EXISTS ${MEMEST_CUDNN_INCLUDE}/cudnn.h AND EXISTS ${MEMEST_CUDNN_FRONTEND_INCLUDE}/cudnn_frontend_version.h)
  file(STRINGS ${MEMEST_CUDNN_FRONTEND_INCLUDE}/cudnn_frontend_version.h version REGEX "define CUDNN_FRONTEND_M[A-Z]+_VERSION")
  string(REGEX REPLACE "[^0-9;]" "" version "${version}")
  string(REPLACE ";" "." version "${version}")
  if(version VERSION_GREATER_EQUAL 1.13)
    set(MEMEST_HAS_CUDNN TRUE)
  endif()
endif()
if(NOT MEMEST_HAS_CUDNN)
  message(STATUS "Attention is not timed on GPUs: cudnn.h or cudnn_frontend.h (1.13 or newer) is missing; "
                 "MEMEST_CUDNN_INCLUDE and MEMEST_CUDNN_FRONTEND_INCLUDE name their folders"
  )
endif()
