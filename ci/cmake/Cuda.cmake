# SPDX-License-Identifier: MIT
# The CUDA back end: LOCKSTEP_CUDA=AUTO includes it if nvcc (13.0 or newer) and the toolkit are installed and work, ON
# requires it, OFF leaves it out. Sets LOCKSTEP_HAS_CUDA and, for libraries that may be missing, LOCKSTEP_HAS_CUDNN
# and LOCKSTEP_HAS_NCCL; LOCKSTEP_<name>_VERSION and _FOLDER. cudart is linked statically; cuBLASLt, cuDNN and NCCL
# are loaded on first use, so the program starts without CUDA.
# FAKE: for tests, with the headers alone, on fake GPUs (common/device/fake).
set(LOCKSTEP_CUDA AUTO CACHE STRING "CUDA back end: AUTO, ON, OFF or, for tests, FAKE")
set_property(CACHE LOCKSTEP_CUDA PROPERTY STRINGS AUTO ON OFF FAKE)
if(NOT LOCKSTEP_CUDA MATCHES "^(AUTO|ON|OFF|FAKE)$")
  message(FATAL_ERROR "LOCKSTEP_CUDA is ${LOCKSTEP_CUDA}; AUTO, ON, OFF or FAKE")
endif()
foreach(name CUDA CUBLAS CUDNN NCCL)
  set(LOCKSTEP_HAS_${name} 0)
endforeach()
set(lockstep_cuda_least 13.0)

