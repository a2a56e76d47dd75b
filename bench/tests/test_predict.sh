#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `predict` as a user sees it: closed forms, which the virtual times meet to 1e-6; bytes and messages are those of the
# strategies' formulas; the network decides; the engines agree; calibration files; rows; refusals. Durations by rate,
# except of one small model. Leaves out what is measured, and how near predictions come (test_predict_slow).
set -euo pipefail
. "$(dirname "$0")/lib.sh"

form="--format jsonl --results none --draws 1"
link=latency=20us,bandwidth=1GB/s
small="--model mlp:784-2-10 --batch 64" # 1,600 parameters
one="--allreduce ring --bucket-bytes 1MiB --durations flops=1e30"

# ---- Closed forms ------------------------------------------------------------------------------

near="lambda a, b: abs(a - b) <= 1e-6 * b"
for level in flows messages; do
    # shellcheck disable=SC2086
    lockstep_ok predict $form $small --strategy mirrored --devices 2,8 $one --platform flat:$link \
        --collectives $level
    rows "$level: a ring takes 2 (n - 1) (L + 4 P / (n B))" "len(rows) == 2 and all(($near)(
        x['time']['step_ms']['median'], 2 * (n - 1) * (0.02 + 6400 / n / 1e6))
        for x in rows for n in [len(x['case']['devices'])])"
    rows "$level: traffic is that of the formula" "all(x['traffic']['bytes_sent'] == x['traffic']['bytes_formula'] and
        x['traffic']['messages_sent'] == x['traffic']['messages_formula'] for x in rows)"
done
keep ring
rows "rows say what they are" "all(x['result'] == {'status': 'ok', 'warnings': ['predicted']} and
    x['case']['data'] == 'fashion-mnist' and x['case']['link'] == '$link' and 'equivalence' not in x and
    x['prediction']['engine'] == 'ports' and x['prediction']['platform'] == 'flat:$link' for x in rows)"
# shellcheck disable=SC2086
lockstep_ok predict $form $small --strategy mirrored --devices 8 --allreduce flat --durations flops=1e30 \
    --platform flat:$link
rows "a rank that is not ready delays its message: flat takes 2 (n - 1) (L + 4 P / B)" "($near)(
    r['time']['step_ms']['median'], 14 * (0.02 + 6400 / 1e6))"
# shellcheck disable=SC2086
lockstep_ok predict $form $small --strategy mirrored --devices 2,8 $one --platform flat:latency=20us,bandwidth=0.5GB/s
rows "half the bandwidth: as the form says" "all(($near)(x['time']['step_ms']['median'],
    2 * (n - 1) * (0.02 + 6400 / n / 0.5e6)) for x in rows for n in [len(x['case']['devices'])])"
# shellcheck disable=SC2086
lockstep_ok predict $form $small --strategy mirrored --devices 8 --durations flops=2e9 --platform flat:$link
keep slow
# shellcheck disable=SC2086
lockstep_ok predict $form $small --strategy mirrored --devices 8 --durations flops=1e9 \
    --platform flat:latency=40us,bandwidth=0.5GB/s
rows "all twice as slow: twice the step" "($near)(r['time']['step_ms']['median'],
    2 * old('slow')[0]['time']['step_ms']['median'])"
# shellcheck disable=SC2086
lockstep_ok predict $form $small --strategy mirrored --devices 2 $one --platform flat:$link --inject delay=1:3ms
rows "a delay of one device delays all" "($near)(r['time']['step_ms']['median'], 3 + 2 * (0.02 + 6400 / 2 / 1e6))"

half="--strategy mirrored --devices 2 --allreduce ring --durations flops=1e9 --platform flat:$link"
# shellcheck disable=SC2086
lockstep_ok predict $form $small $half
keep even
# shellcheck disable=SC2086
lockstep_ok predict $form $small $half --slowdown 1=2
rows "a device of half the speed computes twice as long" "($near)(2 * old('even')[0]['time']['step_ms']['median'] -
    r['time']['step_ms']['median'], 2 * (0.02 + 6400 / 2 / 1e6))"

# ---- The strategies' own steps ------------------------------------------------------------------

all="--model mlp:784-16-10 --data synthetic:500 --batch 60 --devices 3 --strategy independent,towers,mirrored,zero"
all+=",local-sgd,gossip,model-parallel,pipeline,tensor-parallel,ps"
# shellcheck disable=SC2086
lockstep_ok predict $form $all --durations flops=1e9 --platform flat:latency=1us
rows "what is played sends what the strategy's formula says" "len(rows) == 10 and all('traffic' not in x or
    x['traffic']['bytes_sent'] == x['traffic']['bytes_formula'] and
    x['traffic']['messages_sent'] == x['traffic']['messages_formula'] for x in rows) and
    sum('traffic' in x for x in rows) >= 7"

# ---- Engines ------------------------------------------------------------------------------------

