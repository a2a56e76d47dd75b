#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The program under mpirun, 1 to 4 ranks with one and two devices each: equal to `single` and to the oracle, rows of
# all ranks, traffic by the formula, refusals printed once, ranks that differ or fail. No tolerance. Leaves out lost
# ranks (test_faults.sh), several hosts, and speed.
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"
small="--data synthetic:500 --batch 60 --steps 6 --warmup 2 --results none --format jsonl"
once="--blocks 1 --waterfall no"

case $kind in hydra) mpi=MPICH ;; *) mpi='Open MPI' ;; esac

refused() { # refused STATUS WORD N ARGUMENTS...
    local status=$1 word=$2
    shift 2
    ranks "$@"
    expect "status $status" [ "$code" -eq "$status" ]
    expect "one line, of rank 0, that has $word" one_line "$word"
    expect "no row" [ ! -s "$work/out" ]
}

# ---- The same bits on any ranks ---------------------------------------------------------------

lockstep_ok verify --strategy single --reduce exact $small
keep single
lockstep_ok verify --strategy mirrored --devices 4 --allreduce ring $small
keep ring4
for n in 2 1 4; do # 3: with batch statistics, and every algorithm, below
    [ $n = 2 ] || thorough || break
    ranks_ok $n run --strategy mirrored --devices 1,2 --reduce exact,fast $small $once
    rows "$n ranks of 1 and 2: equal, exact with single's digest" "all(x['result']['status'] == 'ok' and
        x['equivalence']['pass'] and x['equivalence']['oracle'] == 'same bits' for x in rows) and
        [x['equivalence']['digest'] for x in rows if x['case']['reduce'] == 'exact'] == [digest('single')] * 2"
    rows "$n ranks: each number of devices in each mode" "sorted((len(x['case']['devices']), x['case']['reduce'])
        for x in rows) == [($n, 'exact'), ($n, 'fast'), (2 * $n, 'exact'), (2 * $n, 'fast')]"
    rows "$n ranks of 1 and 2: the row has all of them" "all(
        c['ranks'] == $n and c['hosts'] == 1 and c['comm'] == ('mpi' if $n > 1 else 'thread') and
        len(c['devices']) == len(c['batch_per_device']) == len(x['provenance']['cores_per_device']) and
        sum(c['batch_per_device']) == 60 and
        [d['device'] for d in x['memory']['devices']] == c['devices']
        for x in rows for c in [x['case']])"
    rows "$n ranks of 1 and 2: traffic by the formula" "all(
        (len(x['case']['devices']) == 1 and 'traffic' not in x) or
        (x['traffic']['bytes_sent'] == x['traffic']['bytes_formula'] > 0 and
         x['traffic']['messages_sent'] == x['traffic']['messages_formula'] > 0) for x in rows)"
done
ranks_ok 2 verify --strategy mirrored --devices 2 --allreduce ring $small
rows "mpirun's own variables are not the user's" "'environment' not in r['provenance']"
rows "verify has no times" "'time' not in r and r['equivalence']['pass']"
rows "an order is the same in one process and in two" "r['equivalence']['digest'] == digest('ring4')"
ranks_ok 3 run --strategy mirrored --allreduce flat,tree,halving-doubling,ring,hierarchical,direct --bucket-bytes 0 $small $once
rows "every algorithm, with many buckets" "len(rows) == 6 and
    all(x['equivalence']['oracle'] == 'same bits' and
        x['traffic']['bytes_sent'] == x['traffic']['bytes_formula'] > 0 and
        x['traffic']['messages_sent'] == x['traffic']['messages_formula'] > 0 for x in rows)"
ranks_ok 2 run --strategy mirrored --devices 2 --reduce exact,fast --model mlp:784-16-10 \
    --data synthetic:130 --batch 50 --epochs 2 --warmup 0 --results none --format jsonl $once
rows "an epoch's smaller batch" "len(rows) == 2 and all(x['equivalence']['pass'] and
    x['traffic']['bytes_sent'] == x['traffic']['bytes_formula'] for x in rows)"

