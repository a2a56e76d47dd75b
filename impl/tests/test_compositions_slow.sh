#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The matrix of compositions: {data, zero 1 to 3} x {no stages, pipeline} x {no slices, tensor} on 2 to 12 devices, in
# one process and on ranks. In exact mode each cell has the digest, losses, accuracy and norm of `single` with as many
# slices, in fast mode the bits of its oracle; traffic as by formula, memory to the byte. Cells that cannot be composed
# are refused, with a reason. Prints a table, by row of the page compositions.md. No tolerance.
. "$SOURCE_DIR/bench/tests/lib.sh"

model="--model gpt:2-4-16-8-64 --data synthetic:25 --batch 12 --clip 0.05 --optimizer adam"
small="$model --steps 4 --warmup 0 --gate-steps 2 --results none --format jsonl"
exact="--reduce exact --micro-splits 4 --micro-shards 12"
told='[[r["train"][k] for k in ("loss_first", "loss_last", "accuracy", "gradient_norm") if k in r["train"]] + [r["equivalence"]["digest"]] for r in rows]'
counted='all(r["traffic"][k + "_sent"] == r["traffic"][k + "_formula"] for r in rows if "traffic" in r
    for k in ("bytes", "messages")) and all(d[use] == bytes for r in rows for d in r["memory"]["devices"]
    for use, bytes in d["formula"].items())'
lockstep_ok run $small $exact --strategy single
python3 -c "import json; rows = [json.loads(l) for l in open('out')]; print($told[0])" >like
digest=$(python3 -c 'print(eval(open("like").read())[-1])')
cells=0
same() { # WHAT COUNT
    cells=$((cells + $2))
    rows "$1" "len(rows) == $2 and all(r['result']['status'] == 'ok' for r in rows)"
    rows "$1: as on one device" "$told == [$(cat like)] * $2"
    rows "$1: counted as by formula" "$counted"
}

# cell SHAPE D S t OPTIONS: one cell, in both modes; sets $found.
cell() {
    local shape=$1 devices=$(($2 * $3 * $4))
    lockstep run $small $exact --cpu-devices 12 --devices $devices "${@:5}"
    if [ "$code" -eq 2 ]; then
        expect "$shape: a reason in one line" one_line
        found="refused: $(sed 's/^lockstep: //; s/;.*//' err)"
        return
    fi
    same "$shape, $devices devices" 1
    found=$(python3 -c 'import json; print(json.loads(open("out").read())["equivalence"]["digest"])')
    lockstep run $small --cpu-devices 12 --devices $devices --allreduce ring "${@:5}"
    rows "$shape, $devices devices, fast" "len(rows) == 1 and r['result']['status'] == 'ok' and r['equivalence']['oracle'] == 'same bits'"
    rows "$shape, $devices devices, fast: counted as by formula" "$counted"
    cells=$((cells + 1))
}
ranked() { # SHAPE RANKS OPTIONS
    "$launcher" "$2" "$LOCKSTEP" run $small $exact "${@:3}" >out 2>err || true
    command_line="on $2 ranks: run $small $exact ${*:3}"
    same "$1, $2 ranks" 1
}

ranks=yes
without_ranks >why && ranks=no
hybrid="--strategy hybrid --hybrid-replicas"
stage="--pipeline-microbatches 2 --pipeline-schedule 1f1b"
printf '%-8s %-9s %-7s %-32s %s\n' replicas stages slices "devices (D x S x t)" digest
for data in data zero:1 zero:2 zero:3; do
    how=${data#zero:}
    for shape in none:none pipeline:none none:tensor pipeline:tensor; do
        case $shape in
            none:none) sizes="2,1,1 5,1,1 12,1,1" ;;
            pipeline:none) sizes="2,2,1 2,3,1 3,4,1" ;;
            none:tensor) sizes="2,1,2 2,1,3 3,1,4" ;;
            pipeline:tensor) sizes="2,2,2 2,2,3 3,2,2" ;;
        esac
        said= last=
        for size in $sizes; do
            IFS=, read -r D S t <<<"$size"
            outer=()
            [ "$data" = data ] || outer=(--hybrid-outer zero --zero-stage "$how")
            case $shape in
                none:none) [ "$data" = data ] && options=(--strategy mirrored) || options=(--strategy zero --zero-stage "$how") ;;
                pipeline:none) options=($hybrid $D --hybrid-inner pipeline $stage "${outer[@]}") ;;
                none:tensor) options=($hybrid $D --hybrid-inner tensor-parallel "${outer[@]}") ;;
                pipeline:tensor) options=($hybrid $D --hybrid-inner tensor-parallel --hybrid-stages $S $stage "${outer[@]}") ;;
            esac
            cell "$data $shape" $D $S $t "${options[@]}"
            last=$found
            said="$said $D x $S x $t,"
            [[ $found != refused* ]] || { said=" all,"; break; }
            [ "$found" = "$digest" ] || wrong "$data $shape, $size: $found, not $digest"
            if [ $ranks = yes ] && [ $((D * S * t)) -le 8 ] && [ "$D" -gt 1 ]; then
                ranked "$data $shape" $((D * S * t)) "${options[@]}"
            fi
        done
        said=${said%,}
        printf '%-8s %-9s %-7s %-32s %s\n' "$data" "${shape%:*}" "${shape#*:}" "${said# }" "$last"
    done
