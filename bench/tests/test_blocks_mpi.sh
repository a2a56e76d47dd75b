# SPDX-License-Identifier: MIT
# Blocks on two MPI ranks: the result is that of one uninterrupted run (see test_blocks.sh). No tolerance.
. "$SOURCE_DIR/bench/tests/lib_mpi.sh"

small="--model mlp:784-12-10 --batch 12 --warmup 2 --data synthetic:200 --epochs 2 --gate-steps 0"
for blocks in 1 3; do
    ranks_ok 2 run --blocks $blocks --format jsonl --results none --cpu-devices 4 $small --devices 2 \
        --strategy mirrored,zero,pipeline,hybrid,local-sgd --zero-stage 3 --bucket-bytes 8KiB --reduce fast,exact
    cp out rows.$blocks
    ranks_ok 2 run --blocks $blocks --format jsonl --results none --cpu-devices 4 $small --strategy ps \
        --ps-colocate yes --ps-servers 2 --ps-mode sync,ssp
    cat out >>rows.$blocks
done
expect "one block and three are equal" python3 - <<'EOF'
import json
one, three = ([json.loads(line) for line in open(f"rows.{n}")] for n in (1, 3))
assert len(one) == len(three) == 11, (len(one), len(three))
for a, b in zip(one, three):
    assert a["result"]["status"] == b["result"]["status"] == "ok", (a["result"], b["result"])
    assert b["time"]["blocks"] == 3 and b["time"]["reopen_ms"] > 0, b["time"]
    for group in ["traffic", "train", "equivalence"] * (a["case"].get("ps_mode") != "ssp"):
        assert a.get(group) == b.get(group), (a["case"], a.get(group), b.get(group))
EOF
# Rank 0's interval and clock decide how many blocks are added. Not with poly: it runs a million steps per second, and
# computing the interval of so many takes longer than the steps.
ranks_ok 2 run --model mlp --data synthetic:500 --strategy mirrored --steps 40 --until-precision 50% --max-time 100s --format jsonl \
    --results none
rows "blocks are added on all ranks" 'r["time"]["blocks"] >= 20'
finish