# Batch statistics over all ranks: bits of `single` in exact mode, of the oracle in fast mode; an epoch's last batch
# has 4, 1 or 2 samples per rank.
resnet="--model resnet:8 --data synthetic:20 --batch 8 --epochs 1 --warmup 0 --sync-bn yes --results none --format jsonl"
lockstep_ok verify --strategy single --reduce exact $resnet
keep statistics
for n in 3 2; do
    [ $n = 3 ] || thorough || break
    ranks_ok $n run --strategy mirrored --devices 1 --reduce exact,fast $resnet --gate-steps 3 $once
    rows "$n ranks with one batch's statistics" "len(rows) == 2 and all(x['case']['sync_bn'] and
        x['equivalence']['pass'] and x['equivalence']['steps'] == 3 and
        x['equivalence']['oracle'] == 'same bits' for x in rows) and
        [x['equivalence']['digest'] for x in rows if x['case']['reduce'] == 'exact'] ==
        [digest('statistics')]"
    rows "$n ranks: statistics' traffic by the formula" "all(
        x['traffic']['bytes_sent'] == x['traffic']['bytes_formula'] > 0 and
        x['traffic']['messages_sent'] == x['traffic']['messages_formula'] for x in rows)"
done
# The norm of the gradient, where each process holds a share of it, or some layers of a replica.
norm="--clip 0.05 --gate-steps 2 --reduce exact $small $once"
lockstep_ok run --strategy single $norm
keep norm
ranks_ok 2 run --strategy zero,hybrid --devices 2 --zero-stage 3 $norm
rows "the norm of the gradient is single's, on all ranks" "len(rows) == 2 and all(x['equivalence']['digest'] ==
    digest('norm') and x['train']['gradient_norm'] == old('norm')[0]['train']['gradient_norm'] > 0.05 for x in rows)"
if thorough; then
    # Of replicas with a norm each, that of the one that has the last step's only sample: of rank 1.
    ranks_ok 2 run --strategy independent --baseline yes --model mlp:784-16-10 --data synthetic:61 --batch 60 --epochs 1 \
        --warmup 0 --blocks 1 --gate-steps 0 --optimizer sgd --lr 1e-30 --clip 9 --results none --format jsonl
    rows "the norm of another rank" "len(rows) == 2 and len({x['train']['gradient_norm'] for x in rows}) == 1"
    ranks_ok 2 run --strategy mirrored --devices 2 --memory growth,fraction=0.3 --cores-per-device 1 $small $once
    rows "one host's ranks share their memory, whatever its policy" "len(rows) == 2 and all(x['equivalence']['oracle'] ==
        'same bits' and x['case']['allreduce'] == 'direct' and all(d['communication'] == 0
        for d in x['memory']['devices']) for x in rows)"
fi

# A library has its own reduction order: the sum is near that of the slices, and the update is as in `single`.
ranks_ok 3 run --strategy mirrored --allreduce library $small $once
rows "the library's sum is judged" "r['equivalence']['pass'] and
    0 <= r['equivalence']['library_rel'] <= 1e-5 and 'traffic' not in r"
if thorough; then
    ranks_ok 2 verify --strategy mirrored --allreduce library --model cifar10 --data synthetic:60 --batch 8 --steps 6 \
        --warmup 0 --results none --format jsonl
    rows "weight decay is in it once" "r['equivalence']['pass'] and r['equivalence']['library_rel'] <= 1e-5"
fi
ranks 3 verify --strategy mirrored --allreduce library,flat,canonical --inject bitflip=2:3 $small
expect "a flipped bit is found on whatever rank" [ "$code" -eq 1 ]
rows "by each judge" "len(rows) == 2 and all(x['result']['status'] == 'failed' and
    'step 3' in x['result']['reason'] for x in rows)"

# ---- What ranks find in the environment --------------------------------------------------------

