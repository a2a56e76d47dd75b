#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `advise` as a user sees it: the ranking is that of `predict`; where the order changes, it does; what is refused, and
# why; memory; regret on measured rows; refusals. Durations by rate and of profiles. Leaves out how good the advice is.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

small="--model mlp:784-64-10 --batch 64 --devices 4 --durations flops=1e9"
link="--platform flat:latency=20us,bandwidth=1GB/s"

# shellcheck disable=SC2086
lockstep_ok advise $small $link --results none --format jsonl
keep advice
rows "a ranking, best first, of strategies that compute what single does; the others are refused" "
    [x['samples_per_s'] for x in r['ranking']] == sorted((x['samples_per_s'] for x in r['ranking']), reverse=True) and
    {x['case']['strategy'] for x in r['ranking']} >= {'towers', 'mirrored', 'zero', 'ps', 'hybrid', 'pipeline'} and
    {x['case']['strategy'] for x in r['refused']} >= {'local-sgd', 'gossip', 'independent', 'single'} and
    all(x['reason'] for x in r['refused'])"
rows "each says its rate with interval, memory and bound" "all(x['ci95'][0] <= x['samples_per_s'] <= x['ci95'][1] and
    x['memory'] > 0 and x['bound_by'] in ('compute', 'latency', 'bandwidth') for x in r['ranking'])"
rows "the line that checks the first" "r['check'].startswith('lockstep run --strategy ' +
    r['ranking'][0]['case']['strategy']) and '--link latency=20us,bandwidth=1GB/s' in r['check'] and
    '--data synthetic:4096 ' in r['check']"

rows "where a step's time goes adds up; all-reduces of every strategy, every schedule" "
    all(abs(sum(x['shares'].values()) - 1) < 1e-9 and min(x['shares'].values()) > -1e-9 for x in r['ranking']) and
    {'zero', 'mirrored', 'hybrid', 'tensor-parallel'} <= {x['case']['strategy'] for x in r['ranking']
    if '--allreduce halving-doubling' in x['options']} and
    any('gpipe' in x['options'] for x in r['ranking']) and any('1f1b' in x['options'] for x in r['ranking'])"
rows "a guess says so, and hybrid's splits are tried" "r['warnings'] == ['guessed'] and
    any('--hybrid-inner zero' in x['options'] for x in r['ranking'])"
rows "with less memory than the first needs, the best that needs less leads, and so on, until none fits" "
    [(b['value'], b['with']) for b in r['break_even'] if b['axis'] == 'memory'] ==
    (lambda m: [(m[i], next((k for k in range(len(m)) if m[k] < m[i]), None)) for i in range(len(m))
    if m[i] < min(m[:i], default=m[i] + 1)])([x['memory'] for x in r['ranking']])"
regrets=$(python3 -c 'import json, sys
known = {(r["id"], r["n"]): r for r in map(json.loads, open(sys.argv[1]))}
sets = [[known[tuple(a)] for a in question if tuple(a) in known] for question in json.load(open(sys.argv[2])).values()]
print([max(s, key=lambda r: r["published"])["published"] / max(s, key=lambda r: r["predicted"])["published"] - 1
       for s in sets if len(s) > 1])' "$SOURCE_DIR/results/published.jsonl" "$SOURCE_DIR/reports/questions.json")
rows "how good choices on published rows were" "(lambda all, of: len(all) == of['sets'] > 0 and
    abs(max(all) - of['worst']) < 1e-9 and abs(sum(all) / len(all) - of['mean']) < 1e-9)($regrets, r['regret_published'])"

# In bf16 the all-reduce of split layers is implied.
# shellcheck disable=SC2086
lockstep_ok advise $small $link --strategy tensor-parallel --precision bf16 --results none --format jsonl
rows "split layers in bf16" "{x['case']['allreduce'] for x in r['ranking']} == {'owners'}"

