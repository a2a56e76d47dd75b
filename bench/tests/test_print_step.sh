# SPDX-License-Identifier: MIT
# run --print-step prints the tasks of a step as a table: what runs where, after what, and on which memory, also for
# an epoch's last batch; nothing is trained, and there is no row. No tolerance. For 1,024 devices the time is only
# printed, and memory is limited to 2 GB.
. "$SOURCE_DIR/bench/tests/lib.sh"

mlp="--model mlp:784-10 --data synthetic:250 --batch 100 --epochs 1"
two="--strategy mirrored --devices 2 --cpu-devices 2 --cores-per-device 2 --bucket-bytes 0"
# shellcheck disable=SC2086
lockstep_ok run --print-step $mlp $two --results "$work/rows.db"
expect "no database is made" [ ! -e "$work/rows.db" ]
sed -n '/^A step of 100 samples: /,/^A step of 50/p' out | sed -e 1,2d -e '/^A step/d' -e '/^$/d' -e 's/ *$//' -e 's/   */ | /g' >full
diff full - <<'T' || wrong "the listing of mirrored on two devices"
task | lane | what | ops | waits for | reads | writes
0 | cpu:0 compute | forward | 5 | - | activations, argument block, batch, data set, parameters | activations, batch, loss, scratch
1 | cpu:1 compute | forward | 5 | - | activations, argument block, batch, data set, parameters | activations, batch, loss, scratch
2 | cpu:0 compute | backward, elements 7840 to 7849 | 1 | - | activations, batch | gradients, scratch
3 | cpu:1 compute | backward, elements 7840 to 7849 | 1 | - | activations, batch | gradients, scratch
4 | cpu:0 communication | all-reduce, elements 7840 to 7849 | 1 | 2 | - | communicator, gradients elements 7840 to 7849
5 | cpu:1 communication | all-reduce, elements 7840 to 7849 | 1 | 3 | - | communicator, gradients elements 7840 to 7849
6 | cpu:0 communication | all-reduce, elements 0 to 7839 | 1 | - | - | communicator, gradients elements 0 to 7839
7 | cpu:1 communication | all-reduce, elements 0 to 7839 | 1 | - | - | communicator, gradients elements 0 to 7839
8 | cpu:0 compute | update, elements 7840 to 7849 | 1 | 4 | argument block, gradients elements 7840 to 7849 | optimizer state elements 7840 to 7849, parameters elements 7840 to 7849
9 | cpu:0 compute | update, elements 0 to 7839 | 1 | 6 | argument block, gradients elements 0 to 7839 | optimizer state elements 0 to 7839, parameters elements 0 to 7839
10 | cpu:1 compute | update, elements 7840 to 7849 | 1 | 5 | argument block, gradients elements 7840 to 7849 | optimizer state elements 7840 to 7849, parameters elements 7840 to 7849
11 | cpu:1 compute | update, elements 0 to 7839 | 1 | 7 | argument block, gradients elements 0 to 7839 | optimizer state elements 0 to 7839, parameters elements 0 to 7839
12 | cpu:0 compute | end | 1 | - | loss | argument block, records
13 | cpu:1 compute | end | 1 | - | loss | argument block, records
T
sed -n '/^A step of 50 samples, the last of an epoch: /,$p' out | sed -e 1,2d -e 's/ *$//' -e 's/   */ | /g' >tail
diff full tail || wrong "the smaller batch's step differs"

# Memory is listed by name: the same text at each run, wherever it lies.
for _ in 1 2 3 4 5 6 7 8; do
    lockstep_ok run --print-step --model mlp --data synthetic:500 --strategy ps,towers --devices 3 --cpu-devices 3
    [ -e same ] || cp out same
    expect "another run prints the same" cmp -s same out
done

# A copy shows its size and source; memory of another member shows whose it is.
lockstep_ok run --print-step yes --model poly --strategy towers --devices 2 --cpu-devices 3 --variable-device cpu:2
expect "a fetch" grep -Eq '^[0-9]+ +cpu:0 compute +fetch, 12 bytes from cpu:2 +1 +begin +parameters of cpu:2 +parameters$' out
expect "a send" grep -Eq '^[0-9]+ +cpu:1 compute +send, 12 bytes to cpu:2 +1 +- +gradients +staging of cpu:2$' out
expect "a sum" grep -Eq '^[0-9]+ +cpu:2 compute +add up +1 +[0-9]+, [0-9]+ +staging +gradients$' out