# oneDNN prints in all ranks; malloc's limit is rank 1's alone.
export ONEDNN_VERBOSE=1
code=0
verify=("$LOCKSTEP" verify --strategy mirrored $small)
"$launcher" 3 "${verify[@]}" : env MALLOC_ARENA_MAX=1 "${verify[@]}" : "${verify[@]}" >out 2>all </dev/null || code=$?
unset ONEDNN_VERBOSE
expect "status 0" [ "$code" -eq 0 ]
rows "rows and nothing else; what differs is said with the ranks" "[x['provenance']['environment'] for x in rows] ==
    [{'ONEDNN_VERBOSE': '1', 'MALLOC_ARENA_MAX': 'unset (ranks 0+2), 1 (ranks 1)'}]"
collect_rows

# ---- Rows -------------------------------------------------------------------------------------

ranks_ok 2 run --strategy mirrored,independent --baseline yes $small --blocks 1
rows "timed, with a baseline of rank 0" "sorted((x['case']['strategy'], x['case']['ranks'])
    for x in rows) == [('independent', 2), ('mirrored', 2), ('single', 1)] and
    all(x['time']['step_ms']['n'] == 6 and 'speedup' in x['time'] for x in rows)"
rows "efficiency counts the devices of all ranks" "all(abs(x['time']['speedup'] /
    len(x['case']['devices']) / x['time']['efficiency'] - 1) < 1e-9 for x in rows)"
rows "what each rank held" "all([x['host'] for x in r['provenance']['ranks']] ==
    [r['provenance']['host']] * 2 and r['provenance']['mpi'].startswith('$mpi ') and
    [c for x in r['provenance']['ranks'] for c in x['cores']] == r['provenance']['cores']
    for r in rows if r['case']['ranks'] == 2)"
rows "ranks share cores where there are too few, and say so" "all(
    len(set(map(str, r['provenance']['cores']))) == min(2, $(nproc)) and
    r['provenance']['oversubscribed'] == ($(nproc) < 2) for r in rows if r['case']['ranks'] == 2)"
rows "memory to the byte" "all(d['formula'][k] == d[k] for x in rows for d in x['memory']['devices']
    for k in ('parameters', 'gradients', 'optimizer', 'activations', 'communication', 'workspace',
              'peak'))"
if [ "$(nproc)" -ge 2 ]; then
    MPIRUN_FLAGS="--map-by core --bind-to core" ranks_ok 2 verify --strategy mirrored $small
    rows "ranks that the launcher binds keep to their cores" "all(len(r['cores']) == 1
        for r in rows[0]['provenance']['ranks']) and not rows[0]['provenance']['oversubscribed'] and
        rows[0]['provenance']['cores_allowed'] == 1"
fi
MPIRUN_FLAGS="--bind-to none" ranks_ok 2 run --strategy mirrored --save saved --results r.db \
    --data synthetic:500 --batch 60 --steps 3 --format jsonl
expect "rank 0 saves" [ -s saved ]
expect "and keeps one row" [ "$("$LOCKSTEP" results list --results r.db --format jsonl | wc -l)" -eq 1 ]
rows "unbound ranks take cores of their own" "r['provenance']['oversubscribed'] == ($(nproc) < 2)"
ranks_ok 2 verify --strategy mirrored --load saved $small
ranks_ok 2 devices
expect "devices names each rank" [ "$(sed -n '/^rank  *host  *cores  *numa  *gpus$/,$p' out | wc -l)" -eq 3 ]
ranks_ok 2 devices --format json
expect "with host, cores, NUMA nodes and GPUs" python3 -c "
import json
ranks = json.load(open('out'))['ranks']
assert [r['rank'] for r in ranks] == [0, 1]
assert all(r['host'] == '$(hostname)' and r['cores'] and r['numa'] and r['gpus'] == [] or r['gpus'] for r in ranks)
assert len({c for r in ranks for c in r['cores']}) == min(2, $(nproc))"
ranks_ok 2 list strategies
expect "rank 0 alone prints" [ "$(grep -c '^ *mirrored ' out)" -eq 1 ]