# Replicas of stages of split layers, and what predict says of the same case.
eight="--model mlp:784-64-64-10 --batch 64 --devices 8 --durations flops=1e9 --strategy hybrid"
# shellcheck disable=SC2086
lockstep_ok advise ${eight/devices 8/devices 8 --devices-per-host 4} $link --results none --format jsonl
rows "what Megatron-LM's users try first" "r['usual'].startswith('What Megatron-LM') and
    '--hybrid-inner tensor-parallel --hybrid-replicas 2 --hybrid-stages 1 ' in r['usual'] and '--hybrid-outer zero' in r['usual']"
# Where a host has one device there is nothing to split layers over: whole models if they fit, else as few stages as do.
deep_mlp="--model mlp:256-512-512-512-512-10 --batch 16 --devices 4 --strategy zero,hybrid --durations flops=1e12"
# shellcheck disable=SC2086
lockstep advise $deep_mlp $link --results none --format jsonl --progress yes
expect "with progress: status 0" [ "$code" -eq 0 ]
rows "with one device a host, whole models" "'since a host has one device' in r['usual'] and
    ': zero --zero-stage 1 ' in r['usual']"
expect "the ranking by estimates comes first, on standard error" eval "grep -q '^By estimates, before' err &&
    grep -Eq '^ +1 .* ~-[0-9]+\+[0-9]+% +[0-9.]+ [KM]iB ' err"
limit=$(python3 -c 'import json; r = json.loads(open("out").read())["ranking"]
print(min(x["memory"] for x in r if x["case"]["strategy"] == "zero" and "--zero-stage 1 " in x["options"] and x["played"]) - 1)')
# shellcheck disable=SC2086
lockstep_ok advise $deep_mlp $link --results none --format jsonl --memory-limit "$limit"
rows "what fits as estimated, and not as played, is refused" "'zero --zero-stage 1 ' in r['usual'] and
    'does not fit' in r['usual'] and max(x['memory'] for x in r['ranking']) <= $limit"
expect "no ranking by estimates where no progress is shown" eval "! grep -q '^By estimates' err"
# shellcheck disable=SC2086
lockstep_ok advise $deep_mlp $link --results none --format jsonl --memory-limit "$((limit - 100000))"
rows "with less memory, as few stages as fit" "': hybrid --hybrid-inner pipeline --hybrid-replicas 2 ' in r['usual'] and
    '--hybrid-outer zero' in r['usual'] and '1f1b' in r['usual']"

# Where memory is short, a replica's samples are computed in pieces: as few as fit, named in the line to run.
short="--model mlp:256-2048-256-10 --batch 1024 --devices 2 --durations flops=1e12 --strategy mirrored"
# shellcheck disable=SC2086
lockstep_ok advise $short $link --results none --format jsonl
rows "memory to spare: no pieces" "not any('accumulation' in x['options'] for x in r['ranking'])"
whole=$(python3 -c 'import json; print(min(x["memory"] for x in json.loads(open("out").read())["ranking"]))')
# shellcheck disable=SC2086
lockstep_ok advise $short $link --results none --format jsonl --memory-limit "$((whole * 9 / 10))"
rows "memory is short: pieces" "all('--gradient-accumulation-steps ' in x['options'] and x['memory'] <= $whole * 9 // 10
    for x in r['ranking']) and '--gradient-accumulation-steps ' in r['check'] and
    r['ranking'][0]['case']['gradient_accumulation_steps'] > 1"

# shellcheck disable=SC2086
lockstep_ok advise $eight $link --hybrid-inner tensor-parallel --results none --format jsonl
keep advice
options="--hybrid-inner tensor-parallel --hybrid-replicas 2 --hybrid-stages 2 --pipeline-schedule 1f1b --pipeline-microbatches 4 --allreduce ring"
# shellcheck disable=SC2086
lockstep_ok predict $eight $link $options --results none --format jsonl
rows "three axes are tried, and a case has the rate and memory that predict gives" "[(round(x['samples_per_s'], 6), x['memory'] >> 10)
    for x in old('advice')[0]['ranking'] if x['options'] == '--hybrid-replicas 2 --hybrid-stages 2 --pipeline-schedule 1f1b ' +
    '--pipeline-microbatches 4 --tensor-parallel-sequence no --hybrid-outer mirrored --allreduce ring'] ==
    [(round(r['time']['samples_per_s'], 6), max(d['formula']['peak'] for d in r['memory']['devices']) >> 10)]"

