# SPDX-License-Identifier: MIT
# Compiles common/kernel/cpu/vector_loops.c once per instruction set; vector.c selects one at run time.
set(vector_loops common/kernel/cpu/vector_loops.c)
function(lockstep_vector_loops isa)
  add_library(vector_loops_${isa} OBJECT ${vector_loops})
  target_link_libraries(vector_loops_${isa} PRIVATE lockstep_options)
  target_compile_definitions(vector_loops_${isa} PRIVATE LS_VECTOR_ISA=${isa})
  target_compile_options(vector_loops_${isa} PRIVATE ${ARGN})
  if(LOCKSTEP_SANITIZE) # gcc takes minutes to optimise its checks
    target_compile_options(vector_loops_${isa} PRIVATE -O1)
  elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(vector_loops_${isa} PRIVATE -O3)
  endif()
  target_sources(common_kernel PRIVATE $<TARGET_OBJECTS:vector_loops_${isa}>)
  list(APPEND vector_objects $<TARGET_OBJECTS:vector_loops_${isa}>) # which are not among those of common_kernel
  set(vector_objects ${vector_objects} PARENT_SCOPE)
endfunction()
lockstep_vector_loops(portable)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  lockstep_vector_loops(avx2 -mavx2 -mfma)
  lockstep_vector_loops(avx512 -mavx512f -mavx512dq -mavx512vl -mavx512bw -mprefer-vector-width=512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64") # which all have NEON, and a fused multiply-add in it
  lockstep_vector_loops(neon -DLS_VECTOR_NEON)
endif()
