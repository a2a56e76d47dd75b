# SPDX-License-Identifier: MIT
# Writes generated/row_schema.h: bench/row.schema.json as a text, from which the program reads the fields of a row.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS bench/row.schema.json)
file(READ ${CMAKE_CURRENT_SOURCE_DIR}/bench/row.schema.json lockstep_schema)
string(REGEX REPLACE "([\\\"])" "\\\\\\1" lockstep_schema "${lockstep_schema}")
string(REPLACE "\n" "\\n\"\n\"" lockstep_schema "${lockstep_schema}")
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/generated/row_schema.h @ONLY
  CONTENT "static const char ls_row_schema[] =\n\"@lockstep_schema@\";\n")
