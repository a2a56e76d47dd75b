#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The pictures of reports/ from the rows under results/: the data have the series and the figures of
# the rows, the pictures are drawn, the committed ones show today's data, bad rows are refused.
# SOURCE_DIR: the repository. Skipped (77) without gnuplot, after what needs none.
set -euo pipefail

cd "$SOURCE_DIR"
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
scaling=(results/intel-xeon-emerald-rapids.jsonl)
stragglers=(results/stragglers-amd-epyc-zen5.jsonl)
growth=(results/growth-amd-epyc-zen5.jsonl results/growth-tensorflow1.jsonl)
training=(results/training.jsonl)
pipeline=(results/pipeline-amd-epyc-zen5.jsonl)

fail() {
  echo "FAILED: $1" >&2
  exit 1
}

# refused STATUS TEXT COMMAND...: that status, nothing drawn, one line that holds the text
refused() {
  local expected=$1 text=$2 status=0
  shift 2
  "$@" >"$temp/out" 2>"$temp/err" || status=$?
  [ "$status" -eq "$expected" ] || fail "$*: status $status, not $expected"
  [ "$(wc -l <"$temp/err")" -eq 1 ] || fail "$*: not one line: $(cat "$temp/err")"
  grep -qF -- "$text" "$temp/err" || fail "$*: no '$text' in: $(cat "$temp/err")"
  [ ! -s "$temp/out" ] || fail "$*: printed data"
}

python3 -B reports/series.py scaling "${scaling[@]}" >"$temp/scaling.tsv"
python3 -B reports/series.py growth "${growth[@]}" >"$temp/growth.tsv"
python3 -B reports/tests/check_series.py "$temp/scaling.tsv" "${scaling[@]}"
python3 -B reports/tests/check_series.py "$temp/growth.tsv" "${growth[@]}"
python3 -B reports/series.py stragglers "${stragglers[@]}" >"$temp/stragglers.tsv"
python3 -B reports/tests/check_series.py "$temp/stragglers.tsv" "${stragglers[@]}"
python3 -B reports/series.py training "${training[@]}" >"$temp/training.tsv"
python3 -B reports/tests/check_series.py "$temp/training.tsv" "${training[@]}"
python3 -B reports/series.py pipeline "${pipeline[@]}" >"$temp/pipeline.tsv"
python3 -B reports/tests/check_series.py "$temp/pipeline.tsv" "${pipeline[@]}"
for kind in scaling growth stragglers training pipeline; do
  python3 -B reports/tests/check_picture.py "results/$kind.svg" "$temp/$kind.tsv"
done
python3 -B reports/series.py scaling results/intel-xeon-emerald-rapids-scaling.jsonl >"$temp/peers.tsv"
python3 -B reports/tests/check_picture.py results/scaling-peers.svg "$temp/peers.tsv"

: >"$temp/empty.jsonl"
echo '{"schema":1,"case":' >"$temp/cut.jsonl"
echo '{"case":{"strategy":"towers"},"result":{"status":"ok"},"program":{"nodes":1}}' >"$temp/bare.jsonl"
grep -E '"devices": *\["cpu:0"\]' "${scaling[0]}" >"$temp/one.jsonl"
for kind in scaling growth; do
  refused 3 "$temp/empty.jsonl" python3 -B reports/series.py "$kind" "$temp/empty.jsonl"
  refused 3 "$temp/cut.jsonl:1: not a row" python3 -B reports/series.py "$kind" "$temp/cut.jsonl"
  refused 3 "$temp/none.jsonl" python3 -B reports/series.py "$kind" "$temp/none.jsonl"
  refused 3 "$temp/bare.jsonl" python3 -B reports/series.py "$kind" "$temp/bare.jsonl"
  refused 3 "use --devices 1,2" python3 -B reports/series.py "$kind" "$temp/one.jsonl"
done
refused 3 "use --steps 10,100" python3 -B reports/series.py training "${pipeline[@]}"
refused 3 "use --pipeline-microbatches 1,2,4" python3 -B reports/series.py pipeline "$temp/one.jsonl"
refused 3 "reports/stragglers.sh" python3 -B reports/series.py stragglers "${scaling[0]}"
grep -v inject "${stragglers[0]}" >"$temp/quick.jsonl"
refused 3 "several delays" python3 -B reports/series.py stragglers "$temp/quick.jsonl"
refused 2 usage reports/stragglers.sh "$temp/x.jsonl" "$temp/x.png"
refused 2 usage reports/draw.sh scaling "${scaling[0]}" "$temp/x.png"
refused 2 usage reports/draw.sh pie "${scaling[0]}" "$temp/x.svg"

command -v gnuplot >/dev/null || {
  echo "skipped: no gnuplot; install Debian's gnuplot-nox"
  exit 77
}
reports/draw.sh scaling "${scaling[@]}" "$temp/scaling.svg"
reports/draw.sh growth "${growth[@]}" "$temp/growth.svg"
reports/draw.sh stragglers "${stragglers[@]}" "$temp/stragglers.svg"
reports/draw.sh training "${training[@]}" "$temp/training.svg"
reports/draw.sh pipeline "${pipeline[@]}" "$temp/pipeline.svg"
for kind in scaling growth stragglers training pipeline; do
  python3 -B reports/tests/check_picture.py "$temp/$kind.svg" "$temp/$kind.tsv"
  [ "$(head -c 8 "$temp/$kind.png" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ] ||
    fail "$kind.png: not a PNG"
done
refused 3 "$temp/empty.jsonl" reports/draw.sh scaling "$temp/empty.jsonl" "$temp/x.svg"
[ ! -e "$temp/x.svg" ] || fail "a picture of no rows"
