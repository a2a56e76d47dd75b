#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Elastic replicas: whatever leaves, joins or dies, exact mode has single's digest and loss, and fast mode the oracle's
# bits. Moved bytes are those of closed forms in Python, which know nothing of the program; memory and traffic after the
# last event those of a case of the members that are left. What is refused. Leaves out processes (test_elastic_mpi), the
# matrix of histories and models (test_elastic_slow), planted bugs (test_elastic_planted).
set -euo pipefail
. "$(dirname "$0")/lib.sh"

small="--model mlp:20-16-8-3 --data synthetic:70 --batch 16 --results none --format jsonl --eval-samples 0"
once="--waterfall no --blocks 1 --warmup 1 --steps 8"
exact="$small --reduce exact --lr-schedule cosine --dropout 0.2 --clip 0.5"

# A line each: layout, units of parameters | replicas, devices of one | events | options.
cat >table <<'T'
mirrored all | 4 1 | leave=3:2,join=3:6 | --strategy mirrored --devices 4
mirrored all | 3 1 | join=0:0,leave=1:3,join=2:3,leave=0:7 | --strategy mirrored --devices 3
mirrored all | 4 1 | leave=0:2 kill=2:5 kill=3:5 | --strategy mirrored --ranks 2 --devices 2 --inject kill=1:5
zero1 each | 4 1 | leave=1:2,join=1:5 | --strategy zero --devices 4 --bucket-bytes 0
zero2 all | 4 1 | leave=0:3,leave=2:5 | --strategy zero --zero-stage 2 --devices 4 --bucket-bytes 1MiB
zero3 each | 3 1 | leave=0:1,join=0:4 | --strategy zero --zero-stage 3 --devices 3 --bucket-bytes 0
mirrored all | 2 2 | leave=0:2,join=0:6 | --strategy hybrid --hybrid-inner pipeline --devices 4
hsdp3 all | 2 2 | join=1:3 kill=0:6 | --strategy hybrid --hybrid-inner zero --zero-stage 3 --ranks 2 --devices 2 --inject kill=0:6
T
python3 - >wanted <<'P'
import re
slots, sizes = 2, [20 * 16, 16, 16 * 8, 8, 8 * 3, 3] # of Adam
P = sum(sizes)
def share(unit, q, n, clips): # a unit is the sizes of its variables, each of one block
    blocks = unit if clips else [1] * sum(unit) # of the clip's norm, between which alone it is cut
    return range(sum(blocks[:q * len(blocks) // n]), sum(blocks[:(q + 1) * len(blocks) // n]))
def moved(layout, units, before, after, clips):
    joiners = len(set(after) - set(before))
    if layout == "mirrored":
        return joiners * 4 * P * (1 + slots)
    if layout == "hsdp3": # a group gets each element once
        return joiners * 4 * P * (1 + slots)
    kept = sum(len(set(share(u, before.index(d), len(before), clips)) & set(share(u, after.index(d), len(after), clips)))
               for u in units for d in before if d in after)
    stage = int(layout[-1])
    return 4 * (P - kept) * (slots + (stage == 3)) + (stage < 3) * joiners * 4 * P
for line in open("table"):
    kind, (replicas, each), events = kind_of = [f.split() for f in line.split("|")[:3]]
    events = [(k, int(d), int(s)) for f in events for k, d, s in re.findall(r"(leave|join|kill)=(\d+):(\d+)", f)]
    units = [[s] for s in sizes] if kind[1] == "each" else [sizes]
    first = {}
    for k, d, s in events:
        first.setdefault(d, k)
    members = [d for d in range(int(replicas)) if first.get(d) != "join"]
    total, counts = [0, 0], []
    for step in sorted({(s, k == "kill") for k, d, s in events}):
        at = [(k, d) for k, d, s in events if (s, k == "kill") == step]
        after = sorted((set(members) - {d for k, d in at if k != "join"}) | {d for k, d in at if k == "join"})
        total = [t + moved(kind[0], units, members, after, clips) for clips, t in enumerate(total)]
        counts += [len(after)] * len(at)
        members = after
    voids = len({s for k, d, s in events if k == "kill"})
    print(f"{[[s, k, d, n] for (k, d, s), n in zip(events, counts)]}|{total[0]}|{total[1]}|{voids}|{int(each) * len(members)}")
P

lockstep_ok run $exact $once --strategy single --save single.safetensors --verbose --gate-steps 1
keep single
while IFS='|' read -r layout _ events options <&3 && IFS='|' read -r list total clipped voids devices <&4; do
    flags=$options
    planned=$(grep -o '\(leave\|join\)=[0-9:]*' <<<"$events" | paste -sd,)
    [[ $events != *kill* ]] || flags+=" --on-failure shrink"
    lockstep_ok run $exact $once $flags --elastic "$planned" --save elastic.safetensors --verbose --gate-steps 1
    rows "exact: $events: $options" 'r["result"]["status"] == "ok" and r["equivalence"]["grade"] == "exact"
        and r["equivalence"]["digest"] == old("single")[0]["equivalence"]["digest"]
        and r["equivalence"]["oracle"] == "same bits" and r["train"]["losses"] == old("single")[0]["train"]["losses"]'
    expect "--save differs: $events: $options" cmp -s elastic.safetensors single.safetensors
    rows "group elastic: $events: $options" "[[e['step'], e['kind'], e['replica'], e['members']]
        for e in r['elastic']['events']] == $list and r['elastic']['moved_bytes'] == $clipped
        == sum(e['moved_bytes'] for e in r['elastic']['events']) and r['elastic']['void_steps'] == $voids
        and r['elastic']['paused_ms'] > 0 and len(r['memory']['devices']) == $devices
        and r['case']['elastic'] == '$planned'"
    lockstep_ok run $small $once $flags --elastic "$planned" --gate-steps 9
    rows "fast: $events: $options" "r['result']['status'] == 'ok' and r['equivalence']['oracle'] == 'same bits'
        and r['equivalence']['steps'] == 9 and r['elastic']['moved_bytes'] == $total"
done 3<table 4<wanted

# ---- Memory and traffic; a checkpoint between two events --------------------------------------

plain="$small --strategy zero --zero-stage 2 --allreduce ring $once --gate-steps 0"
lockstep_ok run $plain --devices 2
keep two
lockstep_ok run $plain --devices 3 --elastic leave=1:4
rows "memory and traffic after the last event" 'r["traffic"] == old("two")[0]["traffic"]
    and [{k: d[k] for k in d["formula"]} for d in r["memory"]["devices"]]
        == [{k: d[k] for k in d["formula"]} for d in old("two")[0]["memory"]["devices"]]
    and [d["device"] for d in r["memory"]["devices"]] == ["cpu:0", "cpu:2"]
    and len(r["case"]["devices"]) == 3'
elastic="--strategy zero --devices 4 --elastic leave=3:2,join=3:4,leave=0:6"
lockstep_ok run $exact $once $elastic --checkpoint saved --checkpoint-interval 4
lockstep_ok run $exact $once $elastic --resume-from-checkpoint saved/step-00000004
rows "events before a checkpoint's step have happened" 'r["equivalence"]["digest"]
    == old("single")[0]["equivalence"]["digest"] and r["checkpoint"]["resumed_step"] == 4
    and [e["step"] for e in r["elastic"]["events"]] == [4, 6]'

# ---- What is refused --------------------------------------------------------------------------

# refuse WORD OPTIONS..
refuse() {
    lockstep run $small $once "${@:2}"
    expect "${*:2}: status 2" test "$code" -eq 2
    expect "${*:2}: one line with '$1'" one_line "$1"
}
four="--strategy mirrored --devices 4"
refuse 'leave=4:2.* 4 replicas' $four --elastic leave=4:2
refuse 'join=1:3.*takes part already' $four --elastic leave=1:1,join=1:2,join=1:3
refuse 'leave=1:3.*does not take part' $four --elastic leave=1:2,leave=1:3
refuse 'kill=1:3.*does not take part' $four --elastic leave=1:2 --inject kill=1:3 --on-failure shrink
refuse 'after this event, no replica remains' --strategy mirrored --devices 2 --elastic leave=0:2,leave=1:2
refuse 'no replica takes part before step 2' --strategy mirrored --devices 2 --elastic join=0:2,join=1:4
refuse '--inject kill=1:3: replica 2 cannot leave' --strategy mirrored --ranks 2 --devices 2 \
    --elastic leave=2:2 --inject kill=1:3 --on-failure shrink
refuse 'two events' $four --elastic leave=1:2,join=1:2
refuse 'leave=1:9.* 9 steps' $four --elastic leave=1:9
refuse 'micro-shards.*fewer' $four --reduce exact --micro-shards 3 --elastic leave=1:3,join=1:5
refuse 'not valid' $four --elastic leave=1
refuse 'not valid' $four --elastic drop=1:2
refuse 'elastic.*applies to' --strategy pipeline --devices 2 --elastic leave=1:2
refuse 'elastic.*applies to' --strategy towers --devices 2 --elastic leave=1:2
refuse 'on-failure.*applies to' $four --on-failure shrink
refuse '--checkpoint' --strategy zero --devices 4 --inject kill=1:3 --on-failure shrink
refuse 'is spread over several ranks' --strategy hybrid --devices 4 --inject kill=1:3 --on-failure shrink
refuse 'kill=4:3.* 4 devices' $four --inject kill=4:3 --on-failure shrink
refuse 'leaves before this step' $four --elastic leave=1:3 --inject bitflip=1:5
lockstep predict --strategy mirrored --devices 2 --platform flat:latency=1us,bandwidth=1GB/s --elastic leave=1:2
expect "predict refuses it" one_line 'elastic'
small=${small/--batch 16/--batch 3}
refuse 'batch.*fewer' $four --elastic leave=1:3,join=1:5
# three of four at a time: a batch of three is enough
lockstep_ok run $small $once $four --elastic leave=0:4,join=3:4
rows "never more members than samples" 'r["equivalence"]["oracle"] == "same bits"'
finish
