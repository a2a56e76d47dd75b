#!/bin/sh
# SPDX-License-Identifier: MIT
# gpt's parameter files, loss and gradients against Hugging Face's GPT2LMHeadModel (transformers_gpt.py). LOCKSTEP: the
# program; SOURCE_DIR: the repository. Skipped (77) without virtual environment or transformers.
set -eu

python=$SOURCE_DIR/.peers/venv/bin/python
skip() {
    echo "skipped: $1"
    exit 77
}
[ -x "$python" ] || skip "no virtual environment in .peers/venv; ci/peers.sh --install makes it"
"$python" -c 'import importlib.util as u, sys
sys.exit(not all(map(u.find_spec, ("torch", "transformers"))))' ||
    skip "the virtual environment has no transformers; .peers/venv/bin/pip install transformers brings it"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
HF_HUB_OFFLINE=1 "$python" -B "$SOURCE_DIR/bench/tests/transformers_gpt.py" "$LOCKSTEP" "$work"
