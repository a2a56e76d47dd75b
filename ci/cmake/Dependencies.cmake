# SPDX-License-Identifier: MIT
# Finds the libraries, and names the Debian package of each missing one, all at once. LOCKSTEP_DEPS is searched first.
if(LOCKSTEP_DEPS)
  list(PREPEND CMAKE_PREFIX_PATH "${LOCKSTEP_DEPS}" "${LOCKSTEP_DEPS}/usr")
  if(NOT CMAKE_LIBRARY_ARCHITECTURE)
    set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_C_LIBRARY_ARCHITECTURE})
  endif()
endif()
find_package(Threads REQUIRED)

set(LOCKSTEP_LIBRARIES Threads::Threads m)
set(LOCKSTEP_BENCH_LIBRARIES "")
set(lockstep_missing "")

# lockstep_find(NAME HEADER LIBRARY PACKAGE LIST): adds an imported target dep::NAME to LIST.
macro(lockstep_find name header library package list)
  find_path(${name}_INCLUDE_DIR ${header})
  find_library(${name}_LIBRARY NAMES ${library})
  mark_as_advanced(${name}_INCLUDE_DIR ${name}_LIBRARY)
  if(${name}_INCLUDE_DIR AND ${name}_LIBRARY)
    if(NOT TARGET dep::${name})
      add_library(dep::${name} UNKNOWN IMPORTED)
      set(${name}_folders "${${name}_INCLUDE_DIR}")
      if(LOCKSTEP_DEPS AND IS_DIRECTORY "${${name}_INCLUDE_DIR}/${CMAKE_LIBRARY_ARCHITECTURE}")
        # in a prefix, no compiler knows that Debian installs some headers (hwloc's) here
        list(APPEND ${name}_folders "${${name}_INCLUDE_DIR}/${CMAKE_LIBRARY_ARCHITECTURE}")
      endif()
      set_target_properties(dep::${name} PROPERTIES IMPORTED_LOCATION "${${name}_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${${name}_folders}")
    endif()
    list(APPEND ${list} dep::${name})
  else()
    string(APPEND lockstep_missing "\n  ${name} (${header}, lib${library}): apt-get install ${package}")
  endif()
endmacro()

lockstep_find(dnnl dnnl.h dnnl libdnnl-dev LOCKSTEP_LIBRARIES)
lockstep_find(hwloc hwloc.h hwloc libhwloc-dev LOCKSTEP_LIBRARIES)
lockstep_find(xxhash xxhash.h xxhash libxxhash-dev LOCKSTEP_LIBRARIES)
lockstep_find(zlib zlib.h z zlib1g-dev LOCKSTEP_LIBRARIES)
lockstep_find(jansson jansson.h jansson libjansson-dev LOCKSTEP_LIBRARIES)
# MPI: Open MPI, MPICH or one of its relatives. Left out if it is not found (AUTO) or not requested (OFF). MPI_HOME
# names the one to take where there are several: a prefix, or the folder that Debian has for each of them
# (/usr/lib/<architecture>/mpich: headers in it, the library beside it). Without it, Debian's alternative, which is
# Open MPI if that is installed. In LOCKSTEP_DEPS, where no alternatives are chosen, it is Open MPI.
set(LOCKSTEP_MPI "AUTO" CACHE STRING "Ranks in processes of their own, over MPI: AUTO, ON or OFF")
set_property(CACHE LOCKSTEP_MPI PROPERTY STRINGS AUTO ON OFF)
set(MPI_HOME "" CACHE PATH "Prefix of the MPI to take; empty: the system's")
if(NOT LOCKSTEP_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "LOCKSTEP_MPI: ${LOCKSTEP_MPI}: is none of its values; AUTO, ON or OFF")
endif()
if(DEFINED LOCKSTEP_MPI_HOME_FOUND AND NOT "x${MPI_HOME}" STREQUAL "x${LOCKSTEP_MPI_HOME_FOUND}")
  foreach(found mpi_INCLUDE_DIR mpi_LIBRARY LOCKSTEP_MPIRUN) # in another MPI
    unset(${found} CACHE)
  endforeach()
