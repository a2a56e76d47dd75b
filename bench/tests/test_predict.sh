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
for level in flows messages formula; do
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
rows "rows say what they are" "all(x['result'] == {'status': 'ok', 'warnings': ['predicted', 'guessed']} and
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
rows "a rate says that it is a guess" "r['prediction']['durations'] == 'flops=2e9 (a guess)' and
    r['result']['warnings'] == ['predicted', 'guessed']"
keep slow
# shellcheck disable=SC2086
lockstep_ok predict $form $small --strategy mirrored --devices 8 --durations flops=1e9 \
    --platform flat:latency=40us,bandwidth=0.5GB/s
rows "all twice as slow: twice the step" "($near)(r['time']['step_ms']['median'],
    2 * old('slow')[0]['time']['step_ms']['median'])"
# shellcheck disable=SC2086
lockstep_ok predict $form $small --strategy mirrored --devices 2 $one --platform flat:$link --inject delay=1:3ms
rows "a delay of one device delays all" "($near)(r['time']['step_ms']['median'], 3 + 2 * (0.02 + 6400 / 2 / 1e6))"

# shellcheck disable=SC2086
lockstep_ok predict $form $small --strategy mirrored --devices 2,4 $one --platform flat:$link --slowdown 3=2
rows "a device that one case lacks is slow in the other" "['slowdown' in x['prediction'] for x in rows] == [False, True]"
# shellcheck disable=SC2086
lockstep_ok predict $form $small --strategy local-sgd --devices 2 --durations flops=1e9 --platform flat:$link
rows "whole periods: 10 and 10 steps, and their mean traffic" "r['case']['steps'] == r['case']['warmup'] == 10 and
    r['traffic']['bytes_sent'] == r['traffic']['bytes_formula'] == 2 * 6400 / 10"
lockstep_ok predict --platform list
expect "shipped platforms have their sources" grep -q 'docs/benchmarks.rst' out
half="--strategy mirrored --devices 2 --allreduce ring --durations flops=1e9 --platform flat:$link"
# shellcheck disable=SC2086
lockstep_ok predict $form $small $half
keep even
# shellcheck disable=SC2086
lockstep_ok predict $form $small $half --slowdown 1=2
rows "a device of half the speed computes twice as long" "($near)(2 * old('even')[0]['time']['step_ms']['median'] -
    r['time']['step_ms']['median'], 2 * (0.02 + 6400 / 2 / 1e6))"

# ---- Profiles: models that are only sizes and times -----------------------------------------------

cat >one.yaml <<'YAML'
name: one layer
batch: 4
layers:
  - {name: fc, params: 960000, forward: 1.2345ms, backward: 2.5ms, activations: 4096}
YAML
sed 's/1.2345ms/1.85175ms/; s/2.5ms/3750.0us/' one.yaml >slow.yaml
# shellcheck disable=SC2086
lockstep_ok predict $form --model profile:one.yaml --strategy mirrored --devices 3,8 --allreduce ring \
    --bucket-bytes 1GiB --platform flat:latency=7us,bandwidth=3GB/s --collectives messages
rows "one layer, a ring: F + B + 2 (n - 1) (L + 4 P / (n W)), of the profile's batch a device" "len(rows) == 2 and
    all(($near)(x['time']['step_ms']['median'], 3.7345 + 2 * (n - 1) * (0.007 + 3840000 / n / 3e6)) and
    x['case']['batch_global'] == 4 * n and x['prediction']['durations'] == 'profile'
    for x in rows for n in [len(x['case']['devices'])])"
keep one
# shellcheck disable=SC2086
lockstep_ok predict $form --model profile:slow.yaml --strategy mirrored --devices 3,8 --allreduce ring \
    --bucket-bytes 1GiB --platform flat:latency=10.5us,bandwidth=2GB/s
rows "all half as slow again: the step, too" "all(($near)(x['time']['step_ms']['median'],
    1.5 * y['time']['step_ms']['median']) for x, y in zip(rows, old('one')))"
# 8 hosts of a GPU each: NCCL would take a ring with Simple: 14 steps of 14 us, 1.4 times.
nccl="--model profile:one.yaml --strategy mirrored --devices 8 --allreduce library --bucket-bytes 1GiB"
# shellcheck disable=SC2086
lockstep_ok predict $form $nccl --platform flat:latency=0us,bandwidth=24GB/s --collectives formula
rows "library: by NCCL's estimate; its traffic is not known" "($near)(r['time']['step_ms']['median'],
    3.7345 + 1.4 * (8.4 + 14 * 14) * 1e-3 + 3840000 / (24e6 * 8 / 14)) and 'traffic' not in r and
    r['case']['allreduce'] == 'library'"
