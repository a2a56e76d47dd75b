# SPDX-License-Identifier: MIT
# SimGrid, for the helper program lockstep-simgrid alone (bench/predict/simgrid), which is C++ and links to it. Left out
# if it is not found (AUTO) or not requested (OFF), and where there is no C++ compiler.
set(LOCKSTEP_SIMGRID "AUTO" CACHE STRING "Networks of predict other than flat ones, by SimGrid: AUTO, ON or OFF")
set_property(CACHE LOCKSTEP_SIMGRID PROPERTY STRINGS AUTO ON OFF)
if(NOT LOCKSTEP_SIMGRID MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "LOCKSTEP_SIMGRID: ${LOCKSTEP_SIMGRID}: is none of its values; AUTO, ON or OFF")
endif()
set(LOCKSTEP_HAS_SIMGRID 0)
if(NOT LOCKSTEP_SIMGRID STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CXX)
  find_path(simgrid_INCLUDE_DIR simgrid/s4u.hpp)
  find_library(simgrid_LIBRARY simgrid)
  mark_as_advanced(simgrid_INCLUDE_DIR simgrid_LIBRARY)
  if(CMAKE_CXX_COMPILER AND simgrid_INCLUDE_DIR AND simgrid_LIBRARY)
    enable_language(CXX)
    set(CMAKE_CXX_STANDARD 17)
    set(CMAKE_CXX_FLAGS_RELEASE "-O2")
    add_library(dep::simgrid UNKNOWN IMPORTED)
    set_target_properties(dep::simgrid PROPERTIES IMPORTED_LOCATION "${simgrid_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${simgrid_INCLUDE_DIR}")
    set(LOCKSTEP_HAS_SIMGRID 1)
  elseif(LOCKSTEP_SIMGRID STREQUAL "ON")
    message(FATAL_ERROR "LOCKSTEP_SIMGRID: ON: needs simgrid/s4u.hpp, libsimgrid and a C++ compiler; "
                        "apt-get install libsimgrid-dev g++, or OFF")
  endif()
endif()