# shellcheck disable=SC2086
lockstep_ok advise --model mlp:784-64-10 --batch 64 --devices 5 --durations flops=1e9 $link --results none \
    --label "it's a" --format jsonl
rows "that line is quoted; a reason that all options share is said once, without them" \
    "\" --label 'it'\\\\''s a'\" in r['check'] and
    [x['case']['options'] for x in r['refused'] if x['case']['strategy'] == 'pipeline'] == ['']"

# No data set has samples of this model.
# shellcheck disable=SC2086
lockstep_ok advise --model gpt:1-2-4-3-9 --batch 5 --devices 2 --durations flops=1e9 $link --results none --format json
line=$(python3 -c 'import json; print(json.load(open("out"))["check"])')
eval "lockstep_ok ${line#lockstep} --results none --steps 2"

# An option of the model's own data is no part of the line, whose data are others.
# shellcheck disable=SC2086
lockstep_ok advise --model cifar10 --augment no --batch 4 --devices 2 --durations flops=1e9 $link --strategy mirrored \
    --results none --format json
line=$(python3 -c 'import json; print(json.load(open("out"))["check"])')
eval "lockstep_ok ${line#lockstep} --results none --steps 2"

# The advice on a slow network, and the same cases predicted on both sides of where the order changes.
cat >wide.yaml <<'YAML'
batch: 8
layers:
  - {name: a, params: 4000000, forward: 10ms, backward: 20ms, activations: 64KiB}
  - {name: b, params: 4000000, forward: 10ms, backward: 20ms, activations: 64KiB}
YAML
wide="--model profile:wide.yaml --devices 2 --batch 8 --scaling strong"
# shellcheck disable=SC2086
lockstep_ok advise $wide --platform flat:latency=1us,bandwidth=2GB/s --results none --format json
python3 - out >crossing <<'PY'
import json, sys
advice = json.load(open(sys.argv[1]))
first, second = advice["ranking"][0], advice["ranking"][advice["break_even_with"]]
one = [b for b in advice["break_even"] if b["axis"] == "bandwidth"][0]
print(f"leads={one['second_leads']} value={one['value']:.0f}")
for name, case in ("first", first), ("second", second):
    print(f"{name}='--strategy {case['case']['strategy']} {case['options']}'")
PY
cat crossing
. ./crossing
for factor in 0.9 1.1; do
    at=$(python3 -c "print(f'{$value * $factor / 1e9:.9f}GB/s')")
    for name in "$first" "$second"; do
        # shellcheck disable=SC2086
        lockstep_ok predict $wide $name --platform flat:latency=1us,bandwidth=$at --results none --format jsonl
        cat out >>"at$factor"
    done
done
cat at0.9 at1.1 >out
rows "below the bandwidth one leads, above it the other" "len(rows) == 4 and (lambda t: (t[1] < t[0]) ==
    ('$leads' == 'below') and (t[3] < t[2]) == ('$leads' == 'above'))([x['time']['step_ms']['median'] for x in rows])"

# Likewise along devices: predicted where it says that another one leads, and on half as many.
{
    echo "batch: 16" && echo "layers:"
    for i in a b c d e f g h; do
        echo "  - {name: $i, params: 1000000, forward: 5ms, backward: 10ms, activations: 64KiB}"
    done
} >eight.yaml
deep="--model profile:eight.yaml --batch 16 --scaling strong --platform flat:latency=300us,bandwidth=2GB/s"
# shellcheck disable=SC2086
lockstep_ok advise $deep --devices 2 --strategy mirrored,zero --results none --format json
python3 - out >crossing <<'PY'
import json, sys
advice = json.load(open(sys.argv[1]))
found = [b for b in advice["break_even"] if b["axis"] == "devices"][0]
print(f"leads={found['second_leads']} value={found['value']:.0f}")
for name, i in ("first", 0), ("second", found["with"]):
    case = advice["ranking"][i]
    print(f"{name}='--strategy {case['case']['strategy']} {case['options']}'")
PY
cat crossing
. ./crossing
for name in "$first" "$second"; do
    # shellcheck disable=SC2086
    lockstep_ok predict $deep $name --devices "$((value / 2)),$value" --results none --format jsonl
    cat out >>by-devices