# shellcheck disable=SC2086
lockstep predict $form $nccl --platform flat:latency=0us,bandwidth=24GB/s
expect "not message by message" one_line "use --collectives formula"
sed 's/batch: 4/&\nelement_bytes: 2/' one.yaml >half.yaml
# shellcheck disable=SC2086
lockstep_ok predict $form --model profile:half.yaml --strategy mirrored --devices 8 --allreduce ring \
    --bucket-bytes 1GiB --platform flat:latency=7us,bandwidth=3GB/s
rows "element_bytes 2: half the bytes" "($near)(rows[0]['time']['step_ms']['median'],
    3.7345 + 14 * (0.007 + 1920000 / 8 / 3e6)) and rows[0]['traffic']['bytes_sent'] == 14 * 1920000
    and all(d['types'] == {'float32': 0, 'bf16': sum(d[k] for k in ('parameters', 'gradients', 'activations')), 'int8': 0,
        'other': d['workspace']} for d in rows[0]['memory']['devices'])"
for i in a b c d; do
    echo "  - {name: $i, params: 10, forward: 8ms, backward: 16ms, activations: 4KiB}"
done >layers
{ echo "batch: 8" && echo "layers:" && cat layers; } >pipe.yaml
# shellcheck disable=SC2086
lockstep_ok predict $form --model profile:pipe.yaml --strategy pipeline --devices 4 --pipeline-microbatches 1,4,8 \
    --pipeline-schedule gpipe,1f1b --platform flat:latency=0us
rows "a pipeline of equal stages takes m + p - 1 micro-batches" "len(rows) == 6 and all(($near)(
    x['time']['step_ms']['median'], (m + 3) * 24 / m) for x in rows for m in [x['case']['pipeline_microbatches']])"
rows "and is idle for (p - 1) / (m + p - 1)" "all(($near)(x['pipeline'][key], 3 / (x['case']['pipeline_microbatches'] + 3))
    for x in rows for key in ('bubble', 'bubble_equal'))"
# shellcheck disable=SC2086
lockstep_ok predict $form --model profile:pipe.yaml --strategy pipeline --devices 2 --pipeline-microbatches 2,4,8 \
    --pipeline-schedule interleaved --platform flat:latency=0us
rows "two chunks a stage halve the bubble" "len(rows) == 3 and all(($near)(x['time']['step_ms']['median'], 48 + 24 / m)
    for x in rows for m in [x['case']['pipeline_microbatches']])"
# shellcheck disable=SC2086
lockstep_ok predict $form --model profile:pipe.yaml --strategy pipeline --devices 2 --pipeline-microbatches 2,4,8 \
    --pipeline-schedule gpipe --platform flat:latency=1ms
rows "a stage does not wait for its own message" "len(rows) == 3 and all(($near)(x['time']['step_ms']['median'],
    48 + 48 / m + 2) for x in rows for m in [x['case']['pipeline_microbatches']])"
# shellcheck disable=SC2086
lockstep_ok predict $form --model profile:one.yaml --strategy all --devices 2 --quiet --platform flat:latency=1us
rows "every strategy takes a profile" "len({x['case']['strategy'] for x in rows}) >= 8 and
    all(x['result']['status'] == 'ok' for x in rows)"
lockstep_ok predict --model profile:one.yaml --results profile.db
lockstep_ok results show last --results profile.db
expect "results show says what a profile's memory leaves out" grep -q '^ *not counted: what a layer needs inside' out

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
    # shellcheck disable=SC2086
    lockstep_ok predict $form $small --strategy mirrored --cpu-devices 4 --devices cpu:0+cpu:2+cpu:1+cpu:3 $one \
        --devices-per-host 2 --platform two-level:host=1us@10GB/s,net=20us@1GB/s
    rows "cpu:i is on host i / K: here two edges of the ring share a host's port" "($near)(r['time']['step_ms']['median'],
        6 * (0.021 + 2 * 1600 / 1e6))"
    hosts="--model gpt:2-8-512-64-8192 --batch 32 --devices 16 --devices-per-host 8 --platform 100gib-8gpu
        --steps 1 --warmup 0 --durations flops=200e12"
    all=ring,halving-doubling,tree,hierarchical
    for case in "ring $all mirrored" "ring ring,halving-doubling zero" \
        "hierarchical $all hybrid --hybrid-inner pipeline --hybrid-replicas 4" \
        "halving-doubling ring,halving-doubling hybrid --hybrid-inner zero --hybrid-replicas 2"; do
        read -r best rivals strategy <<<"$case"
        # shellcheck disable=SC2086
        lockstep_ok predict $form $hosts --strategy $strategy --allreduce auto,$rivals
        rows "auto knows which devices share a host's port: $strategy" "(lambda ms: ms[0] <= 1.1 * min(ms) and
            rows[0]['case']['allreduce'] == '$best')([x['time']['step_ms']['median'] for x in rows])"
    done
