# SPDX-License-Identifier: MIT
# Ragged lengths: in exact mode every strategy has the digest of `single`, fast mode the bits of its oracle; lengths and
# the number of targets are those of the contract, computed here anew; a batch's loss is the mean over its targets.
. "$SOURCE_DIR/bench/tests/lib.sh"

gpt="--model gpt:2-2-8-8-40 --data synthetic:60 --batch 12 --cpu-devices 4 --results none --format jsonl --lengths ragged"
same='len({r["equivalence"]["digest"] for r in rows}) == 1 and r["case"]["lengths"] == "ragged" and
    all(r["equivalence"]["oracle"] == "same bits" for r in rows)'
alike gpt "$gpt --steps 3" "--strategy single" "--strategy towers,mirrored --devices 3" "--strategy pipeline --devices 3" \
    "--strategy zero --zero-stage 1,2,3 --devices 2" "--strategy hybrid --hybrid-inner pipeline,zero --devices 4" \
    "--strategy mirrored --ranks 2 --gradient-accumulation-steps 3"
alike "gpt in slices" "$gpt --steps 3 --micro-splits 2" "--strategy single" "--strategy tensor-parallel --devices 2" \
    "--strategy hybrid --hybrid-inner tensor-parallel --devices 4"
alike "tail batches" "${gpt/--batch 12/--batch 16} --epochs 1" "--strategy single" "--strategy mirrored --devices 3"
lockstep_ok verify $gpt --steps 3 --warmup 0 --devices 2 \
    --strategy tensor-parallel,context-parallel,pipeline,zero,mirrored,local-sgd,gossip,independent
rows "fast: the oracle's bits" 'len(rows) == 8 and all(r["equivalence"]["oracle"] == "same bits" for r in rows)'
lockstep_ok verify $gpt --steps 3 --warmup 0 --devices 2 --strategy tensor-parallel --tensor-parallel-sequence yes
rows "positions in blocks" 'r["equivalence"]["oracle"] == "same bits"'
# Three replicas of a batch of 7 have different numbers of targets: the mean of their means is not the batch's.
lockstep_ok run ${gpt/--batch 12/--batch 7} --strategy local-sgd,gossip,independent --devices 3 --steps 4
rows "means of replicas" 'len(rows) == 3 and all(r["equivalence"]["oracle"] == "same bits" for r in rows)'
lockstep_ok run $gpt --strategy mirrored --devices 2 --steps 5
rows "memory by formula" 'all(d["formula"][use] == d[use] for d in r["memory"]["devices"]
    for use in ("parameters", "gradients", "optimizer", "activations", "communication"))'
keep ragged
lockstep_ok run ${gpt% --lengths*} --strategy mirrored --devices 2 --steps 5
rows "traffic as with full lengths" 'r["traffic"] == old("ragged")[0]["traffic"] and "lengths" not in r["case"] and
    "targets" not in r["train"]'

# A rate of next to nothing leaves the parameters: a batch's loss follows from its samples'. A third of 11 positions is
# not a quarter; a quarter of 3 is none.
cat >lengths.py <<'PYTHON'
import json, sys
def block(i, stream):
    c, k = [i & 0xFFFFFFFF, i >> 32, stream & 0xFFFFFFFF, stream >> 32], [0, 0]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c
LENGTHS, T, B = 0x22A21087AB0D954F, int(sys.argv[1]), 12  # XXH3-64 of "lengths"
least = max(1, T // 4)
length = [least + block(i // 4, LENGTHS)[i % 4] % (T - least + 1) for i in range(60)]
read = lambda name: [json.loads(line) for line in open(name) if line.startswith("{")]
alone, = read("alone.kept")
each = alone["train"]["losses"]
assert alone["train"]["targets"] == length[59], (alone["train"]["targets"], length)
assert len(set(length)) == T - least + 1, length
rows = read("out")
assert len(rows) > 2
for row in rows:
    for step, loss in enumerate(row["train"]["losses"]):
        samples = [(step * B + i) % 60 for i in range(B)]
        N = sum(length[i] for i in samples)
        mean = sum(length[i] * each[i] for i in samples) / N
        assert abs(loss - mean) < 1e-6 * mean, (row["case"]["strategy"], step, loss, mean)
    assert row["train"]["targets"] == N, (row["case"]["strategy"], row["train"]["targets"], N)
PYTHON
for positions in 11 3; do
    still="${gpt/8-8/8-$positions} --shuffle no --warmup 0 --lr 1e-30 --optimizer sgd --verbose --gate-steps 0"
    lockstep_ok run ${still/--batch 12/--batch 1} --steps 60
    keep alone
    lockstep_ok run $still --steps 7 --strategy single,mirrored,local-sgd --devices 1
    cat out >every
    lockstep_ok run $still --steps 7 --strategy mirrored,zero --devices 3 --gradient-accumulation-steps 2
    cat every >>out
    rm every
    expect "lengths, targets and losses are the contract's at $positions positions" python3 -B lengths.py "$positions"
done
lockstep_ok predict --model gpt:2-2-8-8-40 --strategy mirrored --devices 2 --platform flat:bandwidth=1GB/s --durations flops=1e10 \
    --lengths ragged --results none --format jsonl
rows "predicted" 'r["case"]["lengths"] == "ragged"'
lockstep run --results none --steps 3 --model mlp --lengths ragged
expect "mlp: refused" [ "$code" -eq 2 ]
one_line "--lengths"
finish
