#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# --link as a user sees it: a step takes at least the closed form of what its strategy sends (n devices, P parameters
# of 4 bytes, latency L, bandwidth B); bits, traffic and gate are as without links; rows and lists; refusals. No upper
# bounds on times. Leaves out exact closed forms (test_comm_link, test_link).
set -euo pipefail
. "$(dirname "$0")/lib.sh"

small="--model mlp:784-16-10 --data synthetic:500 --batch 60 --results none --format jsonl"
link=latency=2ms,bandwidth=20MB/s # L = 2 ms; P = 12,730 elements take 2.546 ms
form="lambda x, f: x['time']['step_ms']['median'] >= f(len(x['case']['devices']),
    x['case']['parameters'] * 4 / 20e6 * 1e3, 2)"

# ---- Times, bits, rows -------------------------------------------------------------------------

# shellcheck disable=SC2086
lockstep_ok run $small --strategy mirrored --devices 2,4 --allreduce ring,flat --steps 8 --link $link
rows "a row for each, with its link" "len(rows) == 4 and all(x['case']['link'] == '$link' and
    x['result']['status'] == 'ok' and x['equivalence']['pass'] for x in rows)"
rows "ring takes 2 (n - 1) (L + 4 P / (n B)) or more" "all(($form)(x, lambda n, p, l:
    2 * (n - 1) * (l + p / n)) for x in rows if x['case']['allreduce'] == 'ring')"
rows "flat takes 2 (n - 1) (L + 4 P / B) or more" "all(($form)(x, lambda n, p, l:
    2 * (n - 1) * (l + p)) for x in rows if x['case']['allreduce'] == 'flat')"
keep linked
# shellcheck disable=SC2086
lockstep_ok run $small --strategy mirrored --devices 2,4 --allreduce ring,flat --steps 8
rows "bits and traffic are those without links" "[(x['equivalence']['digest'], x['traffic'],
    x['train']['loss_last']) for x in rows] == [(x['equivalence']['digest'], x['traffic'],
    x['train']['loss_last']) for x in old('linked')]"
rows "no link, no field" "all('link' not in x['case'] for x in rows)"

# The first tower's device holds the variables: n - 1 others fetch them, one after another, and the last one's
# gradients return after everything else.
# shellcheck disable=SC2086
lockstep_ok run $small --strategy towers --devices 2,3 --steps 15 --link $link
rows "towers take n 4 P / B + 2 L or more" "len(rows) == 2 and all(($form)(x, lambda n, p, l:
    n * p + 2 * l) and x['traffic']['bytes_sent'] == x['traffic']['bytes_formula'] for x in rows)"
# shellcheck disable=SC2086
lockstep_ok run $small --cpu-devices 3 --strategy towers --devices cpu:1+cpu:2 --steps 15 --link $link
rows "two towers, variables elsewhere: 3 4 P / B + 2 L or more" \
    "($form)(r, lambda n, p, l: (n + 1) * p + 2 * l)"
# shellcheck disable=SC2086
lockstep_ok verify $small --strategy mirrored,towers --devices 3 --reduce exact --steps 4 --link latency=1ms
rows "exact mode over links has the same bits" "len(rows) == 2 and
    all(x['equivalence']['grade'] == 'exact' and x['equivalence']['pass'] and
    x['case']['link'] == 'latency=1ms' for x in rows) and
    len({x['equivalence']['digest'] for x in rows}) == 1"
# shellcheck disable=SC2086
lockstep_ok verify $small --strategy towers --devices 3 --towers-staged yes,no --colocate-gradients yes,no \
    --steps 4 --link latency=1ms
rows "staged towers and a backward pass elsewhere have their oracle's bits" "len(rows) == 4 and
    all(x['equivalence']['pass'] for x in rows)"
# shellcheck disable=SC2086
lockstep_ok run $small --strategy mirrored --devices 2 --steps 5 --baseline yes --link bandwidth=10MB/s
rows "the baseline has no link" "{x['case']['strategy']: x['case'].get('link') for x in rows} ==
    {'mirrored': 'bandwidth=10MB/s', 'single': None} and all('speedup' in x['time'] for x in rows)"
