#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The page of `lockstep report` in headless Chromium: nothing on the console, no requests, sorting and filtering by
# keyboard, names in the accessibility tree, contrast, no sideways scrolling from 320 to 1,920 pixels, light and dark.
# Skipped (77) without Chromium or gnuplot.
set -euo pipefail
# shellcheck source=bench/tests/lib.sh
source "$SOURCE_DIR/bench/tests/lib.sh"
browser=$(command -v chromium || command -v google-chrome || true)
if [ -z "$browser" ] || ! command -v gnuplot >/dev/null; then
    echo "skipped: no chromium or no gnuplot; apt-get install chromium gnuplot-nox"
    exit 77
fi
lockstep_ok run --model poly --strategy towers,mirrored --devices 1,2 --baseline --steps 20 \
    --warmup 2 --blocks 1 --results rows.db --label '<b>"label"</b>' --progress no
for delay in 1 2 3 4 5 6; do # many long names in one picture
    lockstep_ok run --model poly --strategy ps --devices 2 --ps-mode async,ssp --inject delay=1:${delay}ms \
        --steps 10 --warmup 0 --blocks 1 --gate-steps 0 --results rows.db --progress no
done
lockstep_ok report --results rows.db --out page
code=0
python3 -B "$SOURCE_DIR/bench/tests/check_page.py" "$browser" "$work/page/index.html" >out 2>err ||
    code=$?
cat out
expect "all checks of the page" test "$code" -eq 0
finish