# A message shows how much goes where, at both ends; a request, the messages that it announces.
lockstep_ok run --print-step --model poly --strategy ps --ranks 3
expect "a message's end" grep -Eq '^[0-9]+ +cpu:0 compute +send, 12 bytes to cpu:2 ' out
expect "and its other end" grep -Eq '^[0-9]+ +cpu:2 compute +receive, 12 bytes from cpu:0 ' out
expect "one that is added" grep -Eq '^[0-9]+ +cpu:0 compute +add, 12 bytes from cpu:2 ' out
lockstep_ok run --print-step --model poly --strategy ps --ps-mode async --ranks 2
expect "a request" grep -Eq '^[0-9]+ +cpu:1 compute +request, announces 12 bytes to cpu:0 ' out
if ! without_ranks; then
  "$launcher" 2 "$LOCKSTEP" run --print-step --model mlp:784-4-10 --data synthetic:20 --batch 10 \
    --strategy model-parallel --devices 1 >"$work/out" 2>"$work/err" </dev/null || wrong "the listing of two processes"
  expect "to another process" grep -Eq '^[0-9]+ +cpu:0 transfer +send, 160 bytes to rank 1 device 0 ' "$work/out"
  expect "and from one" grep -Eq '^[0-9]+ +cpu:0 transfer +receive, 160 bytes from rank 0 device 0 ' "$work/out"
fi

# A task of one node names it; a task of the whole model does not.
lockstep_ok run --print-step --model mlp:784-4-10 --data synthetic:20 --batch 10 --strategy model-parallel --devices 2
expect "nodes of the first device" grep -Eq '^[0-9]+ +cpu:0 compute +forward, dense0 ' out
expect "and of the second" grep -Eq '^[0-9]+ +cpu:1 compute +backward, dense1 ' out

# Where gradients are accumulated, passes name their piece; in exact mode the one that has the shard.
listed() { grep -Eo '(forward|backward)(, [a-z]+[0-9]+)?, piece [0-9]+' out | tr '\n' ';'; }
pieces="--print-step --model mlp:784-10 --data synthetic:24 --batch 12 --gradient-accumulation-steps 2"
lockstep_ok run $pieces
expect "passes of pieces" [ "$(listed)" = "forward, piece 0;backward, piece 0;forward, piece 1;backward, piece 1;" ]
lockstep_ok run $pieces --strategy mirrored --ranks 3 --reduce exact
expect "pieces of two shards" [ "$(listed | tr ';' '\n' | sort | uniq -c | tr -s ' \n' ' ')" = \
    " 6 backward, piece 0 6 backward, piece 1 6 forward, piece 0 6 forward, piece 1 " ]
lockstep_ok run ${pieces/784-10/784-4-10} --strategy model-parallel --devices 2
expect "nodes of pieces" [ "$(listed | grep -o 'forward, dense1, piece [01]' | tr '\n' ';')" = \
    "forward, dense1, piece 0;forward, dense1, piece 1;" ]

# Servers with their own threads, and the workers' final messages, are listed once, outside the steps.
lockstep_ok run --print-step --model poly --strategy ps --ps-mode async --ranks 4 --ps-servers 2
expect "before steps" [ "$(sed -n '/^Once, before/,/^A step/p' out | grep -c ' serve ')" -eq 2 ]
expect "after them" [ "$(sed -n '/^Once, after/,$p' out | grep -c ' request ')" -eq 4 ]

# Deriving a step is not quadratic: its memory is limited (this program needs the most), its time only printed.
start=$(date +%s%N)
peak=$(python3 -c 'import resource, subprocess, sys
assert subprocess.call(sys.argv[1:]) == 0
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)' \
  "$LOCKSTEP" run --print-step --model poly --batch 1024 --strategy mirrored --devices 1024 --cpu-devices 1024 2>&1 >out) ||
  wrong "the listing of 1,024 devices"
expect "a step of 1,024 replicas" [ "$(grep -c ' all-reduce, ' out)" -eq 1024 ]
expect "$peak KiB, at most 2 GB wanted" [ "$peak" -le 1953125 ]
echo "1,024 devices in $((($(date +%s%N) - start) / 1000000)) ms, $((peak / 1024)) MiB at most"

lockstep verify --print-step --model poly
expect "verify has no listing" [ "$code" -eq 2 ]
expect "and says so" one_line "print-step"
lockstep_ok run --print-step --quiet --model poly
expect "--quiet: no head" eval 'head -n 1 out | grep -q "^A step of 100 samples" && ! grep -q "^Tasks of one lane" out'
finish
