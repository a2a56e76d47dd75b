# SPDX-License-Identifier: MIT
# SimGrid, for the helper program lockstep-simgrid alone (bench/play/simgrid), which is C++ and links to it. Left out
# if not requested (OFF), and (AUTO) if it is not found, there is no C++ compiler, or it is another version than those
# that were tried: 3.32 (Debian 12) and 4.0 (Debian 13). Sanitizer builds leave it out.
set(LOCKSTEP_SIMGRID "AUTO" CACHE STRING "Networks of predict other than flat ones, by SimGrid: AUTO, ON or OFF")
set_property(CACHE LOCKSTEP_SIMGRID PROPERTY STRINGS AUTO ON OFF)
if(NOT LOCKSTEP_SIMGRID MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "LOCKSTEP_SIMGRID: ${LOCKSTEP_SIMGRID}: is none of its values; AUTO, ON or OFF")
endif()
set(LOCKSTEP_HAS_SIMGRID 0)
if(NOT LOCKSTEP_SIMGRID STREQUAL "OFF" AND NOT LOCKSTEP_SANITIZE)
  include(CheckLanguage)
  check_language(CXX)
  find_path(simgrid_INCLUDE_DIR simgrid/s4u.hpp)
  find_library(simgrid_LIBRARY simgrid)
  mark_as_advanced(simgrid_INCLUDE_DIR simgrid_LIBRARY)
  set(simgrid_version "")
  if(simgrid_INCLUDE_DIR)
    file(STRINGS ${simgrid_INCLUDE_DIR}/simgrid/version.h lines REGEX "define SIMGRID_VERSION_(MAJOR|MINOR) ")
    string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
    string(JOIN "." simgrid_version ${numbers})
  endif()
  if(CMAKE_CXX_COMPILER AND simgrid_INCLUDE_DIR AND simgrid_LIBRARY AND
     (LOCKSTEP_SIMGRID STREQUAL "ON" OR simgrid_version MATCHES "^(3[.]32|4[.]0)$"))
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
