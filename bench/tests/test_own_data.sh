#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The lines of NumPy in datasets/README.md make what --data file:PATH takes, of images and of a text.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
python3 -c 'import numpy' 2>/dev/null || { echo "skipped: python3 has no numpy (python3-numpy)"; exit 77; }
sed -n '/^```py$/,/^```$/p' "$library/../../datasets/README.md" |
    awk '/^```py$/ { n++; next } /^```$/ { next } { print >("part" n ".py") }'
python3 - <<'P'
import numpy as np
rng = np.random.default_rng(1)
np.save("images.npy", rng.integers(0, 256, (40, 784), dtype=np.uint8))
np.save("labels.npy", rng.integers(0, 10, 40))
P
seq 1 900 >own.txt
expect "three blocks of lines" [ "$(echo part*.py)" = "part1.py part2.py part3.py" ]
expect "five lines for images" [ "$(cat part1.py part3.py | wc -l)" -eq 5 ]
cat part1.py part3.py >images.py
cat part2.py part3.py >text.py
python3 images.py
lockstep_ok run --model mlp --data file:own.safetensors --batch 8 --steps 2 --warmup 0 --results none --quiet
python3 text.py
lockstep_ok run --model gpt:1-2-16-64 --data file:own.safetensors --batch 8 --steps 2 --warmup 0 --results none --quiet
finish