done
[ $ranks = yes ] && echo "those of up to 8 devices and several replicas on as many ranks, too"
# Some processes have several devices each, and a replica is in several processes, or a process has several replicas.
three="$hybrid 2 --hybrid-inner tensor-parallel --hybrid-stages 2 $stage --hybrid-outer zero"
[ $ranks = no ] || for shape in "2 4" "4 2"; do
    ranked "three axes, devices $shape" ${shape% *} $three --devices ${shape#* }
done
# Buckets, algorithms, a tail, links, moving averages and weight decay, a flipped bit, and files.
for more in "--bucket-bytes 0" "--zero-stage 3 --zero-windows 3 --bucket-bytes 0" "--zero-stage 3 --zero-reshard no" "--bucket-bytes 2KiB --allreduce direct" "--link latency=20us,bandwidth=1GB/s" "--capture no" \
    "--cores-per-device 2 --bucket-bytes 1KiB"; do
    lockstep run $small --cpu-devices 4 --strategy hybrid --hybrid-outer zero --devices 4 --hybrid-inner \
        model-parallel,pipeline,tensor-parallel $more
    rows "$more" "len(rows) == 3 and all(r['result']['status'] == 'ok' for r in rows)"
    rows "$more: counted as by formula" "$counted"
    cells=$((cells + 3))
done
tail="--model mlp:784-19-16-17-10 --data synthetic:50 --batch 20 --epochs 2 --warmup 0 --results none --format jsonl --cpu-devices 6"
lockstep run $tail --strategy hybrid --hybrid-outer zero --devices 6 --hybrid-replicas 3 --hybrid-inner pipeline,tensor-parallel \
    --pipeline-microbatches 2 --reduce fast,exact --micro-splits 2 --zero-stage 1,3
rows "tail" "len(rows) == 8 and all(r['result']['status'] == 'ok' for r in rows)"
decays="--model cifar10 --data synthetic:24 --batch 12 --steps 3 --warmup 0 --results none --format jsonl --cpu-devices 6"
lockstep_ok run $decays --reduce exact --micro-splits 3 --strategy single
python3 -c "import json; rows = [json.loads(l) for l in open('out')]; print($told[0])" >like
lockstep run $decays --reduce exact --micro-splits 3 --strategy zero --zero-stage 1,2,3 --devices 3 --bucket-bytes 0
same "averages and weight decay, zero with slices" 3
lockstep run $decays --reduce exact --micro-splits 3 --strategy hybrid --hybrid-inner zero --zero-stage 1,3 --devices 4
same "averages and weight decay, groups of zero with slices" 2
lockstep run $decays --reduce exact --micro-splits 3 --strategy hybrid --hybrid-outer zero --devices 4 --hybrid-inner \
    pipeline,tensor-parallel --zero-stage 1,2,3
same "averages and weight decay, zero outside" 6
lockstep run $small --cpu-devices 4 --strategy hybrid --hybrid-outer zero --devices 4 --hybrid-inner tensor-parallel \
    --inject bitflip=0:1 --inject bitflip=3:1
rows "flipped bits" "len(rows) == 2 and all('step 1' in r['equivalence']['oracle'] for r in rows)"
lockstep_ok run $small $exact --cpu-devices 4 --strategy hybrid --hybrid-outer zero --devices 4 --hybrid-inner \
    tensor-parallel --save a.safetensors
lockstep_ok run $small $exact --strategy single --save b.safetensors
expect "another file than one device's" cmp a.safetensors b.safetensors
echo "$cells cells"
finish
