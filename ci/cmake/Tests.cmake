# SPDX-License-Identifier: MIT
# Every <folder>/tests/test_*.c is one CTest of label `unit`; every test_*.sh one of
# label `integration` (`slow` where its name ends so), which gets the program's path in LOCKSTEP. Exit status 77: skipped,
# with the reason in the output.
file(GLOB unit_tests CONFIGURE_DEPENDS common/*/tests/test_*.c impl/tests/test_*.c
     impl/examples/tests/test_*.c bench/tests/test_*.c)
list(FILTER unit_tests EXCLUDE REGEX "/test_[a-z_]*(kernels|sums|launches|parts|nets)_emulated\\.c$")
if(LOCKSTEP_HAS_CUDA) # the kernels of GPUs once more, for CPUs
  enable_language(CXX)
  add_library(gpu_emulated OBJECT common/kernel/tests/gpu_emulated.cpp)
  add_library(sums_emulated OBJECT common/comm/tests/sums_emulated.cpp)
  foreach(emulated gpu_emulated sums_emulated)
    target_include_directories(${emulated} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_compile_features(${emulated} PRIVATE cxx_std_17)
    target_compile_options(${emulated} PRIVATE -O2 -Wall -Wextra -Wshadow -Wconversion
      -Wno-unknown-pragmas -ffp-contract=off -U_FORTIFY_SOURCE $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
  endforeach()
  list(APPEND unit_tests ${CMAKE_CURRENT_SOURCE_DIR}/common/kernel/tests/test_kernels_emulated.c
       ${CMAKE_CURRENT_SOURCE_DIR}/common/kernel/tests/test_layer_kernels_emulated.c
       ${CMAKE_CURRENT_SOURCE_DIR}/common/kernel/tests/test_residual_kernels_emulated.c
       ${CMAKE_CURRENT_SOURCE_DIR}/common/comm/tests/test_sums_emulated.c
       ${CMAKE_CURRENT_SOURCE_DIR}/impl/tests/test_launches_emulated.c
       ${CMAKE_CURRENT_SOURCE_DIR}/impl/tests/test_parts_emulated.c
       ${CMAKE_CURRENT_SOURCE_DIR}/impl/tests/test_nets_emulated.c)
  if(LOCKSTEP_HAS_CUDNN)
    list(APPEND unit_tests ${CMAKE_CURRENT_SOURCE_DIR}/common/kernel/tests/test_conv_kernels_emulated.c)
  endif()
endif()
foreach(source ${unit_tests})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE bench ${LOCKSTEP_TEST_LIBRARIES})
  target_compile_definitions(${name} PRIVATE
    LS_SOURCE_DIR="${CMAKE_CURRENT_SOURCE_DIR}" LS_BUILD_DIR="${CMAKE_CURRENT_BINARY_DIR}")
  add_test(NAME unit.${name} COMMAND ${name})
  set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 300 SKIP_RETURN_CODE 77)
  if(name MATCHES "^test_gpu_") # also of label `gpu`: skipped where there is none
    set_tests_properties(unit.${name} PROPERTIES LABELS "unit;gpu")
  endif()
endforeach()

if(TARGET test_kernels_emulated) # their own ls_gpu_ functions come before the library's
  target_link_libraries(test_sums_emulated PRIVATE sums_emulated)
  target_link_libraries(test_launches_emulated PRIVATE sums_emulated)
  target_link_libraries(test_parts_emulated PRIVATE sums_emulated)
  foreach(name test_kernels_emulated test_layer_kernels_emulated test_residual_kernels_emulated
          test_launches_emulated test_parts_emulated test_nets_emulated)
    target_link_libraries(${name} PRIVATE gpu_emulated)
    target_link_options(${name} PRIVATE -Wl,--wrap=ls_cuda_queue_fault
      -Wl,--wrap=cudaStreamSynchronize)
  endforeach()
endif()

target_link_options(test_steps_guarded PRIVATE # its own memory of devices comes before the library's
  -Wl,--wrap=ls_device_allocate -Wl,--wrap=ls_device_release)

if(LOCKSTEP_HAS_CUDA) # functions of the test come before CUDA's
  foreach(name SetDevice MemGetInfo Malloc Free HostAlloc FreeHost HostRegister HostUnregister
          StreamCreateWithFlags StreamDestroy StreamSynchronize StreamQuery StreamIsCapturing
          StreamBeginCapture StreamEndCapture GraphGetNodes GraphInstantiate GraphUpload GraphLaunch
          GraphDestroy GraphExecDestroy EventCreateWithFlags EventDestroy EventRecord EventQuery
          EventSynchronize ThreadExchangeStreamCaptureMode MemsetAsync MemcpyAsync MemcpyPeerAsync
          DeviceCanAccessPeer DeviceEnablePeerAccess GetLastError)
    target_link_options(test_cuda_emulated PRIVATE -Wl,--wrap=cuda${name})
    target_link_options(test_watch_emulated PRIVATE -Wl,--wrap=cuda${name})
  endforeach()
endif()

if(TARGET test_conv_kernels_emulated) # a library in place of cuDNN, loaded as that is
  add_library(made_up_cudnn SHARED common/kernel/tests/made_up_cudnn.c)
  target_link_libraries(made_up_cudnn PRIVATE lockstep_options m)
  target_include_directories(made_up_cudnn SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  set_target_properties(made_up_cudnn PROPERTIES OUTPUT_NAME cudnn VERSION 9 SOVERSION 9
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/made_up)
  add_dependencies(test_conv_kernels_emulated made_up_cudnn)
  add_dependencies(test_launches_emulated made_up_cudnn)
  target_link_libraries(test_conv_kernels_emulated PRIVATE gpu_emulated)
  target_link_options(test_conv_kernels_emulated PRIVATE -Wl,--wrap=ls_cuda_queue_fault
    -Wl,--wrap=cudaStreamSynchronize -Wl,--wrap=ls_dnn_load)
endif()

# The examples: an installed user's programs, that check their own figures; and what these share.
file(GLOB examples CONFIGURE_DEPENDS impl/examples/seed*.c)
file(GLOB shared_by_examples CONFIGURE_DEPENDS impl/examples/p*.c)
add_library(examples STATIC ${shared_by_examples})
target_link_libraries(examples PUBLIC lockstep_options liblockstep)
target_link_libraries(test_parallel PRIVATE examples)
target_link_libraries(test_placed PRIVATE examples)
foreach(source ${examples})
  get_filename_component(name ${source} NAME_WE)
  add_executable(example_${name} ${source})
  target_link_libraries(example_${name} PRIVATE examples)
  add_test(NAME example.${name} COMMAND example_${name})
  set_tests_properties(example.${name} PROPERTIES LABELS example TIMEOUT 300
    SKIP_REGULAR_EXPRESSION "apt-get install dataset-fashion-mnist")
endforeach()

# Tests of several processes: each runs on 2, 3 and 4 ranks, under the label mpi. Open MPI is not
# instrumented, so they say nothing in a build for the thread sanitizer.
if(LOCKSTEP_HAS_MPI AND NOT LOCKSTEP_SANITIZE MATCHES "thread")
  foreach(name test_comm_mpi test_comm_mpi_link test_comm_mpi_shared test_comm_mpi_waits)
    add_executable(${name} common/comm/mpi/tests/${name}.c)
    target_link_libraries(${name} PRIVATE bench ${LOCKSTEP_TEST_LIBRARIES})
    foreach(ranks 2 3 4)
      add_test(NAME mpi.${name}.${ranks}
               COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/bench/tests/mpirun.sh ${ranks}
                       $<TARGET_FILE:${name}>)
      # Leaks: Open MPI's own, which it frees at no time.
      set_tests_properties(mpi.${name}.${ranks} PROPERTIES LABELS mpi TIMEOUT 300
        SKIP_RETURN_CODE 77 ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
    endforeach()
  endforeach()
  add_executable(test_comm_mpi_large common/comm/mpi/tests/test_comm_mpi_large.c)
  target_link_libraries(test_comm_mpi_large PRIVATE bench ${LOCKSTEP_TEST_LIBRARIES})
  add_test(NAME mpi.test_comm_mpi_large
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/bench/tests/mpirun.sh 2
                   $<TARGET_FILE:test_comm_mpi_large>)
  set_tests_properties(mpi.test_comm_mpi_large PROPERTIES LABELS slow TIMEOUT 300
    SKIP_RETURN_CODE 77 ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
endif()

# Tests of what only a build with hooks has take the program of the preset `hooks`, unless this
# build has them itself; so does what only a build without MPI has, which that is.
set(hooks_tests test_planted test_mutations test_mutations_slow test_schedules test_schedules_slow test_ps_schedules test_ps_schedules_slow
    test_worker_failure test_no_mpi)
file(GLOB integration_tests CONFIGURE_DEPENDS bench/tests/test_*.sh impl/tests/test_*.sh
     reports/tests/test_*.sh)
foreach(source ${integration_tests})
  get_filename_component(name ${source} NAME_WE)
  set(program $<TARGET_FILE:lockstep>)
  if(name IN_LIST hooks_tests AND NOT LOCKSTEP_HOOKS)
    set(program ${CMAKE_CURRENT_SOURCE_DIR}/build-hooks/lockstep)
  elseif(name MATCHES "^test_(planted|mutations)_mpi$") # hooks and MPI
    set(program ${CMAKE_CURRENT_SOURCE_DIR}/build-tsan/lockstep)
  endif()
  add_test(NAME integration.${name} COMMAND bash ${source})
  set_tests_properties(integration.${name} PROPERTIES LABELS integration TIMEOUT 900
    SKIP_RETURN_CODE 77 ENVIRONMENT
    "LOCKSTEP=${program};SOURCE_DIR=${CMAKE_CURRENT_SOURCE_DIR}")
endforeach()

# Slow ones run with ci/test.sh --all.
foreach(source ${integration_tests})
  get_filename_component(name ${source} NAME_WE)
  if(name MATCHES "_slow$")
    set_tests_properties(integration.${name} PROPERTIES LABELS slow TIMEOUT 3600)
  endif()
endforeach()

# Checks of the tree itself, and the tests of the other builds (made by ci/test.sh).
add_test(NAME check.format COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/check-format.sh)
add_test(NAME check.layering COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/check-layering.sh)
add_test(NAME check.kernels COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/check-kernels.py
         $<$<BOOL:${LOCKSTEP_HAS_CUDA}>:$<TARGET_FILE:liblockstep>> COMMAND_EXPAND_LISTS)
set_tests_properties(check.format check.layering check.kernels PROPERTIES LABELS unit TIMEOUT 120)
if(NOT LOCKSTEP_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  foreach(build asan tsan clang)
    add_test(NAME sanitizer.${build} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/ci/test-build.sh
             ${CMAKE_CURRENT_SOURCE_DIR}/build-${build})
    set_tests_properties(sanitizer.${build} PROPERTIES LABELS sanitizer TIMEOUT 1200
                         SKIP_RETURN_CODE 77)
  endforeach()
  add_test(NAME fuzz COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/fuzz.sh 5)
  set_tests_properties(fuzz PROPERTIES LABELS unit TIMEOUT 240 SKIP_RETURN_CODE 77)
endif()
set_tests_properties(integration.test_mpi integration.test_planted_mpi integration.test_mutations_mpi integration.test_mpi_lone integration.test_mpi_start integration.test_mpi_divided integration.test_ps_mpi
                     integration.test_faults integration.test_netns integration.test_slurm
                     PROPERTIES LABELS mpi TIMEOUT 900)
# ctest -jN with N twice the cores and 1: a test counts for one core (2), or for two where it computes on both
# (4: other builds' tests, builds, MPI ranks that spin). Those that mostly wait run beside them (1), one
# at a time, the longest first. Alone run those that count what the system does.
get_property(all_tests DIRECTORY PROPERTY TESTS)
foreach(name ${all_tests})
  set(processors 2)
  if(name MATCHES "^mpi|^sanitizer|^fuzz|test_mpi$|install|rehearsal|readme")
    set(processors 4)
  elseif(name MATCHES "integration.test_(faults|faults_devices|netns|interrupt|links|links_mpi|slurm)$")
    set(processors 1)
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK waits COST 100)
  endif()
  set_tests_properties(${name} PROPERTIES PROCESSORS ${processors})
  if(name MATCHES "progress|syscalls|peers")
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endforeach()
if(TEST integration.test_peers)
  set_tests_properties(integration.test_peers integration.test_peers_rounds
                       PROPERTIES LABELS peers TIMEOUT 1800)
endif()
