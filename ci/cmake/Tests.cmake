# SPDX-License-Identifier: MIT
# Every <folder>/tests/test_*.c is a test with labels `unit` and <folder> (`long`: too long for ci/test-one.sh), and
# links that folder's library; every test_*.sh one with label `integration` (`slow` if its name ends so), which gets the
# program's path in LOCKSTEP. Exit status 77: skipped, with the reason in the output. A test that asks whether it is
# thorough() runs in both tiers: as NAME_slow, which is slow, with all of its cases.

# Which tests this build compiles and runs: `all`, or for a build in addition to such a one (presets asan, tsan,
# clang, hooks) those in which an instrumented program, another compiler's, or one without MPI and CUDA, may behave
# differently.
set(LOCKSTEP_TESTS_FOR all CACHE STRING "all, or beside such a build those for: address, thread, compiler, bare, fake")
set_property(CACHE LOCKSTEP_TESTS_FOR PROPERTY STRINGS all address thread compiler bare fake)
if(NOT LOCKSTEP_TESTS_FOR MATCHES "^(all|address|thread|compiler|bare|fake)$")
  message(FATAL_ERROR "LOCKSTEP_TESTS_FOR is ${LOCKSTEP_TESTS_FOR}; all, address, thread, compiler, bare or fake")
endif()
# Units and examples are left out in which instrumentation cannot find more: guarded pages and staging; for `address`,
# those that wait or compute long; for `thread`, those with one thread, or only a strategy's threads. Integration
# tests are listed: `address` has each strategy and model, reopened devices, MPI's back end, rows and traces
# (reports are fuzzed so); `thread` each strategy with random pauses and with reopened devices, servers, hangs,
# failures, and traces. In this build (`all`) the tests with pauses and of a worker's failure run only with
# ci/test.sh --all. `bare` has those that look at what is built, or at programs that may be missing:
# ci/test-build.sh hides these.
set(units ".*")
set(integration ".*")
set(left_out "^$")
set(quick ".*") # of those that remain the fast tier runs what is quick and not slow
set(slow "^$")
if(LOCKSTEP_TESTS_FOR STREQUAL "all")
  set(slow "^mpi.test_comm_mpi[a-z_]*.(2|4)$|test_(gpu_rehearsal|install)$") # 3 ranks are uneven; hooks installs
elseif(LOCKSTEP_TESTS_FOR STREQUAL "address")
  set(integration "^test_(models|run|blocks|blocks_mpi|trace)$")
  set(left_out "_(guarded|staged)$|test_(results_kills|ratio_test)|seed03_polynomial|seed08|seed17")
  string(JOIN "|" slow "test_(run|blocks|blocks_mpi|packed_product|winograd|table|comm_canonical|comm_halves"
         "comm_failures|progress|average|queue_room|pool|selection|statistics|experiment|ranks)$" seed06 seed09 seed10)
elseif(LOCKSTEP_TESTS_FOR STREQUAL "thread")
  set(integration "^test_(schedules|ps_schedules|blocks|faults_devices|worker_failure|trace)$")
  string(JOIN "|" left_out "test_(average|bubble|cifar10|digest|dynamic|format|idx|numbers|option|philox|plan|results"
         "safetensors|statistics|status|text|environment|escape|noise|ratio_test|selection|table)" kernels _guarded
         vector_loops _layers winograd seed03 seed06 seed08 seed09 seed10 seed17)
  set(slow "test_(blocks|trace|comm_canonical|comm_halves|queue_room|progress|experiment|ranks|packed_product|net)$")
elseif(LOCKSTEP_TESTS_FOR STREQUAL "compiler") # units that compute; in the fast tier the loops that compilers differ in
  set(integration "^$")
  string(JOIN "|" left_out "test_(arena|bubble|comm|device_name|dynamic|format|gpu|lone|machine|option|plac|plan"
         "progress|pulse|results|session|watch|parallel)" emulated seed)
  set(quick "test_(vector_loops|kernels|layer_kernels|transformer_kernels|packed_product|winograd|bf16|philox)$")
elseif(LOCKSTEP_TESTS_FOR STREQUAL "bare")
  set(units "^test_(cuda_.*|machine|options|option_refusals)$")
  set(integration "^test_(gpu_absent|gpu_rehearsal|install|no_mpi|report|results_verbs|slurm)$")
  set(slow "test_(gpu_rehearsal|report|results_verbs|slurm)$")