# Reports why CUDA is left out; with ON that is an error.
function(lockstep_without_cuda why)
  if(LOCKSTEP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LOCKSTEP_CUDA=ON: ${why}")
  endif()
  message(STATUS "CUDA: left out: ${why}")
endfunction()

# Folders of Python's nvidia-* packages: <site-packages>/nvidia/{cudnn,nccl,cu13}.
function(lockstep_python_folders out)
  find_program(lockstep_python NAMES python3 python)
  mark_as_advanced(lockstep_python)
  set(folders "")
  if(lockstep_python)
    execute_process(COMMAND ${lockstep_python} -c "import sys; print(';'.join(p for p in sys.path if p))"
                    OUTPUT_VARIABLE paths OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    foreach(path ${paths})
      file(GLOB found LIST_DIRECTORIES true "${path}/nvidia/*")
      list(APPEND folders ${found})
    endforeach()
  endif()
  set(${out} "${folders}" PARENT_SCOPE)
endfunction()

# lockstep_find_loaded(NAME HEADER LIBRARY MACRO): a library that is loaded at run time. Its version is read from
# MACRO_MAJOR and so on in its header; the folder is where a loader may look for it.
function(lockstep_find_loaded name header library macro)
  find_path(LOCKSTEP_${name}_INCLUDE_DIR ${header} HINTS ${lockstep_cuda_folders} PATH_SUFFIXES include)
  get_filename_component(beside "${LOCKSTEP_${name}_INCLUDE_DIR}" DIRECTORY) # the header's own first
  find_file(LOCKSTEP_${name}_LIBRARY NAMES lib${library}.so ${ARGN} PATHS ${beside}
            PATH_SUFFIXES lib64 lib NO_DEFAULT_PATH)
  find_file(LOCKSTEP_${name}_LIBRARY NAMES lib${library}.so ${ARGN} HINTS ${lockstep_cuda_folders}
            PATHS /usr/lib/${CMAKE_C_LIBRARY_ARCHITECTURE} /usr/lib64 PATH_SUFFIXES lib64 lib)
  mark_as_advanced(LOCKSTEP_${name}_INCLUDE_DIR LOCKSTEP_${name}_LIBRARY)
  if(NOT LOCKSTEP_${name}_INCLUDE_DIR OR (NOT LOCKSTEP_${name}_LIBRARY AND NOT LOCKSTEP_CUDA STREQUAL "FAKE"))
    return()
  endif()
  file(READ "${LOCKSTEP_${name}_INCLUDE_DIR}/${header}" text)
  set(version "")
  foreach(part MAJOR MINOR PATCH PATCHLEVEL)
    if(text MATCHES "#define ${macro}_${part} +([0-9]+)")
      list(APPEND version ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN version . version)
  get_filename_component(folder "${LOCKSTEP_${name}_LIBRARY}" DIRECTORY)
  set(LOCKSTEP_HAS_${name} 1 PARENT_SCOPE)
  set(LOCKSTEP_${name}_VERSION ${version} PARENT_SCOPE)
  set(LOCKSTEP_${name}_FOLDER ${folder} PARENT_SCOPE)
endfunction()

if(LOCKSTEP_CUDA STREQUAL "FAKE")
  include(FakeGpu)
elseif(LOCKSTEP_CUDA)
  find_program(lockstep_nvcc nvcc HINTS $ENV{CUDA_HOME}/bin ${LOCKSTEP_DEPS}/bin /usr/local/cuda/bin)
  mark_as_advanced(lockstep_nvcc)
  if(lockstep_nvcc AND NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${lockstep_nvcc})
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    lockstep_without_cuda("no nvcc that works with the C++ compiler here")
  else()
    set(CMAKE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "sm_80, sm_90, and PTX for what is newer")
    enable_language(CUDA)
    find_package(CUDAToolkit ${lockstep_cuda_least} QUIET)
    if(NOT CUDAToolkit_FOUND)
      lockstep_without_cuda("the toolkit is older than ${lockstep_cuda_least}, or incomplete")
    elseif(NOT TARGET CUDA::cudart_static)
      lockstep_without_cuda("the toolkit has no libcudart_static.a")
    else()
      lockstep_python_folders(lockstep_cuda_folders)
      list(PREPEND lockstep_cuda_folders ${LOCKSTEP_DEPS} ${LOCKSTEP_DEPS}/usr
           ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_LIBRARY_DIR})
      lockstep_find_loaded(CUBLAS cublas_api.h cublasLt CUBLAS_VER libcublasLt.so.13)
      lockstep_find_loaded(CUDNN cudnn_version.h cudnn CUDNN libcudnn.so.9)
      lockstep_find_loaded(NCCL nccl.h nccl NCCL libnccl.so.2)
      # nvcc's launches initialise statics by the C++ run-time library, which oneDNN links, too.
      find_library(LOCKSTEP_STDCXX_LIBRARY NAMES libstdc++.so.6 stdc++)
      mark_as_advanced(LOCKSTEP_STDCXX_LIBRARY)
      if(LOCKSTEP_HAS_CUBLAS AND LOCKSTEP_STDCXX_LIBRARY)
        set(LOCKSTEP_HAS_CUDA 1)
        set(LOCKSTEP_CUDA_VERSION ${CUDAToolkit_VERSION})
        list(APPEND LOCKSTEP_LIBRARIES CUDA::cudart_static ${LOCKSTEP_STDCXX_LIBRARY})
        message(STATUS "CUDA ${CUDAToolkit_VERSION}, cuBLAS ${LOCKSTEP_CUBLAS_VERSION}, "
                "cuDNN ${LOCKSTEP_CUDNN_VERSION}, NCCL ${LOCKSTEP_NCCL_VERSION}")
      else()
        lockstep_without_cuda("cublasLt (cublas_api.h, libcublasLt.so) or libstdc++.so.6 is missing")
      endif()
    endif()
  endif()
endif()

if(NOT LOCKSTEP_HAS_CUDA)
  set(LOCKSTEP_HAS_CUBLAS 0)
  set(LOCKSTEP_HAS_CUDNN 0)
  set(LOCKSTEP_HAS_NCCL 0)
endif()

# Kernels: bits are a contract there, too, so nothing is contracted or approximated.
if(LOCKSTEP_CUDA STREQUAL "FAKE")
  return()
endif()
add_library(lockstep_cuda_options INTERFACE)
target_include_directories(lockstep_cuda_options INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_features(lockstep_cuda_options INTERFACE $<$<BOOL:${LOCKSTEP_HAS_CUDA}>:cuda_std_17>)
target_compile_options(lockstep_cuda_options INTERFACE
  -fmad=false -ftz=true # denormals are flushed, as on CPU devices
  -Xcompiler=-Wall,-Wextra,-Wshadow,-Wconversion,-ffp-contract=off,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics
  $<$<BOOL:${LOCKSTEP_WERROR}>:SHELL:-Werror all-warnings -Xcompiler=-Werror>)