# The same cases with ranks that are threads of one process.
lockstep_ok verify --strategy mirrored,independent --ranks 3 --devices 2 $small
rows "ranks as threads" "all(x['case']['ranks'] == 3 and len(x['case']['devices']) == 6 and
    x['case']['comm'] == 'thread' for x in rows)"
lockstep_ok verify --strategy mirrored --ranks 3 --devices 2 --reduce exact $small
rows "have single's bits, too" "r['equivalence']['digest'] == digest('single')"

# ---- Collectives alone ------------------------------------------------------------------------

ranks_ok 2 micro allreduce --devices 2 --sizes 4,40000 --format jsonl --allreduce ring,auto,hierarchical,canonical,direct
rows "right in every element, on all ranks, by the formula" "len(rows) == 5 * 2 * 2 and
    all(m['wrong'] == 0 and m['ranks'] == 4 and m['time_us'] > 0 and x['result'] == {'status': 'ok'} and
        (m['kernel'] == 'canonical' or m['bytes_sent'] == 2 * 3 * m['size_bytes'] or
         m['kernel'] == 'direct' and m['size_bytes'] == 4)
        for x in rows for m in [x['micro']])"
for op in sendrecv broadcast allgather reducescatter; do
    [ $op = sendrecv ] || thorough || break
    ranks_ok 2 micro $op --sizes 400KiB --format jsonl
    rows "$op" "all(x['micro']['wrong'] == 0 and x['micro']['ranks'] == 2 and x['micro']['bytes_sent'] > 0
        for x in rows)"
done
for op in allreduce reducescatter allgather; do
    [ $op = allreduce ] || thorough || break
    ranks_ok 2 micro $op --allreduce library --sizes 400KiB --format jsonl
    rows "the library's $op, which alone knows what it sends" "all(x['micro']['wrong'] == 0 and
        x['micro']['busbw_gbs'] > 0 and 'bytes_sent' not in x['micro'] for x in rows)"
done
ranks_ok 2 micro allreduce --sizes 4KiB
expect "a collective ends in a link to paste" grep -qE ': --link latency=[0-9.]+us,bandwidth=[0-9.]+GB/s$' out
ranks_ok 2 run --model poly --strategy mirrored --steps 2 --link "$(sed -n 's/.*--link //p' out)" --results none
expect "equal devices of ranks are no list" grep -q 'devices 1 cpu x 2 ranks' out
ranks_ok 2 micro broadcast --sizes 4KiB --results both.db --format jsonl
rows "a row of both ranks: where each is" "[len(x['provenance']['ranks']) for x in rows] == [2, 2] and
    len(r['provenance']['cores']) == 2 and r['provenance']['mpi'].startswith('$mpi ')"
keep printed
lockstep_ok results list --results both.db --format jsonl
rows "which rank 0 keeps, once" "rows == old('printed')"
if thorough; then
    ranks_ok 2 micro copy --sizes 4KiB --format jsonl
    rows "what is of one device is rank 0's" "[x['micro']['shape'] for x in rows] ==
        ['within', 'from host', 'to host']"
fi
refused 2 '--ranks' 2 micro allreduce --ranks 2

# ---- The step as a listing: each rank's own, in their order -----------------------------------

ranks_ok 2 run --print-step --strategy mirrored $small
expect "ranks in order" [ "$(grep -o '^Rank . of 2' out | paste -sd,)" = "Rank 0 of 2,Rank 1 of 2" ]
expect "each its own part" [ "$(grep -c ' all-reduce, ' out)/$(grep -c '^[0-9].* end ' out)" = 2/2 ]

# Data near the smallest normal number (test_tiny_data.sh): with a library's sums, too, the first gradient is compared
# with that of the whole batch on samples that arithmetic can hold.
python3 - <<'P'
import json, struct
x, y = [1e-36 * (i % 7 - 3) for i in range(48 * 24)], [float(i % 10) for i in range(48)]
head = json.dumps({"x0": {"dtype": "F32", "shape": [48, 24], "data_offsets": [0, 4 * len(x)]},
                   "y": {"dtype": "F32", "shape": [48], "data_offsets": [4 * len(x), 4 * len(x) + 4 * len(y)]}}).encode()
