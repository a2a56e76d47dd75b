# SPDX-License-Identifier: MIT
# What a package has besides program and library: the manual page and completion, which the program prints from its
# option table; and the Debian package that `cpack` creates in the build folder, checked with lintian.
set(LOCKSTEP_CONTACT lockstep@lockstep.invalid) # there is no address
set(printed ${CMAKE_CURRENT_BINARY_DIR}/printed)
file(MAKE_DIRECTORY ${printed})
foreach(pair man:lockstep.1 bash:lockstep zsh:_lockstep)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 kind)
  list(GET pair 1 file)
  add_custom_command(OUTPUT ${printed}/${file} DEPENDS lockstep VERBATIM
                     COMMAND lockstep help --${kind} > ${printed}/${file})
  list(APPEND printed_files ${printed}/${file})
endforeach()
add_custom_command(OUTPUT ${printed}/lockstep.1.gz DEPENDS ${printed}/lockstep.1 VERBATIM
                   COMMAND gzip -9nc ${printed}/lockstep.1 > ${printed}/lockstep.1.gz)
string(TIMESTAMP packaged "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${printed}/changelog "lockstep (${PROJECT_VERSION}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n
 -- The Lockstep authors <${LOCKSTEP_CONTACT}>  ${packaged}\n")
add_custom_command(OUTPUT ${printed}/changelog.gz VERBATIM
                   COMMAND gzip -9nc ${printed}/changelog > ${printed}/changelog.gz)
list(APPEND printed_files ${printed}/lockstep.1.gz ${printed}/changelog.gz)
if(LOCKSTEP_HAS_SIMGRID) # each program has a manual page
  file(WRITE ${printed}/lockstep-simgrid.1 ".TH LOCKSTEP-SIMGRID 1\n.SH NAME\n"
    "lockstep-simgrid \\- plays activities on a network simulated by SimGrid\n.SH DESCRIPTION\n"
    "Started by \\fBlockstep predict\\fR; takes no arguments.\n.SH SEE ALSO\n\\fBlockstep\\fR(1)\n")
  add_custom_command(OUTPUT ${printed}/lockstep-simgrid.1.gz VERBATIM
                     COMMAND gzip -9nc ${printed}/lockstep-simgrid.1 > ${printed}/lockstep-simgrid.1.gz)
  list(APPEND printed_files ${printed}/lockstep-simgrid.1.gz)
  install(FILES ${printed}/lockstep-simgrid.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
add_custom_target(printed ALL DEPENDS ${printed_files})
install(FILES ${printed}/lockstep.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${printed}/lockstep DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${printed}/_lockstep DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES CHANGELOG.md ${printed}/changelog.gz DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The Lockstep authors")
set(CPACK_PACKAGE_CONTACT "The Lockstep authors <${LOCKSTEP_CONTACT}>")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Trains the same neural networks on the same data with each way of spreading
the work over devices and machines, checks that they compute the same thing,
and measures what each costs.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # by dpkg-shlibdeps, of dpkg-dev
set(mpirun openmpi-bin)
if(LOCKSTEP_MPICH)
  set(mpirun mpich)
endif()
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "${mpirun}, gnuplot-nox, dataset-fashion-mnist")
include(CPack)
