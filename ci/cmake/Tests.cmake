# SPDX-License-Identifier: MIT
# Every <folder>/tests/test_*.c is one CTest of label `unit`; test_integration_*.sh in bench/tests
# one of label `integration`, which gets the program's path in LOCKSTEP. Exit status 77: skipped,
# with the reason in the output.
file(GLOB unit_tests CONFIGURE_DEPENDS common/*/tests/test_*.c impl/tests/test_*.c
     bench/tests/test_*.c)
foreach(source ${unit_tests})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE bench ${LOCKSTEP_TEST_LIBRARIES})
  target_compile_definitions(${name} PRIVATE
    LS_SOURCE_DIR="${CMAKE_CURRENT_SOURCE_DIR}" LS_BUILD_DIR="${CMAKE_CURRENT_BINARY_DIR}")
  add_test(NAME unit.${name} COMMAND ${name})
  set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 120 SKIP_RETURN_CODE 77)
endforeach()

file(GLOB integration_tests CONFIGURE_DEPENDS bench/tests/test_*.sh impl/tests/test_*.sh)
foreach(source ${integration_tests})
  get_filename_component(name ${source} NAME_WE)
  add_test(NAME integration.${name} COMMAND bash ${source})
  set_tests_properties(integration.${name} PROPERTIES LABELS integration TIMEOUT 300
    SKIP_RETURN_CODE 77 ENVIRONMENT
    "LOCKSTEP=$<TARGET_FILE:lockstep>;SOURCE_DIR=${CMAKE_CURRENT_SOURCE_DIR}")
endforeach()