done
mv by-devices out
rows "from so many devices the other one leads, on half as many the first" "'$leads' == 'above' and
    (lambda t: t[0] <= t[2] and t[3] < t[1])([x['time']['step_ms']['median'] for x in rows])"

# shellcheck disable=SC2086
lockstep_ok advise $small $link --results none --format jsonl --memory-limit 1MB --zero-stage 1
rows "what needs more memory is refused and says how much; options that are given stay" "all(x['memory'] <= 1e6
    for x in r['ranking']) and any('bytes' in x['reason'] and x['case']['devices'] for x in r['refused']) and
    {x['case']['zero_stage'] for x in r['ranking'] + r['refused'] if 'zero_stage' in x['case']} == {1}"
# shellcheck disable=SC2086
lockstep_ok predict ${small/devices 4/devices 1} --strategy single --results none --format jsonl
keep alone
# shellcheck disable=SC2086
lockstep_ok advise $small $link --results none --format jsonl
rows "one device alone is beside them" "abs(r['one_device_samples_per_s'] /
    old('alone')[0]['time']['samples_per_s'] - 1) < 1e-9"
# shellcheck disable=SC2086
lockstep_ok advise $small $link --results none
expect "and in words; a guess is no certainty" grep -q '^One device alone: .* number 1 would be .* times as fast' out
expect "who leads, and by how much" grep -q '^Number 1 (.*) would be .* times as fast as number' out
expect "the batch, and whose" grep -q '^mlp:784-64-10, batch 64 in all, devices 4' out
expect "what was searched" grep -q '^Of [0-9]* combinations that were searched' out
# shellcheck disable=SC2086
lockstep advise $small $link --results none --memory-limit 1KB
expect "nothing fits: status 3" [ "$code" -eq 3 ]
expect "why, and what would do" one_line "no combination of options fits into a device's memory (tried: [0-9]*; limit: 1000 B); the smallest, --strategy .*, needs .* KiB; "
expect "and for each strategy" grep -q '^refused: mirrored ' out
expect "in 80 columns" python3 -c "import sys; sys.exit(max(len(line.rstrip('\n')) for line in open('out')) > 80)"

# More devices than are all played: those that lead are.
# shellcheck disable=SC2086
lockstep_ok advise ${small/devices 4/devices 32} $link --results none --format jsonl
rows "of many devices the first six are played, others estimated, in an interval" "all(x['played']
    for x in r['ranking'][:6]) and not all(x['played'] for x in r['ranking']) and
    all(x['ci95'][0] <= 0.95001 * x['samples_per_s'] and x['ci95'][1] >= 1.04999 * x['samples_per_s']
    for x in r['ranking'] if not x['played'])"

# What was played and what was estimated are as predict says, hosts' shared ports included.
two="--model mlp:784-256-10 --batch 64 --devices 8 --durations flops=1e11 --strategy mirrored --platform two-level:host=1us@10GB/s,net=5us@1GB/s --devices-per-host 4 --results none"
# shellcheck disable=SC2086
if "$LOCKSTEP" predict $two --quiet >/dev/null 2>&1; then
    # shellcheck disable=SC2086
    lockstep_ok advise $two --format jsonl
    keep advice
    # shellcheck disable=SC2086
    lockstep_ok predict $two --allreduce ring,halving-doubling,tree,hierarchical,flat --format jsonl
    rows "an estimate's interval has what predict says" "(lambda said: len(old('advice')[0]['ranking']) > 4 and
        all(x['ci95'][0] <= said[x['case']['allreduce']] * (1 + 1e-9) and said[x['case']['allreduce']] <= x['ci95'][1] * (1 + 1e-9)
        for x in old('advice')[0]['ranking'] if 'auto' in x['options']))({x['case']['allreduce']: x['time']['samples_per_s'] for x in rows})"
    expect "where the line that checks differs" grep -q '"check_differs":"its --link is the network between hosts' advice.kept
fi

