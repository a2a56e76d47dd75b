# SPDX-License-Identifier: MIT
# What Doxygen reads of a header: its head is the file's page, and a comment behind several members
# ("int64_t rows, channels; /**< B, C */") is of each of them.
NR == 2 && /^\/\*/ { sub(/^\/\*+/, "/** @file\n"); print; next }
/^ +[a-z_0-9 ]+ \**[a-z_0-9]+(\[[A-Z_0-9]+\])?(, \**[a-z_0-9]+(\[[A-Z_0-9]+\])?)+; +\/\*\*<.*\*\/$/ {
  comment = substr($0, index($0, "/**<"))
  split(substr($0, 1, index($0, ";") - 1), names, /, /)
  match(names[1], / \**[a-z_0-9]+(\[[A-Z_0-9]+\])?$/)
  type = substr(names[1], 1, RSTART)
  names[1] = substr(names[1], RSTART + 1)
  for (i = 1; i in names; i++) printf "%s%s; %s ", type, names[i], comment
  print ""
  next
}
{ print }
