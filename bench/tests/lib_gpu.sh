# SPDX-License-Identifier: MIT
# For tests of ci/gpu.sh: lib.sh, a run of the script, and fake programs in `bin`, first in PATH: there is no GPU.
# Sourced, not run.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
script=$SOURCE_DIR/ci/gpu.sh
export LOCKSTEP_PROGRAM_BUILT=yes

# gpu ARGUMENT...: runs the script; exit status in $code, outputs in out and err.
gpu() {
    command_line="(ci/gpu.sh) $*"
    code=0
    timeout 600 "$script" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
}

# made_up NAME: creates a fake program in bin from its standard input.
made_up() {
    { echo '#!/bin/sh' && cat; } >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
mkdir bin
export PATH=$work/bin:$PATH LOCKSTEP_WORK=$work/w
made_up nvidia-smi <<<'exit 9'
