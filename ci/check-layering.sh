#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fails where an include points the wrong way, or a vendor's header stands outside its folder.
#   bench -> impl -> common/nn -> common/{kernel,comm,data} -> common/device -> common/base
# Folders of one rank do not include each other. `vendors` below is the whole list.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
find common impl bench -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' | sort | xargs awk '
BEGIN {
  rank["common/base"] = 0; rank["common/device"] = 1
  rank["common/kernel"] = rank["common/comm"] = rank["common/data"] = 2
  rank["common/nn"] = 3; rank["impl"] = 4; rank["bench"] = 5
  split("^dnnl common/kernel/cpu/ ^oneapi/dnnl common/kernel/cpu/ ^hwloc common/device/ " \
        "^mpi\\.h common/comm/mpi/ ^cuda common/(device|kernel|comm)/(cuda|nccl)/ " \
        "^cublas common/kernel/cuda/ ^cudnn common/kernel/(cuda/|tests/made_up) ^nccl common/comm/nccl/ " \
        "^xxhash common/base/ ^zlib common/data/ ^jansson (bench|common/data)/ " \
        "^sqlite3 bench/ ^libfyaml bench/ ^cmocka /tests/", vendors, " ")
}
function folder(path) {
  if (match(path, /^common\/[a-z]+/)) return substr(path, 1, RLENGTH)
  if (match(path, /^(impl|bench)/)) return substr(path, 1, RLENGTH)
  return ""
}
function refuse(why) { printf "%s:%d: includes %s: %s\n", FILENAME, FNR, header, why; failed = 1 }
/^[ \t]*#[ \t]*include/ {
  header = $0; sub(/^[^"<]*["<]/, "", header); sub(/[">].*/, "", header)
  mine = folder(FILENAME); theirs = folder(header)
  if (theirs != "") {
    if (mine != theirs && rank[mine] <= rank[theirs]) refuse("points from " mine " to " theirs)
    if (FILENAME !~ /\/tests\// && header ~ /\/tests\//) refuse("a test is included")
    next
  }
  if ($0 ~ /"/ && header != "build_info.h") refuse("our own headers are named from the top folder")
  for (i = 1; i in vendors; i += 2)
    if (header ~ vendors[i] && FILENAME !~ vendors[i + 1]) refuse("a header that only " vendors[i + 1] " may include")
}
END { exit failed }'
