#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `lockstep micro` of collectives: rows for each operation, algorithm and number of ranks; no wrong element; bytes
# sent as computed here, for each communicator of one process; bandwidths consistent with size and time; refusals of
# options that do not apply. Leaves out the figures, which depend on the machine.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# Checks that hold for every row.
sound="all(x['schema'] == 1 and x['id'] and x['micro']['wrong'] == 0 and x['micro']['type'] == 'float' and
    x['micro']['size_bytes'] == 4 * x['micro']['count'] and 0 < x['micro']['time_p10_us'] <=
    x['micro']['time_us'] <= x['micro']['time_p90_us'] <= x['micro']['time_p99_us'] and
    math.isclose(x['micro']['algbw_gbs'], x['micro']['size_bytes'] / x['micro']['time_us'] / 1e3)
    for x in rows)"

bus() { # bus WHAT FACTOR: for n ranks
    rows "$1: bus bandwidth" "all(math.isclose(m['busbw_gbs'], m['algbw_gbs'] * ($2), abs_tol=1e-12)
        for m in (x['micro'] for x in rows) for n in [m['ranks']])"
}

sent() { # sent WHAT BYTES: for n ranks, s bytes
    rows "$1: bytes sent" "all(m['bytes_sent'] == ($2)
        for m in (x['micro'] for x in rows) for n, s in [(m['ranks'], m['size_bytes'])])"
}

for devices in 5 1 2; do # on fewer than 5, no size makes a difference
    [ $devices = 5 ] || thorough || break
    sizes=4,4000 tiny=8
    [ $devices -lt 5 ] || { sizes=4,32,36,100KiB tiny=8,4000,100KiB; }
    count=$(tr , '\n' <<<"$sizes" | wc -l)
    lockstep_ok micro allreduce --devices $devices --sizes $sizes --format jsonl \
        --allreduce auto,flat,ring,tree,halving-doubling,direct,hierarchical,canonical
    rows "allreduce on $devices: rows are sound" "$sound"
    rows "a row for each algorithm, size and place" "len(rows) == 8 * $count * 2 and
        all(x['micro']['ranks'] == $devices and x['micro']['redop'] == 'sum' for x in rows)"
    rows "which name the algorithm" "{x['micro']['kernel'] for x in rows} ==
        {'flat', 'ring', 'tree', 'halving-doubling', 'direct', 'hierarchical', 'canonical'}"
    bus allreduce "2 * (n - 1) / n"
    rows "allreduce: bytes sent" "all(m['bytes_sent'] == (n * (n - 1) * s
        if m['kernel'] == 'direct' and s <= 32 else 2 * (n - 1) * s)
        for m in (x['micro'] for x in rows) for n, s in [(m['ranks'], m['size_bytes'])]
        if m['kernel'] != 'canonical' or s % (4 * n) == 0)"
    count=$(tr , '\n' <<<"$tiny" | wc -l)
    for op in broadcast sendrecv; do
        lockstep_ok micro $op --devices $devices --sizes $tiny --format jsonl
        rows "$op on $devices: rows are sound" "$sound and all(x['micro']['op'] == '$op' for x in rows)"
        rows "$op: rows" "len(rows) == $count * (1 if '$op' == 'sendrecv' else 2)"
        bus $op 1
        case $op in
        broadcast) sent $op "(n - 1) * s" ;;
        sendrecv) sent $op "n * s" ;;
        esac
    done
    for op in allgather reducescatter; do # 8 bytes: some ranks have no element
        lockstep_ok micro $op --devices $devices --sizes $tiny --format jsonl \
            --allreduce auto,ring,halving-doubling,direct,canonical
        rows "$op on $devices: rows are sound" "$sound and all(x['micro']['op'] == '$op' for x in rows)"
        rows "$op: a row for each algorithm, size and place" "[x['micro']['kernel'] for x in rows[::2 * $count]] ==
            ['direct', 'ring', 'halving-doubling', 'direct', 'canonical'] and len(rows) == 5 * $count * 2"
        bus $op "(n - 1) / n"
        sent $op "(n - 1) * s"
    done
done

# Ranks whose operations are enqueued together, as on GPUs: the same rows; traffic is counted once for all replays.
fields="('size_bytes', 'shape', 'kernel', 'bytes_sent', 'messages_sent')"
for op in allreduce broadcast allgather reducescatter sendrecv; do
    [[ $op =~ ^(allreduce|allgather) ]] || thorough || continue
    case $op in
    allreduce) algorithms="--allreduce auto,flat,ring,tree,halving-doubling,direct,hierarchical,canonical" ;;
    allgather | reducescatter) algorithms="--allreduce auto,ring,halving-doubling,direct,canonical" ;;
    *) algorithms= ;;
    esac
    for comm in thread device; do
        # shellcheck disable=SC2086
        lockstep_ok micro $op --comm $comm --devices 3 --sizes 8,40000 --format jsonl $algorithms
        rows "$op by $comm: rows are sound, and say so" "$sound and
            all(x['micro']['comm'] == '$comm' and x['result'] == {'status': 'ok'} for x in rows)"
        [ $comm = device ] || keep thread
    done
    rows "$op: by device the same as by threads" "len(rows) > 1 and
        [[x['micro'].get(f) for f in $fields] for x in rows] ==
        [[x['micro'].get(f) for f in $fields] for x in old('thread')]"
