#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Reports which lines of the C sources the tests run: ci/coverage.sh [REGEX] Builds with gcov into build-coverage,
# runs the tests whose names match REGEX (default: units, examples, and quick integration tests), and prints for each
# folder its lines, those that ran, and their share; build-coverage/lines lists each file's lines that no test ran. A
# failing test is named, and its lines count; the exit status is then 1. Leaves out kernels of GPUs, and branches.
set -euo pipefail
cd "$(dirname "$0")/.."
quick='^(unit|example)\.|test_(print_step|rows|run|results|refusals|arithmetic|strategies|ps_backup|local_sgd|hybrid|pipeline|mpi_start|links|no_mpi)$'
tests=${1:-$quick}
build=build-coverage
log=$(mktemp)
trap 'rm -f "$log"' EXIT
launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
# Only whether a line ran matters, so threads may lose counts; -O is low, to keep lines of the source.
if ! { cmake -G Ninja -S . -B $build -DCMAKE_BUILD_TYPE=Debug -DLOCKSTEP_TESTS=ON "${launcher[@]}" \
  -DCMAKE_C_FLAGS='-O1 --coverage' -DCMAKE_CXX_FLAGS=-O1 \
  -DCMAKE_EXE_LINKER_FLAGS=--coverage && cmake --build $build; } >"$log" 2>&1; then
  tail -n 60 "$log" >&2
  exit 1
fi
find $build -name '*.gcda' -delete
status=0
ctest --test-dir $build -j$((3 * $(nproc) + 1)) --no-tests=error -R "$tests" -LE 'slow|peers|sanitizer' >"$log" 2>&1 || status=1
grep -E 'tests passed|Failed|Timeout' "$log" || true
python3 - $build <<'P'
import collections, json, os, pathlib, subprocess, sys
build, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path.cwd()
ran = collections.defaultdict(dict) # per file: line -> whether it ran in any object
data = [str(path) for path in build.rglob("*.gcno") if "/tests/" not in str(path)] # including objects that never ran
if not any(build.rglob("*.gcda")):
    sys.exit("coverage: no counts were written; did any test run?")
for first in range(0, len(data), 50):
    said = subprocess.run(["gcov", "--json-format", "--stdout", *data[first:first + 50]],
                          capture_output=True, text=True, check=True, cwd=build).stdout
    for report in map(json.loads, said.splitlines()):
        for file in report["files"]:
            name = os.path.relpath((build / file["file"]).resolve(), root)
            if name.startswith((".", "build", "/")) or "/tests/" in name:
                continue
            for line in file["lines"]:
                number = line["line_number"]
                ran[name][number] = ran[name].get(number, False) or line["count"] > 0
folders = collections.defaultdict(lambda: [0, 0])
with open(build / "lines", "w", encoding="utf-8") as out:
    for name, lines in sorted(ran.items()):
        folder = folders[os.path.dirname(name)]
        folder[0] += len(lines)
        folder[1] += sum(lines.values())
        missed = [number for number, count in sorted(lines.items()) if not count]
        out.write(f"{name}: {len(missed)} of {len(lines)}: {' '.join(map(str, missed))}\n")
print(f"{'folder':34} {'lines':>7} {'ran':>7}")
for folder, (lines, count) in sorted(folders.items()) + [("all", [sum(c) for c in zip(*folders.values())])]:
    print(f"{folder:34} {lines:7} {count:7} {100 * count / lines:6.1f}%")
P
exit $status
