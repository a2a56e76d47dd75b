#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The gallery of the documents: each picture that they show, and that is committed, is drawn from the committed rows by
# reports/gallery.sh, and says so in its title. Where gnuplot's version is the same,
# it is the whole file. Leaves out: what a picture looks like.
set -euo pipefail
. "$SOURCE_DIR/bench/tests/lib.sh"
command -v gnuplot >/dev/null || { echo "skipped: gnuplot is not installed (gnuplot-nox)"; exit 77; }
expect "all are drawn" "$SOURCE_DIR/reports/gallery.sh" "$work/pictures" >"$work/drawn"
for picture in "$SOURCE_DIR"/results/*.svg; do
    expect "${picture##*/} is drawn" grep -q '<title>..*</title>' "$work/pictures/${picture##*/}"
    expect "${picture##*/} has the same title" cmp -s <(grep -m 1 -o '<title>.*</title>' "$picture") \
        <(grep -m 1 -o '<title>.*</title>' "$work/pictures/${picture##*/}")
    if [ "$(grep -m 1 '<!-- gnuplot' "$picture")" = "$(grep -m 1 '<!-- gnuplot' "$work/pictures/${picture##*/}")" ]; then
        expect "${picture##*/} is the same" cmp "$picture" "$work/pictures/${picture##*/}"
    fi
    expect "${picture##*/} is shown" grep -q "${picture##*/}" "$SOURCE_DIR/README.md" "$SOURCE_DIR/results/README.md"
done
finish