done
lockstep_ok micro allreduce --comm device --devices 2 --link latency=200us --sizes 4KiB --format jsonl
rows "over links: at least their latency, twice" "r['micro']['kernel'] == 'tree' and r['micro']['time_us'] >= 400"

lockstep_ok micro sendrecv --ranks 2 --devices 2 --sizes 4KiB --format jsonl
rows "devices are of each rank" "r['micro']['ranks'] == 4"
lockstep_ok micro broadcast --cpu-devices 2 --devices cpu:1+cpu:0 --sizes 4KiB --format jsonl
rows "devices by name" "r['micro']['ranks'] == 2"
lockstep_ok micro sendrecv --devices 1 --format jsonl
rows "sizes by a factor of 4 from 8 bytes to 64 MiB" "[x['micro']['size_bytes'] for x in rows] ==
    [8 * 4 ** k for k in range(12)] + [2 ** 26]"
lockstep_ok micro allreduce --devices 2 --sizes 1MiB
expect "the table has the columns of nccl-tests" grep -Eq \
    '^ +size kernel +(time us +algbw +busbw +wrong *){2}$' out
expect "both placements are on a line" grep -Eq '^ +1048576 direct +([0-9.]+ +[0-9.]+ +[0-9.]+ +0 *){2}$' out
expect "their average bus bandwidth stands below" grep -Eq '^average bus bandwidth, GB/s: direct [0-9.]+$' out
lockstep micro reduce-scatter
expect "a refusal names what works" one_line "all_gather, reduce_scatter"
lockstep_ok micro reduce_scatter --devices 2 --sizes 1MiB --allreduce ring,direct
expect "so has that of a half" grep -Eq '^ +size kernel +(time us +algbw +busbw +wrong *){2}$' out
expect "a line for each" [ "$(grep -Ec '^ +1048576 (ring|direct) +([0-9.]+ +[0-9.]+ +[0-9.]+ +0 *){2}$' out)" -eq 2 ]
expect "no line is longer than 80" [ "$(wc -L <out)" -le 80 ]

lockstep_ok micro allreduce --devices 2 --sizes 4KiB --format csv
cp out table.csv
checks=$((checks + 1))
python3 -c 'import csv
rows = list(csv.DictReader(open("table.csv")))
assert rows and all(int(row["micro.messages_sent"]) > 0 for row in rows)' 2>err || wrong "csv has no column for a field"

refused() { # refused STATUS WORD ARGUMENTS...
    local status=$1 word=$2
    shift 2
    lockstep "$@"
    expect "status $status" [ "$code" -eq "$status" ]
    expect "one line that says $word" [ "$(grep -cF -- "$word" err)" -eq 1 -a "$(wc -l <err)" -eq 1 ]
    expect "no row" [ ! -s out ]
}
refused 2 halving-doubling micro allreduce --allreduce rings
refused 2 --allreduce micro broadcast --allreduce ring
for op in allgather reducescatter; do
    refused 2 'cannot be divided into a reduce-scatter and an all-gather; use one of ring, halving-doubling, direct' \
        micro ${op/all/all_} --devices 2 --allreduce tree
done
refused 2 --ranks micro gemm --ranks 2
refused 2 --devices micro copy --devices 3
refused 2 --devices micro allreduce --ranks 2 --devices cpu:0
refused 2 --ranks micro allreduce --ranks 0
refused 2 --cpu-devices micro allreduce --cpu-devices 0
refused 2 --sizes micro allreduce --sizes 2
for op in allreduce sendrecv copy optimizer; do # the size that runs is the one that is asked for
    refused 2 'option --sizes: 5: is not a whole number of elements of 4 bytes; use --sizes 4 or 8' \
        micro $op --sizes 4KiB,5
done
refused 2 --batch micro allreduce --batch 4
refused 2 allgather micro all_gathers
refused 2 --comm micro copy --comm device
refused 2 'auto, thread, mpi, nccl, device' micro allreduce --comm devices
refused 2 'is a list' micro allreduce --comm thread,device
refused 2 'has no library' micro allreduce --comm device --devices 2 --allreduce library
lockstep micro allreduce --devices 2 --sizes 4KiB --allreduce library,ring --results none
expect "of a list, what cannot run is left out" eval '[ "$code" -eq 0 ] && one_line "left out: .*has no library" && grep -q " ring " out'
refused 3 'needs ranks that a launcher started' micro allreduce --comm mpi
refused 3 nccl micro allreduce --comm nccl --cpu-devices 2 --devices cpu:0+cpu:1
finish