elseif(LOCKSTEP_TESTS_FOR STREQUAL "fake") # those of GPUs, which are skipped elsewhere
  set(units "^test_gpu_(device|comm|nccl|kernels|layer_kernels|residual_kernels|conv_kernels)$")
  set(integration "^test_(fake|gpu_rehearsal)")
  set(slow "test_(gpu_rehearsal|fake_action)$")
endif()

# What is said above of `quick` and `slow`, and of a test that asks whether it is thorough(): its command follows the source.
function(ls_add_tiers test source)
  file(STRINGS ${source} asks REGEX "thorough" LIMIT_COUNT 1)
  if(test MATCHES "${slow}" OR NOT test MATCHES "${quick}")
    set_property(TEST ${test} APPEND PROPERTY LABELS slow)
    if(LOCKSTEP_TESTS_FOR STREQUAL "all")
      set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT LOCKSTEP_THOROUGH=yes)
    endif()
  elseif(asks)
    add_test(NAME ${test}_slow COMMAND ${ARGN})
    foreach(property ENVIRONMENT FIXTURES_REQUIRED SKIP_RETURN_CODE)
      get_test_property(${test} ${property} value)
      if(value)
        set_property(TEST ${test}_slow PROPERTY ${property} "${value}")
      endif()
    endforeach()
    set_property(TEST ${test}_slow APPEND PROPERTY ENVIRONMENT LOCKSTEP_THOROUGH=yes)
    set_tests_properties(${test}_slow PROPERTIES LABELS slow TIMEOUT 3600)
  endif()
endfunction()

file(GLOB unit_tests CONFIGURE_DEPENDS common/*/tests/test_*.c common/kernel/*/tests/test_*.c
     impl/tests/test_*.c impl/*/tests/test_*.c bench/tests/test_*.c bench/*/tests/test_*.c
     bench/*/*/tests/test_*.c)
list(FILTER unit_tests EXCLUDE REGEX "/test_[a-z_]*(kernels|sums|launches|parts)_emulated\\.c$")
if(NOT LOCKSTEP_HAS_CUDA) # all of them would be skipped
  list(FILTER unit_tests EXCLUDE REGEX "/test_gpu_")
