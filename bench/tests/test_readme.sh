#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The commands of the README work as printed: each line of its `sh` blocks runs in order, in one folder, as a reader
# would after ci/quickstart.sh. It must succeed (or fail, if its comment says "exit status not 0") and print
# something. Lines that are not run are listed with the reason. Unless thorough, what a command does not say
# is short: steps of 12 samples, 60 of them.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
! without_ranks || exit 77
[ "$("$launcher" --kind)" != hydra ] || { echo "skipped: its lines have the options of Open MPI's mpirun"; exit 77; }
unset OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM # as a reader has it
unset OMPI_MCA_rmaps_base_oversubscribe PRTE_MCA_rmaps_default_mapping_policy

# Not run: the exact command and the reason. An entry that the README no longer has is an error.
declare -A reasons=(
    [ci/quickstart.sh]="installs packages and builds"
    [ci/test.sh]="takes a quarter of an hour, and runs this"
    ["LOCKSTEP=build/lockstep sbatch ci/slurm/cpu.sbatch"]="wants Slurm: test_slurm_slow.sh runs it"
    ["srun --mpi=pmix -n 2 --kill-on-bad-exit=1 build/lockstep run --strategy mirrored"]="the same"
    ["salloc -n 2 mpirun build/lockstep run --strategy mirrored"]="the same"
    ["datasets/fetch.sh cifar10"]="brings 170 MB; test_fetch.sh has it from a server of this machine"
)

# commands README: prints a line for each command: its status ("0", "not 0") and its text without comments and
# continuations. Every block must be commands (sh) or output (text).
commands() {
    python3 - "$1" <<'P'
import re, sys
kind, status, begun = None, "0", ""
for line in open(sys.argv[1], encoding="utf-8"):
    fence = re.match(r"\s*```(.*)", line)
    if fence:
        if kind is None and fence[1].strip() not in ("sh", "text"):
            sys.exit(f"a block is neither sh nor text: {line.strip()}")
        kind = None if kind else fence[1].strip()
        continue
    if kind != "sh":
        continue
    command, comment = re.match(r"(.*?)(?:(?:^|\s+)#(.*))?$", line.strip()).groups(default="")
    status = "not 0" if "exit status not 0" in comment else status
    begun += command
    if begun.endswith("\\"):
        begun = begun[:-1]
    elif begun:
        print(f"{status}\t{begun}")
        status, begun = "0", ""
if kind:
    sys.exit("a block has no end")
P
}

run_one() { # STATUS COMMAND: runs it; it must print something, and an expected failure must explain itself
    command_line="(README) $2"
    code=0
    timeout --kill-after=5 600 bash -c "$2" >out 2>err </dev/null || code=$?
    checks=$((checks + 1))
    [ "$code" -ne 124 ] || { wrong "no end in 10 min"; return; }
    case $1 in
    0) [ "$code" -eq 0 ] && [ -s out -o -s err ] || wrong "exit status $code, 0 and an output wanted" ;;
    *) [ "$code" -ne 0 ] && grep -q '^lockstep: ' err || wrong "exit status $code, another and our message wanted" ;;
    esac
}

mkdir build
if thorough; then
    ln -s "$LOCKSTEP" build/lockstep
else
    cat >build/lockstep <<S
#!/bin/bash
line=" \$* " options=("--batch 12")
[ "\$1" = verify ] || options+=("--steps 60" "--blocks 1" "--gate-steps 1" "--eval-samples 100")
[[ \$1 != @(run|verify) || \$line =~ \ --(plan|help|dry-run)\  ]] ||
    for option in "\${options[@]}"; do
        [[ \$line == *" \${option% *} "* ]] || set -- "\$@" \$option
    done
exec "$LOCKSTEP" "\$@"
S
    chmod +x build/lockstep
fi
ln -s "$SOURCE_DIR/bench" "$SOURCE_DIR/ci" "$SOURCE_DIR/datasets" .
commands "$SOURCE_DIR/README.md" >commands.list || wrong "README.md cannot be taken apart"
expect "there are commands" test "$(wc -l <commands.list)" -gt 20
declare -A seen=()
while IFS=$'\t' read -r -u 3 status command; do
    if [ -n "${reasons[$command]:-}" ]; then
        seen[$command]=1
        [[ ${command%% *} != [a-z]*/* ]] || expect "not run, but there: $command" test -x "${command%% *}"
    else
        run_one "$status" "$command"
    fi
done 3<commands.list
command_line=
for command in "${!reasons[@]}"; do
    expect "an exception that the README has no more: $command" test -n "${seen[$command]:-}"
done
expect "one name of the program throughout: build/lockstep" \
    test -z "$(grep -nE '(^|[`(; ])lockstep (run|verify|micro|devices|list|results|trace|report|regress)' "$SOURCE_DIR/README.md")"

# The first command installs what the others need: only checked, as a user with sudo on a machine without it.
mkdir bin
printf '#!/bin/sh\nexit 1\n' >bin/dpkg-query
printf '#!/bin/sh\necho 1000\n' >bin/id
printf '#!/bin/sh\necho "sudo $*" >>"%s"\n' "$work/asked" >bin/sudo
chmod +x bin/*
expect "quickstart installs for building" grep -q '^ci/install.sh build$' ci/quickstart.sh
PATH="$work/bin:$PATH" bash ci/install.sh build >/dev/null 2>err || wrong "install.sh does not go through sudo"
for package in openmpi-bin libopenmpi-dev gnuplot-nox curl dataset-fashion-mnist; do
    expect "installed for the README's commands: $package" grep -q "^sudo .*install.* $package\b" asked
done
finish