head += b" " * (-len(head) % 8)
open("tiny", "wb").write(struct.pack("<Q", len(head)) + head + struct.pack(f"<{len(x) + len(y)}f", *x, *y))
P
ranks_ok 2 verify --strategy mirrored,local-sgd --allreduce ring,library --local-sgd-every 2 --model mlp:24-16-10 --data file:tiny \
    --batch 16 --steps 3 --warmup 0 --results none --format jsonl
rows "tiny data" "len(rows) == 4 and r['equivalence']['oracle'] == 'same bits' and r['equivalence']['steps'] == 3"

# ---- Refusals ---------------------------------------------------------------------------------

refused 2 'strategy: single' 2 run --strategy single $small
refused 2 '--comm' 2 run --strategy mirrored --comm thread $small
refused 2 '--inject kill=2:3: the case has 2 ranks' 2 run --strategy mirrored --inject kill=2:3 $small
refused 2 'model' 3 run --model nope $small
if thorough; then
    refused 2 'towers' 2 run --strategy towers $small
    refused 2 'start it without a launcher' 2 advise --devices 2 --platform flat:latency=1us
    refused 2 '--ranks' 2 run --strategy mirrored --ranks 3 $small
    refused 2 'library' 2 run --strategy mirrored --devices 2 --allreduce library $small
    refused 2 '--inject stop=1:8: the case has 8 steps' 2 run --strategy mirrored --inject stop=1:8 $small
    refused 2 '--inject hang=1:2: .*use lockstep run' 2 verify --strategy mirrored --inject hang=1:2 $small
    refused 2 "'exit=1' is not valid" 2 run --strategy mirrored --inject exit=1 $small
    refused 2 '--batch' 4 run --strategy mirrored --devices 2 --data synthetic:500 --batch 7 --results none
fi
refused 3 'nowhere' 3 run --strategy mirrored --data file:nowhere --model mlp:3-2 --results none
refused 2 'rank: 1 on .*--seed 2.*differs from rank 0.s .*--seed 1' 2 run --strategy mirrored $small --seed 1 : \
    "$LOCKSTEP" run --strategy mirrored $small --seed 2
refused 2 'rank: 1 on ' 2 list : "$LOCKSTEP" devices
# A file that differs on one rank.
mkdir -p one two
"$LOCKSTEP" run --model mlp:3-2 --data synthetic:9 --batch 2 --steps 0 --warmup 0 --seed 1 --save one/w --results none >/dev/null
"$LOCKSTEP" run --model mlp:3-2 --data synthetic:9 --batch 2 --steps 0 --warmup 0 --seed 2 --save two/w --results none >/dev/null
apart="run --strategy mirrored --model mlp:3-2 --data synthetic:9 --batch 2 --load w --results none"
cd one
refused 2 'rank: 1 on .*parameters' 2 $apart : env -C "$work/two" "$LOCKSTEP" $apart
rm ../two/w
refused 3 'rank 1 on .*: w: ' 2 $apart : env -C "$work/two" "$LOCKSTEP" $apart
cd ..
lockstep run --strategy mirrored --comm mpi $small
expect "no launcher" one_line '--comm: .mpi. needs ranks'

# A step from which one replica of two is not finite, and this is not the one of rank 0: all ranks learn it.
python3 - <<'P'
import json, struct
head = json.dumps({"dense0.weight": {"dtype": "F32", "shape": [1, 3], "data_offsets": [0, 12]}}).encode()
with open("far.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(head)) + head + struct.pack("<3f", 2.5e29, 0, 0))
P
far="--model poly --strategy independent --optimizer sgd --lr 1e6 --load far.safetensors --steps 1 --warmup 0 --results none"
ranks 2 run $far --format jsonl
rows "a replica of another rank is not finite" "'is infinite or not a number after step 1' in r['result']['reason']"
lockstep run $far --devices 2 --format jsonl
rows "nor of the same process" "'is infinite or not a number after step 1' in r['result']['reason'] and r['result']['status'] == 'failed'"

finish