endif()
if(LOCKSTEP_HAS_CUDA AND NOT LOCKSTEP_TESTS_FOR MATCHES "^(compiler|fake)$") # the GPU kernels again, compiled for CPUs
  enable_language(CXX)
  add_library(gpu_emulated OBJECT common/kernel/cuda/tests/gpu_emulated.cpp)
  add_library(sums_emulated OBJECT common/comm/tests/sums_emulated.cpp)
  foreach(emulated gpu_emulated sums_emulated)
    target_include_directories(${emulated} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_compile_features(${emulated} PRIVATE cxx_std_17)
    target_compile_options(${emulated} PRIVATE -O2 -Wall -Wextra -Wshadow -Wconversion
      -Wno-unknown-pragmas -ffp-contract=off -U_FORTIFY_SOURCE $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
  endforeach()
  list(APPEND unit_tests ${CMAKE_CURRENT_SOURCE_DIR}/common/kernel/cuda/tests/test_kernels_emulated.c
       ${CMAKE_CURRENT_SOURCE_DIR}/common/kernel/cuda/tests/test_layer_kernels_emulated.c
       ${CMAKE_CURRENT_SOURCE_DIR}/common/kernel/cuda/tests/test_residual_kernels_emulated.c
       ${CMAKE_CURRENT_SOURCE_DIR}/common/kernel/cuda/tests/test_transformer_kernels_emulated.c
       ${CMAKE_CURRENT_SOURCE_DIR}/common/comm/tests/test_sums_emulated.c
       ${CMAKE_CURRENT_SOURCE_DIR}/impl/tests/test_launches_emulated.c
       ${CMAKE_CURRENT_SOURCE_DIR}/impl/tests/test_parts_emulated.c)
  if(LOCKSTEP_HAS_CUDNN)
    list(APPEND unit_tests ${CMAKE_CURRENT_SOURCE_DIR}/common/kernel/cuda/tests/test_conv_kernels_emulated.c)
  endif()
endif()
# Tests compute little themselves: most of the time is spent compiling.
set(lockstep_test_options -O1)
if(LOCKSTEP_SANITIZE)
  set(lockstep_test_options -O0)
endif()
foreach(source ${unit_tests})
  get_filename_component(name ${source} NAME_WE)
  if(name MATCHES "${left_out}" OR NOT name MATCHES "${units}")
    continue()
  endif()
  file(RELATIVE_PATH folder ${CMAKE_CURRENT_SOURCE_DIR} ${source})
  string(REGEX REPLACE "/tests/.*" "" folder ${folder})
  string(REGEX MATCH "^(common/[a-z]+|bench/[a-z]+|impl/examples|impl)" library ${folder})
  string(REPLACE / _ library "${library}")
  if(folder STREQUAL "bench") # tests that include several of its folders
    set(library bench_commands)
  endif()
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ${library} ${LOCKSTEP_TEST_LIBRARIES})
  target_compile_options(${name} PRIVATE ${lockstep_test_options})
  target_compile_definitions(${name} PRIVATE
    LS_SOURCE_DIR="${CMAKE_CURRENT_SOURCE_DIR}" LS_BUILD_DIR="${CMAKE_CURRENT_BINARY_DIR}")
  add_test(NAME unit.${name} COMMAND ${name})
  set(labels unit ${folder})
  if(name MATCHES "^test_gpu_") # skipped without a GPU
    list(APPEND labels gpu)
    if(LOCKSTEP_TESTS_FOR STREQUAL "fake" AND NOT name MATCHES "device$") # 10 to 100 s each
      list(APPEND labels slow)
    endif()
  elseif(name MATCHES "_(kernels|launches)_emulated$")
    list(APPEND labels long)
  endif()
  set_tests_properties(unit.${name} PROPERTIES LABELS "${labels}" TIMEOUT 900 SKIP_RETURN_CODE 77)
  ls_add_tiers(unit.${name} ${source} ${name})
endforeach()

if(TARGET test_session) # of that folder, though it parses a command line
  set_property(TEST unit.test_session APPEND PROPERTY LABELS bench/train)
endif()

if(TARGET test_kernels_emulated) # their own ls_gpu_ functions replace the library's
  target_link_libraries(test_sums_emulated PRIVATE sums_emulated)
  target_link_libraries(test_launches_emulated PRIVATE sums_emulated)
  target_link_libraries(test_parts_emulated PRIVATE sums_emulated)
  foreach(name test_kernels_emulated test_layer_kernels_emulated test_residual_kernels_emulated
          test_transformer_kernels_emulated test_launches_emulated test_parts_emulated)
    target_link_libraries(${name} PRIVATE gpu_emulated)
    target_link_options(${name} PRIVATE -Wl,--wrap=ls_cuda_queue_fault
      -Wl,--wrap=cudaStreamSynchronize)
  endforeach()
endif()

if(TARGET test_steps_guarded) # its own device memory replaces the library's
  target_link_options(test_steps_guarded PRIVATE
    -Wl,--wrap=ls_device_allocate -Wl,--wrap=ls_device_release
    -Wl,--wrap=ls_device_pieces)
endif()

if(LOCKSTEP_HAS_CUDA AND TARGET test_cuda_emulated) # the test's functions replace CUDA's
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

if(TARGET test_conv_kernels_emulated) # a fake library is loaded instead of cuDNN
  add_library(made_up_cudnn SHARED common/kernel/cuda/tests/made_up_cudnn.c)
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

# The examples: programs as an installed user writes them, which check their own figures; and what they share.
file(GLOB examples CONFIGURE_DEPENDS impl/examples/seed*.c)
file(GLOB shared_by_examples CONFIGURE_DEPENDS impl/examples/p*.c)
add_library(impl_examples STATIC ${shared_by_examples})
target_link_libraries(impl_examples PUBLIC lockstep_options liblockstep)
foreach(source ${examples})
  get_filename_component(name ${source} NAME_WE)
  if(name MATCHES "${left_out}" OR NOT name MATCHES "${units}")
    continue()
  endif()
  add_executable(example_${name} ${source})
  target_link_libraries(example_${name} PRIVATE impl_examples)
  set(seeds "")
  if(name MATCHES "^seed03")
    set(seeds 1) # of 6
    add_test(NAME example.${name}_slow COMMAND example_${name})
    set_tests_properties(example.${name}_slow PROPERTIES LABELS slow TIMEOUT 900)
  endif()
  add_test(NAME example.${name} COMMAND example_${name} ${seeds})
  set_tests_properties(example.${name} PROPERTIES LABELS example TIMEOUT 900
    SKIP_REGULAR_EXPRESSION "install the Debian package dataset-fashion-mnist")
  if(name MATCHES "^seed08") # 12 epochs take a minute; test_models covers each kind of step
    set_tests_properties(example.${name} PROPERTIES LABELS slow)
  endif()
  ls_add_tiers(example.${name} ${source} example_${name})
endforeach()

# The judge of servers in order of arrival, which tests run.
add_executable(ps_replay bench/tests/ps_replay.c)
target_link_libraries(ps_replay PRIVATE bench_commands)
target_compile_options(ps_replay PRIVATE ${lockstep_test_options})
# The program with one strategy more, whose options no other code knows.
add_executable(lockstep_added bench/main.c bench/tests/added_strategy.c)
target_link_libraries(lockstep_added PRIVATE bench_commands)

# This MPI's own launcher (Debian has both under names of their own); bench/tests/mpirun.sh starts ranks with it.
set(launcher MPIRUN=mpirun)
if(LOCKSTEP_HAS_MPI)
  if(MPI_HOME)
    find_program(LOCKSTEP_MPIRUN NAMES mpirun PATHS ${MPI_HOME}/bin NO_DEFAULT_PATH)
  endif()
  if(LOCKSTEP_MPICH)
    find_program(LOCKSTEP_MPIRUN NAMES mpirun.mpich mpirun)
  else()
    find_program(LOCKSTEP_MPIRUN NAMES mpirun.openmpi mpirun)
  endif()
  mark_as_advanced(LOCKSTEP_MPIRUN)
  if(LOCKSTEP_MPIRUN)
    set(launcher MPIRUN=${LOCKSTEP_MPIRUN})
  endif()
endif()

# Tests of several processes: each runs on 2, 3 and 4 ranks, with label mpi. MPI is not instrumented, so they are
# useless with the thread sanitizer.
if(LOCKSTEP_HAS_MPI AND LOCKSTEP_TESTS_FOR STREQUAL "all")
  foreach(name test_comm_mpi test_comm_mpi_link test_comm_mpi_shared test_comm_mpi_waits)
    add_executable(${name} common/comm/mpi/tests/${name}.c)
    target_link_libraries(${name} PRIVATE common_comm ${LOCKSTEP_TEST_LIBRARIES})
    foreach(ranks 2 3 4)
      add_test(NAME mpi.${name}.${ranks}
               COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/bench/tests/mpirun.sh ${ranks}
                       $<TARGET_FILE:${name}>)
      # Leaks are MPI's own, which it never frees.
      set_tests_properties(mpi.${name}.${ranks} PROPERTIES LABELS mpi TIMEOUT 900
        SKIP_RETURN_CODE 77 ENVIRONMENT "${launcher};ASAN_OPTIONS=detect_leaks=0")
      ls_add_tiers(mpi.${name}.${ranks} ${CMAKE_CURRENT_SOURCE_DIR}/common/comm/mpi/tests/${name}.c bash
        ${CMAKE_CURRENT_SOURCE_DIR}/bench/tests/mpirun.sh ${ranks} $<TARGET_FILE:${name}>)
    endforeach()
  endforeach()
  add_executable(test_comm_mpi_keeper common/comm/mpi/tests/test_comm_mpi_keeper.c) # plays a rank itself
  target_link_libraries(test_comm_mpi_keeper PRIVATE common_comm ${LOCKSTEP_TEST_LIBRARIES})
  add_test(NAME mpi.test_comm_mpi_keeper COMMAND test_comm_mpi_keeper)
  set_tests_properties(mpi.test_comm_mpi_keeper PROPERTIES LABELS mpi TIMEOUT 900 SKIP_RETURN_CODE 77)
  add_executable(test_comm_mpi_large common/comm/mpi/tests/test_comm_mpi_large.c)
  target_link_libraries(test_comm_mpi_large PRIVATE common_comm ${LOCKSTEP_TEST_LIBRARIES})
  add_test(NAME mpi.test_comm_mpi_large
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/bench/tests/mpirun.sh 2
                   $<TARGET_FILE:test_comm_mpi_large>)
  set_tests_properties(mpi.test_comm_mpi_large PROPERTIES LABELS slow TIMEOUT 900
    SKIP_RETURN_CODE 77 ENVIRONMENT "${launcher};ASAN_OPTIONS=detect_leaks=0")
endif()

# Tests that need hooks use the program of the preset `hooks`, unless this build has them; so does the test of a build
# without MPI, which that is.
set(hooks_tests test_pages test_planted test_checkpoint_planted test_elastic_planted test_bf16_planted test_mutations test_mutations_slow test_schedules test_schedules_slow test_ps_schedules test_ps_schedules_slow
    test_worker_failure test_delays test_no_mpi test_explain test_reopen_failure test_tiny_data test_periods)
# Measuring the roof takes 2 s on one rank while others wait: it is measured once before, for all tests.
set(roof XDG_CACHE_HOME=${CMAKE_CURRENT_BINARY_DIR}/cache)
if(NOT LOCKSTEP_TESTS_FOR MATCHES "^(compiler|fake)$")
  add_test(NAME roof COMMAND lockstep run --model poly --steps 1 --results none)
  set_tests_properties(roof PROPERTIES LABELS integration TIMEOUT 600 ENVIRONMENT ${roof} FIXTURES_SETUP roof)
endif()
file(GLOB integration_tests CONFIGURE_DEPENDS bench/tests/test_*.sh impl/tests/test_*.sh impl/*/tests/test_*.sh
     reports/tests/test_*.sh)
foreach(source ${integration_tests})
  get_filename_component(name ${source} NAME_WE)
  if(NOT name MATCHES "${integration}" OR (name MATCHES "^test_fake" AND NOT LOCKSTEP_TESTS_FOR STREQUAL "fake"))
    continue()
  endif()
  set(program $<TARGET_FILE:lockstep>)
  if(name IN_LIST hooks_tests AND NOT LOCKSTEP_HOOKS)
    set(program ${CMAKE_CURRENT_SOURCE_DIR}/build-hooks/lockstep)
  elseif(name MATCHES "^test_(planted|mutations)_mpi$") # hooks and MPI
    set(program ${CMAKE_CURRENT_SOURCE_DIR}/build-tsan/lockstep)
  endif()
  add_test(NAME integration.${name} COMMAND bash ${source})
  set_tests_properties(integration.${name} PROPERTIES LABELS integration TIMEOUT 1800
    FIXTURES_REQUIRED roof SKIP_RETURN_CODE 77 ENVIRONMENT
    "LOCKSTEP=${program};${launcher};REPLAY=$<TARGET_FILE:ps_replay>;ADDED=$<TARGET_FILE:lockstep_added>;SOURCE_DIR=${CMAKE_CURRENT_SOURCE_DIR};${roof}")
  if(name MATCHES "_slow$" OR (LOCKSTEP_TESTS_FOR STREQUAL "all" AND name MATCHES "schedules$|worker_failure$"))
    # run by ci/test.sh --all, like the peers
    set_tests_properties(integration.${name} PROPERTIES LABELS slow TIMEOUT 3600)
  elseif(name MATCHES "_peers")
    set_tests_properties(integration.${name} PROPERTIES LABELS peers TIMEOUT 1800)
  elseif(name MATCHES "_mpi(_|$)|_(faults|netns|slurm)$" AND NOT name MATCHES "_(no|links)_mpi$")
    set_tests_properties(integration.${name} PROPERTIES LABELS mpi)
  endif()
  ls_add_tiers(integration.${name} ${source} bash ${source})
endforeach()

# Checks of the source tree, and the tests of the other builds (made by ci/test.sh).
if(LOCKSTEP_TESTS_FOR MATCHES "^(all|bare)$")
  set(library_if_cuda "")
  if(LOCKSTEP_HAS_CUDA)
    set(library_if_cuda $<TARGET_FILE:liblockstep>)
  endif()
  add_test(NAME check.kernels COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/check-kernels.py ${library_if_cuda})
  set_tests_properties(check.kernels PROPERTIES LABELS unit TIMEOUT 600)
endif()
# What the compiler does with the vector loops; the list of what is allowed is of gcc 12.
if(LOCKSTEP_TESTS_FOR STREQUAL "all" AND TARGET vector_loops_avx512 AND CMAKE_C_COMPILER_ID STREQUAL "GNU"
   AND CMAKE_C_COMPILER_VERSION MATCHES "^12" AND CMAKE_BUILD_TYPE MATCHES "^[Rr]elease$")
  add_test(NAME check.spills COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/check-spills.py
           avx2=$<TARGET_OBJECTS:vector_loops_avx2> avx512=$<TARGET_OBJECTS:vector_loops_avx512>)
  set_tests_properties(check.spills PROPERTIES LABELS unit)
endif()
if(LOCKSTEP_TESTS_FOR STREQUAL "all")
  add_test(NAME check.format COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/check-format.sh)
  add_test(NAME check.layering COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/check-layering.sh)
  add_test(NAME check.public COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/check-public.sh
           ${CMAKE_C_COMPILER})
  add_test(NAME check.messages COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/list-messages.py)
  add_test(NAME check.tables COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/results-tables.sh --check)
  add_test(NAME check.hooks COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/impl/tests/plant.py)
  add_test(NAME check.docs COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/docs.sh
           ${CMAKE_CURRENT_BINARY_DIR}/docs)
  set_tests_properties(check.format check.layering check.public check.messages check.tables check.hooks check.docs
                       PROPERTIES LABELS unit TIMEOUT 600)
  foreach(build asan tsan clang hooks fake)
    add_test(NAME sanitizer.${build} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/ci/test-build.sh
             ${CMAKE_CURRENT_SOURCE_DIR}/build-${build})
    set_tests_properties(sanitizer.${build} PROPERTIES LABELS sanitizer TIMEOUT 3600
                         SKIP_RETURN_CODE 77)
  endforeach()
  foreach(build asan tsan clang hooks fake)
    add_test(NAME sanitizer.${build}_slow COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/ci/test-build.sh
             ${CMAKE_CURRENT_SOURCE_DIR}/build-${build} --slow)
    set_tests_properties(sanitizer.${build}_slow PROPERTIES LABELS slow TIMEOUT 7200
                         SKIP_RETURN_CODE 77)
  endforeach()
  add_test(NAME check.ptx_slow COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/ci/check-ptx.sh)
  set_tests_properties(check.ptx_slow PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)
  add_test(NAME fuzz COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ci/fuzz.sh 2)
  set_tests_properties(fuzz PROPERTIES LABELS unit TIMEOUT 900 SKIP_RETURN_CODE 77)
endif()

# For ctest -jN with N = 5 x cores + 1: a test counts as 2, and five of them keep two cores busy, since each waits
# sometimes; other builds' tests, which run several at a time, count as 4. Tests that mostly wait count as 1; those with
# timeouts, one at a time. The longest start first, so that short ones fill the end. None of the default ones runs
# alone.
get_property(all_tests DIRECTORY PROPERTY TESTS)
add_custom_target(fast DEPENDS lockstep) # the programs of the fast tier's tests
if(LOCKSTEP_TESTS_FOR STREQUAL "bare") # which installs
  add_dependencies(fast printed)
  if(LOCKSTEP_HAS_SIMGRID)
    add_dependencies(fast lockstep-simgrid)
  endif()
elseif(LOCKSTEP_TESTS_FOR STREQUAL "thread")
  add_dependencies(fast ps_replay)
endif()
foreach(name ${all_tests})
  get_test_property(${name} LABELS labels)
  string(REGEX REPLACE "^(unit|mpi)\\.|\\.[0-9]+$" "" program "${name}")
  string(REPLACE "example." "example_" program "${program}")
  if(TARGET ${program} AND NOT "slow" IN_LIST labels)
    add_dependencies(fast ${program})
  endif()
  set(processors 2)
  set(cost 0)
  if(name MATCHES "^mpi.test_comm_mpi(_link|_shared|_waits)|test_print_step")
    set(cost 10)
  elseif(name MATCHES "integration.test_mpi_start") # sleeps until timeouts, in its own ranks
    set(processors 1)
    set(cost 90)
  elseif(name MATCHES "^sanitizer")
    set(processors 4)
    set(cost 200)
  elseif(name MATCHES "^mpi|^fuzz")
    set(cost 60)
  elseif(name MATCHES "integration.test_(faults|faults_devices|netns|interrupt|links|links_mpi|slurm)$")
    set(processors 1)
    set(cost 100)
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK waits)
  elseif(name MATCHES "unit.test_comm$") # up to 16 ranks, which wait for each other
    set(processors 1)
    set(cost 90)
  elseif(name MATCHES "integration.test_(delays|explain|gpu_script|micro_comm|trace_mpi)$") # in any company
    set(processors 1)
    set(cost 80)
  elseif(name MATCHES "integration.test_(equal_rows|models|mpi|mpi_lone|mutations|planted|readme|strategies)$")
    set(cost 80) # 18 to 45 s of processor time
  elseif(name MATCHES "integration|kernels_emulated|launches_emulated|seed03_polynomial|seed08")
    set(cost 30)
  endif()
  set_tests_properties(${name} PROPERTIES PROCESSORS ${processors} COST ${cost})
  if(name MATCHES "peers") # figures beside other programs'
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endforeach()
