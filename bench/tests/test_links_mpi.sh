#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# --link between MPI ranks, for each strategy: a step takes at least the time of its messages (latency L, bandwidth B,
# P parameters of 4 bytes); bits and traffic are as without links; micro; refusals. No upper bounds on times. Leaves
# out ports (test_comm_mpi_link).
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"

data="--data synthetic:500 --batch 60 --results none --format jsonl"
short="--steps 8 --warmup 2 --blocks 1 $data"
small="--model mlp:784-16-10 $short"
link=latency=2ms,bandwidth=20MB/s # L = 2 ms; P = 12,730 elements take 2.546 ms
form="lambda x, f: x['time']['step_ms']['median'] >= f(len(x['case']['devices']),
    x['case']['parameters'] * 4 / 20e6 * 1e3, 2)"
bits="sorted((x['equivalence']['digest'], json.dumps(x['traffic']), x['train']['loss_last']) for x in"

# twice WHAT COUNT N ARGUMENTS...: COUNT rows with links, then the same bits and traffic without.
twice() {
    local what=$1 count=$2
    shift 2
    ranks_ok "$@" --link $link
    rows "$what: rows with their link" "len(rows) == $count and all(x['case']['link'] == '$link' and
        x['result']['status'] == 'ok' and x['equivalence']['oracle'] == 'same bits' for x in rows)"
    rows "$what: each step has a message there and one back" "all(($form)(x, lambda n, p, l: 2 * l) for x in rows)"
    keep linked
    ranks_ok "$@"
    rows "$what: bits and traffic are those without links" "$bits rows) == $bits old('linked'))"
}

# shellcheck disable=SC2086
ranks_ok 2 run --strategy mirrored --devices 2 $small --link $link
rows "auto is none that needs shared memory, or that no link delays" "r['case']['allreduce'] not in ('direct', 'library')"
# shellcheck disable=SC2086
twice "mirrored, 2 ranks of 2" 3 2 run --strategy mirrored --devices 2 --allreduce ring,flat,halving-doubling $small
rows "no less than the closed forms" "all(($form)(x, lambda n, p, l: {'ring': 2 * (n - 1) *
    (l + p / n), 'flat': 2 * (l + p)}.get(x['case']['allreduce'], 0)) for x in old('linked'))"
if thorough; then
    # shellcheck disable=SC2086
    twice "mirrored, 3 ranks, many buckets" 1 3 run --strategy mirrored --allreduce tree --bucket-bytes 0 $small
    # shellcheck disable=SC2086
    twice "pipeline" 2 2 run --strategy pipeline --pipeline-schedule gpipe,1f1b --model mlp:784-16-16-10 $short
    # shellcheck disable=SC2086
    twice "exact mode" 1 2 run --strategy mirrored --reduce exact $small
    # shellcheck disable=SC2086
    twice "servers on workers" 1 2 run --strategy ps --ps-colocate --ps-servers 2 $small
fi
# shellcheck disable=SC2086
twice "a server apart" 2 2 run --strategy ps --reduce fast,exact $small
# shellcheck disable=SC2086
twice "hybrid" 2 2 run --strategy hybrid --devices 2 --hybrid-inner model-parallel,pipeline $small
# shellcheck disable=SC2086
ranks_ok 3 run --strategy ps --ps-mode async,ssp $small --link $link
rows "asynchronous workers wait for the links, too" "len(rows) == 2 and all(x['result']['status'] == 'ok' and
    ($form)(x, lambda n, p, l: 2 * l) for x in rows)"
# A silence caused by a link is not a rank's.
# shellcheck disable=SC2086
ranks_ok 2 run --strategy mirrored $data --model mlp:784-16-10 --steps 1 --warmup 0 --gate-steps 0 --timeout 1s --link latency=1500ms
rows "a latency above --timeout" "r['result']['status'] == 'ok' and r['time']['step_ms']['median'] >= 3000"

ranks_ok 2 micro allreduce --allreduce auto,ring,flat --sizes 120000 --format jsonl --link latency=1ms,bandwidth=100MB/s
rows "micro: no less than the closed form" "len(rows) == 6 and all(m['time_us'] >= {'ring': 2 * 1600,
    'flat': 2 * 2200}.get(m['kernel'], 0) and m['link'] == 'latency=1ms,bandwidth=100MB/s' and m['wrong'] == 0
    for m in (x['micro'] for x in rows))"
ranks_ok 2 micro sendrecv --sizes 100kB --format jsonl --link latency=20ms,bandwidth=100MB/s
rows "micro: both ways at once, no less than one" "r['micro']['time_us'] >= 21000"

# What a message takes is said as --link, by sendrecv of 8 bytes and 4 MiB or, after sendrecv, of its own sizes.
for op in "allreduce --sizes 4KiB --allreduce ring" "broadcast --sizes 4KiB" "sendrecv --sizes 8,1MiB"; do
    for _ in {1..10}; do # on a busy machine small messages may take as long as large ones
        # shellcheck disable=SC2086
        ranks_ok 2 micro $op
        grep -q '^no --link for run and predict: large messages took no longer' "$work/out" || break
    done
    expect "a line for one size of $op" [ "$(grep -Ec '^ +[0-9]+ ' "$work/out")" -eq "$(grep -o , <<<"$op," | wc -l)" ]
    said=$(sed -n 's/^a message between neighbours, for run and predict: --link //p' "$work/out")
    lockstep run --dry-run --strategy mirrored --ranks 2 --link "$said"
    expect "which run takes" [ "$code:${said:+said}" = 0:said ]
done

refused() { # refused WORD ARGUMENTS...
    local word=$1
    shift
    ranks 2 "$@"
    expect "status 2" [ "$code" -eq 2 ]
    expect "one line, of rank 0, that has $word" one_line "$word"
    expect "no row" [ ! -s "$work/out" ]
}
refused 'library.*--link' run --strategy mirrored --allreduce library --link latency=1ms
refused 'library.*ring' micro allreduce --allreduce library --link latency=1ms
refused 'direct.*ring' run --strategy mirrored --allreduce direct --link latency=1ms
refused 'direct.*ring' micro allreduce --allreduce direct --link latency=1ms
refused '--link.*latency=50us' run --strategy mirrored --link latency=abc
finish