else
    expect "a build without SimGrid says so" grep -q 'this build does not have SimGrid' err
fi

# ---- Traces and graphs ---------------------------------------------------------------------------

# shellcheck disable=SC2086
lockstep_ok predict $form $small --strategy mirrored --devices 4 --durations flops=1e9 --platform flat:$link \
    --collectives messages --allreduce ring --trace steps.json --goal steps.goal --chakra steps/et
keep traced
"$SOURCE_DIR/bench/tests/virtual_files.py" steps.json steps.goal steps/et 20e3 1 >out
rows "a trace's slices do not overlap, flows have both ends; the steps shown are those of the row" "
    r['overlaps'] == 0 and r['flows'] > 0 and r['unmatched'] == 0 and
    abs(r['trace_ms'] - 5 * old('traced')[0]['time']['step_ms']['median']) < 1e-6 * r['trace_ms']"
rows "another player of the graph in GOAL says the same, to the rounding of calc" "
    r['sends'] == r['receives'] and abs(r['goal_ms'] - 8 * old('traced')[0]['time']['step_ms']['median']) <
    1e-3 * r['goal_ms']"
rows "and of Chakra's traces, to the rounding to microseconds" "r['chakra_messages'] == r['sends'] and
    abs(r['chakra_ms'] - r['goal_ms']) < 8 * 2e-3"
# shellcheck disable=SC2086
# A trace has each step written out; without one, the steps of a period are made once, and repeated.
for case in mirrored "zero --zero-stage 3 --collectives formula" "local-sgd --local-sgd-every 2 --warmup 2" \
    "hybrid --hybrid-inner pipeline" "ps --inject delay=1:2ms"; do
    lockstep_ok predict $form --steps 6 --strategy $case --devices 4 --durations flops=1e9 --platform flat:$link
    keep repeated
    lockstep_ok predict $form --steps 6 --strategy $case --devices 4 --durations flops=1e9 --platform flat:$link --trace x
    rows "${case%% *}: repeated steps are the steps written out" "all(r[group].get(name) == old('repeated')[0][group].get(
        name) for group in ('time', 'traffic', 'prediction', 'memory') for name in r[group] if name != 'wall_s')"
done
lockstep predict --results none --durations flops=1e9 --platform flat:$link --strategy mirrored --devices 2,4 --trace x
expect "two cases are no trace" one_line "cases cannot all be written here"
# shellcheck disable=SC2086
lockstep predict $form $small --strategy mirrored --devices 4 --durations flops=1e9 --platform flat:$link \
    --allreduce ring --goal x
expect "flows are no messages" one_line "add --collectives messages"

# ---- Threads that wait ---------------------------------------------------------------------------

# A step waits twice for a queue of another device: at its beginning and where the sums come. A server that sends to the
# worker on its own device goes on behind that worker's six operations, so the other worker's come later.
host="--model poly --devices 2 --devices-per-host 2 --platform flat:latency=1us --results none"
lockstep_ok predict --calibrate --out waits.json --quiet --strategy towers,ps $host
for ns in 0 50000; do
    python3 - "$ns" >waits$ns.json <<'END'
import json, sys
times = json.load(open("waits.json")) | {"add_ns": 0, "copy_ns": 0, "cores": 2, "turn_ns": 1e9, "spread": [1]}
times["messages"] = [{"per_core": 1, "wake_ns": [0] * 3, "late_ns": [0] * 3, "within_ns": [1000] * 3,
                      "between_ns": [int(sys.argv[1])] * 3}]
times["operations"] = [one | {"ns": 1e6} for one in times["operations"]]
print(json.dumps(times))
END
    lockstep_ok predict --strategy towers,ps $host --durations waits$ns.json --format jsonl
    keep waits$ns
done
rows "a step begins and ends when another thread runs again" "abs(old('waits50000')[0]['time']['step_ms']['median'] -
    old('waits0')[0]['time']['step_ms']['median'] - 0.1) < 1e-6"
rows "who sends within a device comes last" "abs(rows[1]['time']['step_ms']['median'] - 16) < 0.1"

# ---- Calibration files --------------------------------------------------------------------------

lockstep_ok predict --calibrate --out d.json --quiet --model poly
for i in 1 2; do
    lockstep_ok predict --durations d.json --model poly --results none --format jsonl
    keep same$i