# shellcheck disable=SC2086
lockstep_ok run $small --strategy single,mirrored --devices 1 --steps 5 --link latency=1ms,none
rows "a list of links; single runs once, without" "sorted((x['case']['strategy'],
    x['case'].get('link', '')) for x in rows) == [('mirrored', ''), ('mirrored', 'latency=1ms'), ('single', '')]"
printf 'strategy: mirrored\ndevices: 2\nsteps: 3\nmodel: poly\nlink: [latency=1ms, "latency=2ms,bandwidth=1GB/s"]\n' >plan.yaml
lockstep_ok run --plan plan.yaml --results none --format jsonl
rows "links of a plan" "sorted(x['case']['link'] for x in rows) == ['latency=1ms', 'latency=2ms,bandwidth=1GB/s']"

# ---- direct ------------------------------------------------------------------------------------

# shellcheck disable=SC2086
lockstep_ok run $small --strategy mirrored --devices 2,3,4 --steps 2 --link latency=10us
rows "auto chooses none that needs shared memory" "all(x['case']['allreduce'] != 'direct' for x in rows)"
# shellcheck disable=SC2086
lockstep run $small --strategy mirrored --devices 2 --allreduce direct,ring --steps 2 --link latency=10us
expect "direct is left out, with a line" [ "$code" -eq 0 -a "$(grep -c 'left out.*direct.*ring' err)" -eq 1 ]
rows "and ring runs" "len(rows) == 1 and r['case']['allreduce'] == 'ring'"

# ---- micro -------------------------------------------------------------------------------------

lockstep_ok micro allreduce --devices 3 --allreduce auto,ring,flat --sizes 120000 --format jsonl \
    --link latency=1ms,bandwidth=100MB/s
rows "micro: no less than the closed form" "len(rows) == 6 and all(m['time_us'] >= {'ring': 4 * 1400,
    'flat': 4 * 2200}[m['kernel']] and m['link'] == 'latency=1ms,bandwidth=100MB/s' and
    m['wrong'] == 0 for m in (x['micro'] for x in rows))"
lockstep_ok micro sendrecv --devices 2 --sizes 100kB --format jsonl --link latency=1ms,bandwidth=100MB/s
rows "micro: both ways at once, no less than one" "r['micro']['time_us'] >= 2000"
lockstep_ok micro broadcast --devices 2 --sizes 100kB --format jsonl --link none
rows "micro: no link" "all('link' not in x['micro'] for x in rows)"

# ---- Refusals ----------------------------------------------------------------------------------

refused() { # refused STATUS WORD ARGUMENTS...
    local status=$1 word=$2
    shift 2
    lockstep "$@"
    expect "status $status" [ "$code" -eq "$status" ]
    expect "one line that says $word" one_line "$word"
    expect "no row" [ ! -s out ]
}
for value in latency latency= latency=abc latency=-1ms latency=11s bandwidth=1GB bandwidth=0GB/s bandwidth=-1GB/s \
    bandwidth=1 bandwidth=infGB/s bandwidth=1B/s loss=0.1 latency=1ms,latency=1ms \
    bandwidth=1GB/s,latency=1us,bandwidth=1GB/s latency=1ms,loss=1 none,latency=1ms nonsense; do
    refused 2 '--link.*latency=50us,bandwidth=1GB/s' run --strategy mirrored --devices 2 --link $value
    ! thorough || refused 2 '--link.*latency=50us,bandwidth=1GB/s' micro allreduce --devices 2 --link $value
done
refused 2 '--link.*latency=50us,bandwidth=1GB/s' micro allreduce --devices 2 --link nonsense
refused 2 '--link.*applies to' run --model poly --link latency=1ms
refused 2 '--link.*applies to' run --model poly --devices cpu:0 --link latency=1ms
refused 2 '--link.*micro gemm' micro gemm --link latency=1ms
refused 2 '--link.*list' micro allreduce --link latency=1ms,none
refused 2 'direct.*ring' run --strategy mirrored --devices 2 --allreduce direct --link latency=1ms
refused 2 'direct.*ring' micro allreduce --devices 2 --allreduce direct --link latency=1ms
finish
