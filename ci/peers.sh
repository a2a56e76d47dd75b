#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares lockstep with PyTorch, TensorFlow and JAX (bench/peers/README.md).
#
#   ci/peers.sh --install           only creates the virtual environment
#   ci/peers.sh agree ...           the first losses of all programs
#   ci/peers.sh all ...             measures time, scaling and processes, then prints their tables:
#   ci/peers.sh time|scaling|processes ...    one part of it
#   ci/peers.sh tables --file FILE  tables of the measurements
#
# Arguments are those of bench/peers/compare.py. Every turn is saved in results/<processor>-rounds.jsonl, and the same
# command continues an interrupted one. The environment is <repository>/.peers/venv, a folder or a link to one
# elsewhere; a changed requirements.txt reinstalls it. LOCKSTEP is the program (build/lockstep). Left out: building
# lockstep.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.peers/venv
requirements=$root/bench/peers/requirements.txt
stamp=$venv/.requirements
python=/usr/bin/python3 # Debian's, whose python3-venv creates the environment

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

install_venv_package() {
    if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
        as_root apt-get update -q
        as_root apt-get install -q -y --no-install-recommends python3-venv
    fi
}

make_environment() {
    if cmp -s "$requirements" "$stamp"; then return; fi
    install_venv_package
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --upgrade -r "$requirements"
    cp "$requirements" "$stamp"
}

make_environment >&2
if [ "${1:-}" = --install ]; then exit 0; fi
exec "$venv/bin/python" -B "$root/bench/peers/compare.py" \
    --lockstep "${LOCKSTEP:-$root/build/lockstep}" "$@"
