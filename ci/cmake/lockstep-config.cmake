# SPDX-License-Identifier: MIT
# find_package(lockstep): the target lockstep::liblockstep, and the libraries that it stands on.
set(LOCKSTEP_LIBRARY_ONLY ON)
include(${CMAKE_CURRENT_LIST_DIR}/Dependencies.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/lockstep-targets.cmake)
