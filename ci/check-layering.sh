#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fails if an include points the wrong way, if files include each other in a circle, or if a vendor's header is
# included outside its folder. order(FOLDER, A < B C): in FOLDER, B and C may include A, but A may not include them,
# nor B and C each other. Files in FOLDER itself come before all subfolders: they may be included by them, but not
# include them. Tests come last. A file that is named here is treated separately from its folder. Files joined by + are
# a room, and may include each other; a header in brackets, only files of its room and tests. `vendors` lists all
# vendors' headers. Circles are checked between units: X.c, X.h, X_private.h, X_inline.h and X_parts.h are one unit.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
find common impl bench -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' | sort | xargs awk '
function order(parent, names,   levels, same, files, i, j, k) {
  for (i = split(names, levels, " < "); i > 0; i--)
    for (j = split(levels[i], same, " "); j > 0; j--)
      for (k = split(same[j], files, "+"); k > 0; k--) {
        if (sub(/^\[/, "", files[k]) && sub(/\]$/, "", files[k])) hidden[parent files[k]] = 1
        rank[parent files[k]] = i
        room[parent files[k]] = parent same[j]
      }
}
BEGIN {
  order("", "common < impl < bench")
  order("common/", "base < device < kernel comm data < nn")
  order("common/base/", "random")
  order("common/device/", "cpu cuda fake")
  order("common/comm/", "collectives cuda mpi nccl")
  order("common/kernel/", "reference < cpu cuda")
  order("common/kernel/cpu/", "elements < product conv images < sequences transformer < cpu_kernels.c vector_loops.c")
  order("common/kernel/cuda/", "elements product images < conv sequences")
  order("common/nn/", "divide < layers models")
  order("bench/", "rows statistics checkpoint < case output progress < train < gate cli trace < row micro report results < regress play < predict < commands < main.c")
  order("bench/output/", "table")
  order("bench/train/", "trial")
  order("bench/play/", "simgrid")
  order("bench/predict/", "advise")
  order("impl/step/", "plan < program < step.h+resources.h+verbs < run < trace")
  order("impl/step/program/", "program.h+names.h+program.c+order.c+match.c+names.c+spans.c")
  order("impl/step/trace/", "trace.h+trace.c+blame.c")
  split("^dnnl common/kernel/cpu/ ^oneapi/dnnl common/kernel/cpu/ ^hwloc common/device/ " \
        "^mpi\\.h common/comm/mpi/ ^cuda common/(device|kernel|comm)/(cuda|nccl|fake)/ " \
        "^cublas common/kernel/cuda/ ^cudnn common/kernel/cuda/ ^nccl common/comm/(nccl|tests)/ " \
        "^xxhash common/base/ ^zlib common/data/ ^jansson (bench|common/data)/ " \
        "^sqlite3 bench/ ^libfyaml bench/ ^cmocka /tests/", vendors, " ")
}
function refuse(why) { printf "%s:%d: includes %s: %s\n", FILENAME, FNR, header, why; failed = 1 }
function rank_of(path) { return path ~ /\/tests$/ ? 99 : rank[path] + 0 }
# The two folders or files in which `from` and `to` lie where their paths diverge.
function check_order(from, to,   a, b, n, m, i, mine, theirs) {
  sub(/\/tests\//, "/", to)
  n = split(from, a, "/"); m = split(to, b, "/")
  mine = a[1]; theirs = b[1]
  for (i = 1; a[i] == b[i] && i < n && i < m; i++) { mine = mine "/" a[i + 1]; theirs = theirs "/" b[i + 1] }
  if (to in hidden && room[from] != room[to] && from !~ /\/tests\//) refuse("private to the files beside it")
  else if (mine != theirs && rank_of(theirs) && rank_of(mine) <= rank_of(theirs) &&
           (!room[mine] || room[mine] != room[theirs]))
    refuse("points from " (rank_of(mine) ? mine : folder(mine)) " to " theirs)
}
function folder(path) { sub(/\/[^\/]*$/, "", path); return path }
function unit(path) { sub(/(_private|_inline|_parts)?\.[a-z]+$/, "", path); return path }
FNR == 1 && FILENAME ~ /^impl\/step\// && FILENAME !~ /\/tests\// && !(FILENAME in rank) && !(folder(FILENAME) in rank) {
  printf "%s: in no room; name it in this check and in the README beside it\n", FILENAME; failed = 1
}
FNR == 1 && FILENAME ~ /^(common|bench)\// && FILENAME !~ /\/tests\// && !(folder(FILENAME) in rank) {
  printf "%s: in a folder that this check does not know\n", FILENAME; failed = 1
}
/^[ \t]*#[ \t]*include/ {
  header = $0; sub(/^[^"<]*["<]/, "", header); sub(/[">].*/, "", header)
  if (header ~ /^(common|impl|bench)\//) {
    check_order(FILENAME, header)
    if (FILENAME ~ /\/tests\//) next
    if (header ~ /\/tests\//) refuse("a test is included")
    if (unit(FILENAME) != unit(header)) edges[unit(FILENAME)] = edges[unit(FILENAME)] " " unit(header)
    next
  }
  if ($0 ~ /"/ && header !~ /^(build_info|planted|(published|template|validated)_[a-z_]+).h$/) refuse("our own headers are named from the top folder")
  for (i = 1; i in vendors; i += 2)
    if (header ~ vendors[i] && FILENAME !~ vendors[i + 1]) refuse("a header that only " vendors[i + 1] " may include")
}
# Marks everything reachable from `at`.
function walk(start, at,   next_ones, i) {
  for (i = split(edges[at], next_ones, " "); i > 0; i--)
    if (!((start, next_ones[i]) in reached)) { reached[start, next_ones[i]] = 1; walk(start, next_ones[i]) }
}
END {
  for (u in edges) walk(u, u)
  for (u in edges) {
    if (!((u, u) in reached) || u in told) continue
    ring = ""
    for (v in edges) if ((u, v) in reached && (v, u) in reached) { ring = ring " " v; told[v] = 1 }
    printf "a circle of files:%s\n", ring; failed = 1
  }
  exit failed
}'
