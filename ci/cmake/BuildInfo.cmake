# SPDX-License-Identifier: MIT
# Writes generated/build_info.h: commit, compiler and flags of the build. Runs at every build, so that the commit is
# current; the header only changes if its text does.
string(JOIN " " lockstep_flags ${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${CMAKE_BUILD_TYPE}})
string(TOUPPER "${CMAKE_BUILD_TYPE}" lockstep_type)
set(lockstep_flags "${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${lockstep_type}}")
if(LOCKSTEP_SANITIZE)
  string(APPEND lockstep_flags " -fsanitize=${LOCKSTEP_SANITIZE}")
endif()
string(STRIP "${lockstep_flags}" lockstep_flags)
string(TOLOWER "${CMAKE_BUILD_TYPE}" lockstep_type)
if(LOCKSTEP_HOOKS)
  string(APPEND lockstep_type "+hooks") # rows show that they come from no product build
endif()
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/generated)
set(lockstep_info_command ${CMAKE_COMMAND}
  -DSOURCE=${CMAKE_CURRENT_SOURCE_DIR} -DOUT=${CMAKE_CURRENT_BINARY_DIR}/generated/build_info.h
  -DVERSION=${PROJECT_VERSION} -DTYPE=${lockstep_type}
  "-DCOMPILER=${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}" "-DFLAGS=${lockstep_flags}"
  "-DCUDA=${LOCKSTEP_CUDA_VERSION}" "-DCUBLAS=${LOCKSTEP_CUBLAS_VERSION}"
  "-DCUDNN=${LOCKSTEP_CUDNN_VERSION}" "-DNCCL=${LOCKSTEP_NCCL_VERSION}"
  -P ${CMAKE_CURRENT_LIST_DIR}/WriteBuildInfo.cmake)
execute_process(COMMAND ${lockstep_info_command})
add_custom_target(build_info ALL COMMAND ${lockstep_info_command} VERBATIM
  BYPRODUCTS ${CMAKE_CURRENT_BINARY_DIR}/generated/build_info.h)