if "$LOCKSTEP" predict $form --durations flops=1e9 --engine simgrid >/dev/null 2>err; then
    touch has-simgrid
    # shellcheck disable=SC2086
    lockstep_ok predict $form $small --strategy mirrored --devices 2,8 $one --platform flat:$link \
        --collectives messages --engine simgrid
    rows "simgrid says what ports says" "all(($near)(x['time']['step_ms']['median'], y['time']['step_ms']['median'])
        for x, y in zip(rows, old('ring')))"
    # shellcheck disable=SC2086
    lockstep_ok predict $form $small --strategy mirrored --devices 8 --devices-per-host 4 $one \
        --platform two-level:host=1us@10GB/s,net=20us@1GB/s
    rows "hosts: the ring's slowest edge, that between hosts" "($near)(r['time']['step_ms']['median'],
        14 * (0.021 + 800 / 1e6))"
else
    expect "a build without SimGrid says so" grep -q 'this build has no SimGrid' err
fi

# ---- Calibration files --------------------------------------------------------------------------

lockstep_ok predict --calibrate --out d.json --quiet --model poly
for i in 1 2; do
    lockstep_ok predict --durations d.json --model poly --results none --format jsonl
    keep same$i
done
rows "the same durations, the same bits" "old('same1')[0]['time'] == old('same2')[0]['time'] and
    r['prediction']['draws'] == 32 and r['time']['step_ms']['median'] > 0"
lockstep predict --durations d.json --results none --format jsonl
rows "another model has operations that the file lacks" "r['result']['status'] == 'error' and
    'has no duration' in r['result']['reason']"

# ---- Failures -----------------------------------------------------------------------------------

# shellcheck disable=SC2086
lockstep_ok predict $form $small --strategy mirrored,zero --devices 1 --durations flops=1e9
rows "one device needs no network" "len(rows) == 2 and all(x['time']['step_ms']['median'] > 0 and
    'blocks' not in x['case'] for x in rows)"
# shellcheck disable=SC2086
lockstep predict $form $small --durations flops=1e-300 --slowdown 0=1e308
rows "times beyond all numbers are no times" "r['result']['status'] == 'error' and
    'beyond all numbers' in r['result']['reason'] and 'time' not in r"
cat >bad.xml <<'XML'
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full"><host id="a" speed="1Gf"/><host id="b" speed="1Gf"/>
<link id="wire" bandwidth="1GBps" latency="-1us"/><route src="a" dst="b"><link_ctn id="wire"/></route></zone></platform>
XML
mkdir folder.xml
if [ -e has-simgrid ]; then
    # shellcheck disable=SC2086
    lockstep predict $form $small --strategy mirrored --devices 2 --durations flops=1e9 --platform bad.xml
    rows "a negative latency: the file and the link" "r['result']['status'] == 'error' and
        'bad.xml' in r['result']['reason'] and 'wire' in r['result']['reason']"
fi

# ---- Refusals -----------------------------------------------------------------------------------

refused() { # STATUS WORD ARGUMENTS...
    local status=$1 word=$2
    shift 2
    lockstep predict --results none "$@"
    expect "refused with $status: $*" [ "$code" -eq "$status" ]
    expect "in one line, with $word: $*" one_line "$word"
}
refused 2 --platform --strategy mirrored --devices 2
refused 2 --platform --strategy mirrored --devices 2 --platform nonsense
refused 2 "option --platform" --strategy mirrored --devices 2 --platform flat:bandwidth=0GB/s
refused 3 "is no file" --strategy mirrored --devices 2 --platform folder.xml
[ ! -e has-simgrid ] || refused 2 --devices-per-host --strategy mirrored --devices 2 --platform bad.xml \
    --devices-per-host 2
refused 2 "serve requests as they arrive" --strategy ps --ps-mode async --devices 2 --platform flat:$link
refused 2 "trains nothing" --steps 3 --blocks 2
refused 2 "by --platform" --strategy mirrored --devices 2 --link $link
refused 2 "names a device that the case lacks" --strategy mirrored --devices 2 --platform flat:$link --slowdown 2=1.5
refused 2 "delay=RANK:TIME works" --strategy mirrored --devices 2 --platform flat:$link --inject bitflip=1:2
refused 2 "--calibrate" --out d.json
refused 2 collectives --collectives formula
lockstep predict --validate --format csv --results none.db
expect "--validate has no csv" one_line "table or jsonl"
lockstep predict --validate --durations flops=1e9 --results none.db
expect "nothing measured: one line" one_line "no measured row"
expect "and status 3" [ "$code" -eq 3 ]
refused 2 rate --durations flops=0
refused 3 nowhere.json --durations nowhere.json
refused 2 memory-limit --memory-limit much
printf '{"add_ns": 1}' >short.json
refused 3 short.json --durations short.json
refused 2 "flat platforms only" --strategy mirrored --devices 2 --platform two-level:host=1us@1GB/s,net=1us@1GB/s \
    --engine ports

lockstep predict $form --memory-limit 1MiB --durations flops=1e9
rows "too little memory: an error row that says how much" "r['result']['status'] == 'error' and
    'bytes' in r['result']['reason'] and 'time' not in r and r['memory']['devices'][0]['formula']['peak'] > 1 << 20"
expect "and status 3" [ "$code" -eq 3 ]

finish