refused() { # WORD ARGUMENTS...
    local word=$1
    shift
    lockstep advise --results none "$@"
    expect "refused with 2: $*" [ "$code" -eq 2 ]
    expect "in one line, with $word: $*" one_line "$word"
}
refused --platform --devices 2

# More micro-batches, one forward and one backward: fits where nothing else does.
deep_gpt="--model gpt:4-4-32-32-64 --batch 32 --devices 4 --strategy pipeline --durations flops=1e9"
# shellcheck disable=SC2086
lockstep_ok predict $deep_gpt $link --pipeline-microbatches 32 --pipeline-schedule 1f1b --results none --format jsonl
most=$(python3 -c 'import json; print(max(d["formula"]["peak"] for d in json.loads(open("out").read())["memory"]["devices"]))')
# shellcheck disable=SC2086
lockstep_ok advise $deep_gpt $link --results none --format json --memory-limit "$most"
expect "as many micro-batches as samples are searched" grep -q -- '--pipeline-schedule 1f1b --pipeline-microbatches 32' out

# A strategy that is named is ranked, and marked; the profile's batch is per device.
lockstep_ok advise --model mlp:784-64-10 --devices 2 --batch 64 --strategy local-sgd,mirrored --durations flops=1e9 \
    --platform flat:latency=1us --results none
expect "a strategy of grade none is ranked if it is named" grep -Eq '^ +[0-9]+ local-sgd\*' out
expect "and the mark is explained" grep -q '^\*: its grade is none' out
# shellcheck disable=SC2086
lockstep_ok advise --model profile:wide.yaml --devices 2 --platform flat:latency=1us --results none
expect "a profile's batch is per device, its memory not all" eval "grep -q 'batch 8 per device' out &&
    grep -q '^memory >=: ' out"
lockstep_ok advise --model profile:wide.yaml --devices 4 --platform flat:latency=1us --results none
expect "each limit of memory has one leader" eval "grep -q '^memory below ' out &&
    [ -z \"\$(grep -o '^memory below [^:]*' out | uniq -d)\" ]"

# Every schedule with each number of chunks, though zero bubble leads interleaved with the first one: chunks of a part.
{ printf 'name: parts\nbatch: 32\nsource: test\nlayers:\n'
  for i in {1..16}; do echo "  - {name: l$i, params: 9, forward: 16ms, backward: 32ms, weights: 16ms, activations: 64}"; done
} >parts.yaml
lockstep_ok advise --model profile:parts.yaml --strategy pipeline --devices 4 --platform flat:latency=1us --batch 8 \
    --results none --format jsonl
rows "chunks of 2, 3 and 4, and the last lead" "{x['case'].get('pipeline_chunks') for x in r['ranking']} >= {2, 3, 4} and
    r['ranking'][0]['case']['pipeline_chunks'] == 4 and r['ranking'][1]['case']['pipeline_schedule'] == 'zb-h2'"

# An interrupt: the ranking so far, or that there is none; steps of 64 devices that take a while.
code=0
timeout --preserve-status -s INT 1 "$LOCKSTEP" advise --model gpt:24-32-2048-2048-50257 --devices 64 --batch 256 \
    --strategy hybrid --durations flops=1e14 --platform flat:bandwidth=1GB/s --results none >out 2>err || code=$?
expect "an interrupt ends it with 130" [ "$code" -eq 130 ]
expect "and says so" grep -qi 'interrupted' out err
lockstep_ok advise --help
expect "the help says which strategies are asked for by default" grep -q -- '--strategy .*default: all)' out
expect "and how many steps" grep -q -- '--steps N (default: 5; unit: steps)' out
expect "and no option that is refused" eval '! grep -E -- "^  --(link|ranks|epochs|save|baseline|plan|columns) " out'
for option in link ranks epochs save baseline plan columns; do
    refused "option: --$option: " --devices 2 --platform flat:latency=1us --$option 1
done
lockstep_ok advise --platform list
expect "--platform list lists" grep -q '^dgx-a100$' out
refused "only --strategy can have a list" --devices 2,4 --platform flat:latency=1us
refused "does not train" --devices 2 --platform flat:latency=1us --baseline
refused "table, json or jsonl" --devices 2 --platform flat:latency=1us --format csv

finish