done
rows "the same durations, the same bits" "old('same1')[0]['time'] == old('same2')[0]['time'] and
    r['prediction']['draws'] == 32 and r['time']['step_ms']['median'] > 0 and
    0 < r['prediction']['error_calibration'] and 0 < r['prediction']['error_draws']"
lockstep_ok predict --durations d.json --model poly --results predicted.db
lockstep report --results predicted.db --results predicted.db --where model=poly --out page
expect "a report says how it takes predicted rows, each counted once" \
    one_line "all matching rows (1) are predictions, not measurements; use --where warnings~predicted "
lockstep predict --durations d.json --results none --format jsonl
rows "another model has operations that the file lacks" "r['result']['status'] == 'error' and
    'do not include this operation' in r['result']['reason']"

# A group's all-reduce by hosts; the job's are other hosts than the group's.
for inner in pipeline tensor-parallel; do
    lockstep_ok predict --strategy hybrid --hybrid-inner $inner --hybrid-replicas 2 --devices 4 --allreduce hierarchical \
        --model gpt:2-4-32-32 --batch 8 --devices-per-host 2 --platform flat:latency=1us,bandwidth=1GB/s \
        --durations flops=1e9 --results none --format jsonl
    rows "hierarchical in groups of $inner" "r['result']['status'] == 'ok' and
        r['traffic']['bytes_sent'] == r['traffic']['bytes_formula']"
done

# Where the memory of virtual devices lies changes nothing: no operation declares more than it has.
lockstep_ok predict --strategy tensor-parallel --tensor-parallel-sequence yes --devices 2 --platform flat:latency=1us \
    --durations flops=1e9 --model gpt:1-2-8-32-16 --batch 4 --results none --format jsonl
rows "blocks of positions are played" "r['result']['status'] == 'ok'"

# ---- Validation ---------------------------------------------------------------------------------

cat >plan.yaml <<'YAML'
model: poly
strategy: [mirrored, towers]
devices: 3
link: latency=1ms
steps: 5
YAML
lockstep_ok predict --validate --plan plan.yaml --results measured.db --format jsonl
rows "a plan is measured now, and its rows are predicted" "len(rows) == 3 and rows[2]['summary']['rows'] == 2 and
    r['case']['link'] == 'latency=1ms' and r['measured_ms'] > 2 and r['predicted_ms'] > 2"
lockstep_ok predict --validate --results measured.db --format jsonl
rows "without cases: all measured rows of the file" "len(rows) == 3 and r['case']['strategy'] == 'mirrored'"
keep validated
lockstep_ok predict --validate --results measured.db
expect "the table says of each row whether its interval held" awk '$8 == "yes" || $8 == "no" {
    rows++; wrong += ($8 == "yes") != ($4 >= $6 && $4 <= $7) } END { exit wrong || rows < 2 }' out
lockstep_ok run --model poly --strategy local-sgd --devices 2 --link latency=5ms --steps 20 --blocks 1 --gate-steps 0 \
    --waterfall no --results apart.db --format jsonl
lockstep_ok predict --validate --results apart.db --format jsonl
rows "a step in ten averages: the mean is compared, not the median, which has none" "rows[-2]['measured_ms'] > 1 and
    rows[-2]['predicted_ms'] > 1 and rows[-1]['summary']['rows'] == 1"
lockstep_ok advise --model poly --durations flops=1e9 --results measured.db --format jsonl
rows "an advice says how good the choice by these would have been" "(lambda choices, regret: regret['sets'] == 1 and
    abs(regret['worst'] - (min(choices)[1] / min(x[1] for x in choices) - 1)) < 1e-9 and
    regret['mean'] == regret['worst'])([(x['predicted_ms'], x['measured_ms']) for x in old('validated')[:2]], r['regret'])"

# ---- Failures -----------------------------------------------------------------------------------

# Stage 3 of zero gathers a bucket while another one is computed, if there are two windows: then less than half of its
# messages' time is exposed, beyond the step without messages; with one window, most of it.
deep="--model mlp:784-512-512-512-512-512-10 --data synthetic:1000 --batch 256 --bucket-bytes 1MiB --devices 4"
deep+=" --durations flops=5e10 --platform flat:latency=50us,bandwidth=1GB/s"
# shellcheck disable=SC2086
lockstep_ok predict $form ${deep/--bucket-bytes 1MiB/} --strategy independent
keep alone
# shellcheck disable=SC2086
lockstep_ok predict $form $deep --strategy zero --zero-stage 3 --zero-windows 1,2
rows "a gather runs beside another bucket's pass" "[(x['time']['step_ms']['median'] -
    old('alone')[0]['time']['step_ms']['median']) / (x['traffic']['bytes_sent'] / 4 / 1e6 +
    x['traffic']['messages_sent'] / 4 * 0.05) > 0.5 for x in rows] == [True, False]"

