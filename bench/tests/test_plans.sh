#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Plans as a user sees them: --dry-run lists each shipped plan, trains nothing and creates no file; one runs
# completely, in the time that it states; --resume skips what has a row, case by case and repeat by repeat, also after
# an interrupt; a time budget sets the number of steps; `all` means every strategy and every number of devices.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
plans=$library/../plans

# ---- Shipped plans -----------------------------------------------------------------------------

for plan in "$plans"/*.yaml; do
    name=${plan##*/}
    lockstep run --plan "$plan" --dry-run --format jsonl
    expect "$name: --dry-run ends well" [ "$code" -eq 0 ]
    rows "$name: each case has seconds and memory" "len(rows) >= 4 and all(
        r['estimate']['seconds'] > 0 and r['estimate']['memory_bytes'] > 0 for r in rows)"
    expect "$name: says in all how long" grep -qE '^lockstep: dry run: cases: [0-9]+; about [0-9.]+ (s|min|h), ' err
    expect "$name: its first line does, too" grep -qE '^# Up to [0-9]+ s on 2 cores' <(head -n 1 "$plan")
done
expect "--dry-run makes no file" [ "$(find . -name '*.db*')" = "" ]
lockstep run --plan "$plans/strategies.yaml" --dry-run
expect "lines of a dry run fit 80 columns" [ "$(awk 'length > 80' out)" = "" ]
COLUMNS=60 lockstep run --plan "$plans/strategies.yaml" --dry-run
expect "or 60" [ "$(awk 'length > 60' out)" = "" ]
expect "it has a line a case" [ "$(grep -c "^ *[0-9]* " <(sed "/^$/,\$d" out))" -eq 16 ]
expect "then what each device needs, the largest use first" \
    grep -qE '^ +cpu:0\+cpu:1: [0-9.]+ [KMG]iB each \((activations|parameters|optimizer) ' out

expect "beside its name" grep -qx 'case 3: model mlp:784-128-10, strategy towers, devices 2 cpu' out
lockstep run --model mlp --dry-run --steps 10000000
expect "a long time in minutes or hours" grep -qE '^lockstep: dry run: cases: 1; about [0-9.]+ (min|h), ' err

lockstep run --model poly --dry-run --until-precision 1%
expect "a dry run says that there may be more blocks" grep -q ' (longer, if --until-precision needs more steps), at most ' err

start=$SECONDS
lockstep run --plan "$plans/quick.yaml" --format jsonl
expect "quick.yaml runs" [ "$code" -eq 0 ]
rows "with a row a case and the baseline" "len(rows) == 4 and all(r['result']['status'] == 'ok' for r in rows)"
stated=$(sed -nE '1s/^# Up to ([0-9]+) s.*/\1/p' "$plans/quick.yaml")
expect "it states its time" [ "$stated" -gt 0 ]
! thorough || expect "in no more than six times what it states" [ $((SECONDS - start)) -le $((6 * stated)) ]

# ---- Resume -------------------------------------------------------------------------------------

cat >some.yaml <<'P'
defaults: {model: poly, steps: 20, warmup: 2}
cases:
  - {seed: [1, 2]}
  - {strategy: mirrored, devices: 2}
repeat: 2
P
db=some.db
lockstep run --model poly --steps 20 --warmup 2 --seed 2 --results $db --format jsonl
expect "a case of the plan runs by itself" [ "$code" -eq 0 ]
lockstep run --plan some.yaml --resume --results $db --format jsonl
rows "and one of its repeats is left out" "len(rows) == 5 and
    sorted(str(r['case']['seed']) + r['case']['strategy'] for r in rows) ==
    ['1mirrored', '1mirrored', '1single', '1single', '2single']"
lockstep run --plan some.yaml --resume --results $db --format jsonl
expect "nothing is left" [ "$code/$(wc -c <out)" = 0/0 ]
lockstep run --plan some.yaml --resume --results $db --cores-per-device 2 --dry-run --format jsonl
rows "rows of other cores do not count" "len(rows) == 6"
lockstep run --plan some.yaml --resume --results $db --label other --dry-run --format jsonl
rows "nor do rows of another label" "len(rows) == 6"
printf 'cases:\n  - {model: poly, steps: 4, label: ["a, b", c]}\n' >labels.yaml
lockstep_ok run --plan labels.yaml --results labels.db --format jsonl
rows "a case has its own label" "[x['label'] for x in rows] == ['a, b', 'c']"
lockstep run --plan labels.yaml --results labels.db --resume --label c --dry-run
expect "--resume asks for the label, too" grep -q '1 of 1 cases have a row in labels.db already' err
precise="run --model poly --steps 40 --max-time 5s --results added.db --until-precision"
lockstep $precise 50% --format jsonl
rows "a row has the steps that were added" "r['case']['steps'] > r['case']['steps_asked'] == 40"
for asked in "50% 1" "40% 0"; do
    lockstep $precise ${asked% *} --resume --dry-run
    expect "--resume knows it by the steps asked for: $asked" grep -q "${asked#* } of 1 cases have a row" err
done
sed -i 's/repeat: 2/repeat: 3/' some.yaml
lockstep run --plan some.yaml --resume --results $db --dry-run --format jsonl
rows "a third repeat is left" "len(rows) == 3"

