# SPDX-License-Identifier: MIT
# What a package has beside program and library: the manual page and completion, which the program prints
# of its own option table; and the Debian package that `cpack` makes in the build folder.
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
add_custom_target(printed ALL DEPENDS ${printed_files})
install(FILES ${printed}/lockstep.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${printed}/lockstep DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${printed}/_lockstep DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The Lockstep authors")
set(CPACK_PACKAGE_CONTACT "The Lockstep authors <lockstep@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # by dpkg-shlibdeps, of dpkg-dev
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin, gnuplot-nox, dataset-fashion-mnist")
include(CPack)