endif()
set(LOCKSTEP_MPI_HOME_FOUND "${MPI_HOME}" CACHE INTERNAL "MPI_HOME of what was found")
set(LOCKSTEP_HAS_MPI FALSE)
if(NOT LOCKSTEP_MPI STREQUAL "OFF")
  if(MPI_HOME)
    set(LOCKSTEP_MPI ON)
    find_path(mpi_INCLUDE_DIR mpi.h PATHS ${MPI_HOME}/include NO_DEFAULT_PATH)
    find_library(mpi_LIBRARY NAMES mpi mpich PATHS ${MPI_HOME}/lib ${MPI_HOME}/lib64 NO_DEFAULT_PATH)
    find_library(mpi_LIBRARY NAMES mpich PATHS ${MPI_HOME}/.. NO_DEFAULT_PATH)
    if(NOT mpi_INCLUDE_DIR OR NOT mpi_LIBRARY)
      message(FATAL_ERROR "MPI_HOME: ${MPI_HOME}: has no include/mpi.h, or no library of it; "
        "the prefix of an MPI has both")
    endif()
  else()
    if(LOCKSTEP_DEPS)
      find_path(mpi_INCLUDE_DIR mpi.h PATHS ${LOCKSTEP_DEPS}/usr/lib/${CMAKE_C_LIBRARY_ARCHITECTURE}/openmpi/include
                NO_DEFAULT_PATH)
    endif()
    find_path(mpi_INCLUDE_DIR mpi.h PATH_SUFFIXES mpi)
    find_library(mpi_LIBRARY NAMES mpi)
  endif()
  mark_as_advanced(mpi_INCLUDE_DIR mpi_LIBRARY)
  if(LOCKSTEP_MPI STREQUAL "ON" OR (mpi_INCLUDE_DIR AND mpi_LIBRARY))
    lockstep_find(mpi mpi.h mpi "libopenmpi-dev (or libmpich-dev)" LOCKSTEP_LIBRARIES)
    set(LOCKSTEP_HAS_MPI TRUE)
    if(mpi_INCLUDE_DIR)
      file(STRINGS ${mpi_INCLUDE_DIR}/mpi.h LOCKSTEP_MPICH REGEX "define MPICH_VERSION")
    endif()
  endif()
endif()
if(NOT LOCKSTEP_LIBRARY_ONLY) # what liblockstep needs ends here; the rest is for the program
  lockstep_find(sqlite sqlite3.h sqlite3 libsqlite3-dev LOCKSTEP_BENCH_LIBRARIES)
  lockstep_find(libfyaml libfyaml.h fyaml libfyaml-dev LOCKSTEP_BENCH_LIBRARIES)
endif()
if(LOCKSTEP_TESTS)
  lockstep_find(cmocka cmocka.h cmocka libcmocka-dev LOCKSTEP_TEST_LIBRARIES)
endif()

# oneDNN's threads are libgomp's; a device starts and binds them through the same library.
find_library(gomp_LIBRARY NAMES gomp libgomp.so.1
             HINTS ${LOCKSTEP_DEPS}/usr/lib/${CMAKE_C_LIBRARY_ARCHITECTURE})
if(NOT gomp_LIBRARY)
  execute_process(COMMAND gcc -print-file-name=libgomp.so OUTPUT_VARIABLE gomp_file
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(IS_ABSOLUTE "${gomp_file}")
    set(gomp_LIBRARY "${gomp_file}" CACHE FILEPATH "GNU OpenMP run-time library" FORCE)
  endif()
endif()
if(gomp_LIBRARY)
  list(APPEND LOCKSTEP_LIBRARIES ${gomp_LIBRARY})
else()
  string(APPEND lockstep_missing "\n  libgomp (libgomp.so.1): apt-get install libgomp1")
endif()

if(lockstep_missing)
  message(FATAL_ERROR "Lockstep needs libraries that were not found:${lockstep_missing}\n"
    "Install them, or give a prefix that holds them: -DLOCKSTEP_DEPS=DIR")
endif()