printf 'defaults: {model: mlp, data: "synthetic:6000", warmup: 2}\ncases:\n  - {steps: 1000000}\n' >long.yaml
"$LOCKSTEP" run --plan long.yaml --results cut.db --format jsonl --progress yes >cut.out 2>cut.err &
process=$!
for _ in $(seq 1200); do ! grep -q ', timing, ' cut.err || break; sleep 0.05; done
kill -INT $process
code=0
wait $process || code=$?
expect "an interrupt ends it with 130" [ "$code" -eq 130 ]
expect "and its row is there" [ "$(wc -l <cut.out)" -eq 1 ]
lockstep run --plan long.yaml --resume --results cut.db --dry-run --format jsonl
rows "but the case is left" "len(rows) == 1"

# ---- Budget, exclude, all ------------------------------------------------------------------------

# A model so small that what is around its timed steps fits the budget on a busy machine, too.
printf 'defaults: {model: "mlp:32-16-4", data: "synthetic:6000"}\ncases:\n  - {seed: [1, 2]}\nbudget: 3s\n' >budget.yaml
start=$EPOCHREALTIME
lockstep run --plan budget.yaml --results none --format jsonl
took=$(((${EPOCHREALTIME/[.,]/} - ${start/[.,]/}) / 1000000))
rows "a budget gives all cases of a model the same steps" \
    "len(rows) == 2 and len({r['case']['steps'] for r in rows}) == 1 and r['case']['steps'] > 100"
expect "and ends long before the time of all steps of a larger budget ($took s)" [ "$took" -le 60 ]
start=$EPOCHREALTIME
lockstep run --plan budget.yaml --steps 50 --results none --until-precision 0.01% --max-time 100s --format jsonl
took=$(((${EPOCHREALTIME/[.,]/} - ${start/[.,]/}) / 1000000))
rows "--until-precision adds blocks" "len(rows) == 2 and all('imprecise' in r['result']['warnings'] and
    r['time']['step_ms']['n'] + r['time'].get('discarded', 0) == r['case']['steps'] > r['case']['steps_asked']
    for r in rows)"
expect "while there is time in the budget ($took s)" [ "$took" -le 60 ]
lockstep run --plan budget.yaml --dry-run --columns strategy
expect "a dry run has no rows' keys" eval '[ "$code" -eq 2 ] && one_line "--dry-run: cannot be used with --columns"'
sed -i 's/seed: \[1, 2\]/steps: 30/' budget.yaml
lockstep run --plan budget.yaml --results none --format jsonl
rows "but never more steps than are given" "len(rows) == 1 and r['case']['steps'] == 30"

# A data option in two mappings is at two positions, but equal: one case can be the other's baseline.
mkdir zeros
for part in data_batch_{1..5} test_batch; do head -c $((10 * 3073)) /dev/zero >zeros/$part.bin; done
cat >apart.yaml <<'P'
defaults: {model: cifar10, data: "cifar10:zeros", steps: 2, warmup: 0, gate-steps: 0, batch: 4, results: none}
cases:
  - {strategy: single, augment: no}
  - {strategy: mirrored, devices: 2, augment: no}
P
lockstep run --plan apart.yaml --format jsonl
rows "a plan's single is the baseline of its other cases" "len(rows) == 2 and rows[1]['time']['speedup'] > 0"

printf 'model: poly\nlr: [0.1, 0.2]\nlr-schedule: [constant, linear]\nexclude: [{lr-schedule: constant}, {seed: 9},
    {optimizer: adam, data: synthetic, lr: 0.1}]\n' >none.yaml
lockstep run --plan none.yaml --dry-run --format jsonl
expect "only an exclusion of nothing is said" [ "$(grep -o 'none.yaml:.*: no case matches this' err)" = 'none.yaml:4:36: no case matches this' ]
rows "the model's own values are excluded by their names" \
    "[(r['case']['lr_schedule'], r['case']['lr']) for r in rows] == [('linear', 0.2)]"

lockstep run --model poly --strategy all --devices 2 --steps 2 --dry-run --format jsonl
rows "--strategy all" "{'independent', 'towers', 'mirrored', 'ps', 'local-sgd'} <=
    {r['case']['strategy'] for r in rows} and 'single' not in {r['case']['strategy'] for r in rows}"
expect "with a line for what cannot run" grep -q '^lockstep: left out: .*--strategy single --devices 2' err
lockstep_ok run --model poly --strategy all --devices 2,2 --steps 2 --dry-run --quiet
lockstep run --model poly --strategy mirrored --devices all --cpu-devices 3 --dry-run --format jsonl
rows "--devices all" "[len(r['case']['devices']) for r in rows] == [1, 2, 3]"

# ---- What is refused takes no time --------------------------------------------------------------

tight="--model mlp --data synthetic:2000 --memory fraction=1e-6"
lockstep run $tight --dry-run
expect "a case that is refused has no time" eval '[ "$code" -eq 3 ] && grep -qx \
    "lockstep: dry run: 1 of 1 cases refused; nothing was trained" err'
lockstep run ${tight/mlp/mlp,poly} --dry-run
seconds=$(awk '$2 == "poly" && !/case/ {print $5; exit}' out) # of the case that runs, rounded in the summary
expect "nor a share of the others: $seconds s" grep -qE \
    "^lockstep: dry run: 1 of 2 cases refused; the others need about (${seconds%.*}|$((${seconds%.*} + 1))) s, at most [0-9.]+ MiB of memory" err
printf 'model: poly\nlr: [0.1, 1e-1, .1, 0.10]\nsteps: 2\nwarmup: 0\n' >spelled.yaml
lockstep run --plan spelled.yaml --dry-run
expect "four spellings of one rate are named" grep -q -- '--lr 0.1 = 1e-1 = .1 = 0.10: this case is listed 4 times and runs once' err
finish