# shellcheck disable=SC2086
lockstep_ok predict $form $small --strategy mirrored,zero --devices 1 --durations flops=1e9
rows "one device needs no network" "len(rows) == 2 and all(x['time']['step_ms']['median'] > 0 and
    'blocks' not in x['case'] for x in rows)"
# shellcheck disable=SC2086
lockstep predict $form $small --durations flops=1e-300 --slowdown 0=1e308
rows "times beyond all numbers are no times" "r['result']['status'] == 'error' and
    'too large to compute with' in r['result']['reason'] and 'time' not in r"
cat >bad.xml <<'XML'
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full"><host id="a" speed="1Gf"/><host id="b" speed="1Gf"/>
<link id="wire" bandwidth="1GBps" latency="-1us"/><route src="a" dst="b"><link_ctn id="wire"/></route></zone></platform>
XML
mkdir folder.xml
if [ -e has-simgrid ]; then
    # shellcheck disable=SC2086
    lockstep predict $form $small --strategy mirrored --devices 2,4 --durations flops=1e9 --platform bad.xml
    expect "a negative latency: one line, the file and the link" one_line "bad.xml.*wire.*correct this file"
    expect "and status 2" [ "$code" -eq 2 ]
    sed 's/-1us/1us/' bad.xml >two.xml
    # shellcheck disable=SC2086
    lockstep predict $form $small --strategy mirrored --devices 2,4 --durations flops=1e9 --platform two.xml
    rows "a case with more devices than hosts is left out" "len(rows) == 1 and len(r['case']['devices']) == 2"
    expect "in one line" one_line "has 2 hosts, and there are 4 devices"
    # shellcheck disable=SC2086
    lockstep_ok predict $form $small --strategy mirrored --devices 2,4 $one --platform two.xml --devices-per-host 2
    rows "two devices a host: within one, messages take no time; a ring of two hosts goes both ways over the wire" "
        rows[0]['time']['step_ms']['median'] < 1e-9 and abs(rows[1]['time']['step_ms']['median'] - (0.006 + 2 * 0.0096)) < 1e-6"
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
refused 3 "is not a file" --strategy mirrored --devices 2 --platform folder.xml
refused 2 "serve requests as they arrive" --strategy ps --ps-mode async --devices 2 --platform flat:$link
refused 2 "does not train" --steps 3 --blocks 2
refused 2 "with --platform" --strategy mirrored --devices 2 --link $link
refused 2 "names a device that no case has" --strategy mirrored --devices 2 --platform flat:$link --slowdown 2=1.5
refused 2 "use --inject delay=RANK:TIME" --strategy mirrored --devices 2 --platform flat:$link --inject bitflip=1:2
refused 2 "--calibrate" --out d.json
refused 2 collectives --collectives guess
refused 3 nowhere.yaml --model profile:nowhere.yaml
sed '/fc/s/forward: [^,]*,//' one.yaml >bad.yaml
refused 2 "bad.yaml:4:[0-9]*: .forward:. is missing" --model profile:bad.yaml
sed 's/batch: 4/&\nelement_bytes: 5/' one.yaml >bad.yaml
refused 2 "bad.yaml:3:[0-9]*: .element_bytes:. is more than 4" --model profile:bad.yaml
printf 'batch: 4\nlayers: [{name' >bad.yaml
refused 2 "bad.yaml:" --model profile:bad.yaml
sed 's/batch: 4/& # \xb5/' one.yaml >bad.yaml
refused 2 "bad.yaml:2:12: there is a byte here that is not UTF-8" --model profile:bad.yaml
lockstep run --results none --model profile:one.yaml
expect "run computes nothing of a profile" one_line "use lockstep predict or lockstep advise"
lockstep predict --validate --format csv --results none.db
expect "--validate has no csv" one_line "table or jsonl"
printf 'devices: cpu:99\n' >bad.yaml
lockstep predict --validate --plan bad.yaml --results none.db
expect "--validate of a plan that does not run: status 3" [ "$code" -eq 3 ]
expect "why, in run's words" one_line "bad.yaml: .* status 3 .its last message is 'device: cpu:99: this device does not exist"
lockstep predict --validate --durations flops=1e9 --results none.db
expect "nothing measured: one line" one_line "has no usable row; rows must be measured on this machine"
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
