#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The documents' pictures: each one shown and committed is what reports/gallery.sh draws from the committed rows, and
# its title says so. With the same version of gnuplot, the whole file must be equal. Leaves out what a picture looks
# like.
set -euo pipefail
. "$SOURCE_DIR/bench/tests/lib.sh"
command -v gnuplot >/dev/null || { echo "skipped: gnuplot is not installed (gnuplot-nox)"; exit 77; }
expect "all are drawn" "$SOURCE_DIR/reports/gallery.sh" "$work/pictures" >"$work/drawn"
for picture in "$SOURCE_DIR"/results/*.svg; do
    expect "${picture##*/} is drawn" grep -q '<title>..*</title>' "$work/pictures/${picture##*/}"
    expect "${picture##*/} has the same title" cmp -s <(grep -m 1 -o '<title>.*</title>' "$picture") \
        <(grep -m 1 -o '<title>.*</title>' "$work/pictures/${picture##*/}")
    if [ "$(grep -m 1 '<desc>' "$picture")" = "$(grep -m 1 '<desc>' "$work/pictures/${picture##*/}")" ]; then
        expect "${picture##*/} is the same" cmp "$picture" "$work/pictures/${picture##*/}"
    fi
    expect "${picture##*/} is shown" grep -q "${picture##*/}" "$SOURCE_DIR/README.md" "$SOURCE_DIR/results/README.md"
done
finish
