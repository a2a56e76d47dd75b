#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Draws a picture from rows of `lockstep run --format jsonl`, as OUT.svg and OUT.png:
#   reports/draw.sh scaling|growth|training|pipeline|stragglers RESULTS.jsonl [MORE.jsonl ...] OUT.svg
# The picture is <kind>.gp, its data what series.py makes of the rows. Exit status: 2 wrong usage,
# 3 rows that do not make the picture, or no gnuplot.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
kind=${1:-}
out=${*: -1}
if [ $# -lt 3 ] || [ ! -f "$here/$kind.gp" ] || [ "${out%.svg}" = "$out" ]; then
  echo "usage: reports/draw.sh scaling|growth|training|pipeline|stragglers RESULTS.jsonl [MORE.jsonl ...] OUT.svg" >&2
  exit 2
fi
command -v gnuplot >/dev/null || {
  echo "draw.sh: gnuplot: missing; install Debian's gnuplot-nox" >&2
  exit 3
}
data=$(mktemp)
trap 'rm -f "$data"' EXIT
python3 -B "$here/series.py" "$kind" "${@:2:$#-2}" >"$data"
IFS=$'\t' read -r _ title note < <(tr -d "'" <"$data")
for terminal in svg pngcairo; do
  extension=${terminal%cairo}
  gnuplot -e "data='$data'; title='$title'; note='$note'; terminal='$terminal'" \
    -e "groups=$(grep -vc '^#' "$data")" \
    -e "out='${out%.svg}.$extension'" "$here/$kind.gp"
done
