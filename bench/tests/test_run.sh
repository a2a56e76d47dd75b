#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `lockstep run` and `verify` as the command-line page promises: fields of a row and their types, steps and epochs,
# lists, parameter files, digests that depend only on what they should, the gate, the memory ledger, plans. Leaves out
# numbers (test_arithmetic), refusals (test_refusals), the database (test_results), interrupts (test_interrupt).
set -euo pipefail
. "$(dirname "$0")/lib.sh"

small="--model mlp:20-8-3 --data synthetic:100 --batch 32 --results none --format jsonl"
poly="--model poly --results none --format jsonl"

# ---- The row ----------------------------------------------------------------------------------

fields() { # checks names, types and plausibility of every row; $1 is what was asked for
    local why
    checks=$((checks + 1))
    why=$(python3 - out "$1" 2>&1 <<'P'
import json, sys

TEXT, WHOLE, NUMBER, LOGICAL, LIST, GROUP = str, int, (int, float), bool, list, dict
CASE = dict(model=TEXT, data=TEXT, strategy=TEXT, devices=LIST, ranks=WHOLE, hosts=WHOLE,
            batch_global=WHOLE, batch_per_device=LIST, scaling=TEXT, steps=WHOLE, warmup=WHOLE,
            seed=WHOLE, optimizer=TEXT, lr=NUMBER, reduce=TEXT, comm=TEXT, memory=TEXT)
STEP = dict(mean=NUMBER, median=NUMBER, p10=NUMBER, p90=NUMBER, p99=NUMBER, ci95=LIST, n=WHOLE)
TIME = dict(step_ms=GROUP, samples_per_s=NUMBER, samples_per_s_mean=NUMBER, host_us=NUMBER, setup_ms=NUMBER, mfu=NUMBER)
DEVICE = dict(device=TEXT, parameters=WHOLE, gradients=WHOLE, optimizer=WHOLE, activations=WHOLE,
              communication=WHOLE, workspace=WHOLE, reserved=WHOLE, peak=WHOLE, formula=GROUP)
PROVENANCE = dict(commit=TEXT, dirty=LOGICAL, build_type=TEXT, compiler=TEXT, libraries=GROUP,
                  kernels=GROUP, cpu=TEXT, cores_per_device=LIST, oversubscribed=LOGICAL, host=TEXT)
LEDGER = ("parameters", "gradients", "optimizer", "activations", "communication", "workspace")
OTHERS = ("convolution", "towers_", "ps_", "model_parallel_", "pipeline_", "hybrid_", "sync_bn", "allreduce",
          "bucket_bytes", "augment", "link", "inject")

def has(group, names, where):
    for name, kind in names.items():
        assert name in group, f"{where}.{name} is missing"
        value = group[name]
        right = isinstance(value, kind) and (kind is LOGICAL or not isinstance(value, bool))
        assert right, f"{where}.{name} is {value!r}"

def absent(group, names, where):
    for name in names:
        assert name not in group, f"{where}.{name} does not apply: {group[name]!r}"

def no_null(value, where):
    assert value is not None, f"{where} is null"
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value,
            list) else ()
    for key, child in children:
        no_null(child, f"{where}.{key}")

def judge(r, asked):
    no_null(r, "row")
    has(r, dict(schema=WHOLE, id=TEXT, timestamp=TEXT, command=TEXT, case=GROUP, result=GROUP,
                equivalence=GROUP, provenance=GROUP), "row")
    assert r["schema"] == 1
    absent(r, ("traffic", "lead", "staleness", "dropped", "micro"), "row")
    has(r["case"], CASE, "case")
    for name in r["case"]:
        assert not name.startswith(OTHERS), f"case.{name} is no part of this case"
    case = r["case"]
    assert sum(case["batch_per_device"]) == case["batch_global"], "batch_per_device"
    if case["reduce"] != "exact":
        absent(case, ("micro_shards",), "case")
    if "label" not in asked:
        absent(r, ("label",), "row")
    assert r["result"]["status"] == "ok", r["result"]
    absent(r["result"], ("reason",), "result")
    has(r["provenance"], PROVENANCE, "provenance")
    absent(r["provenance"], ("gpu", "driver", "mpi"), "provenance")
    assert r["provenance"]["libraries"] and r["provenance"]["kernels"], "provenance is not complete"
    assert len(r["provenance"]["cores_per_device"]) == len(case["devices"]), "cores_per_device"
    gate = r["equivalence"]
    has(gate, dict(grade=TEXT, digest=TEXT), "equivalence")
    if gate["grade"] == "none":
        absent(gate, ("pass", "max_ulp", "max_rel", "bound", "steps", "reference_digest"),
                "equivalence")
    else:
        has(gate, {"pass": LOGICAL, "max_ulp": WHOLE, "max_rel": NUMBER, "bound": NUMBER,
                   "steps": WHOLE, "oracle": TEXT}, "equivalence")
        assert gate["pass"] and gate["oracle"] == "same bits", gate
        assert gate["grade"] == ("exact" if case["reduce"] == "exact" else "bounded"), gate
        every = gate["steps"] == case["steps"] + case["warmup"]
        assert ("reference_digest" in gate) == every, "reference_digest: all steps?"
        assert not every or gate["reference_digest"] == gate["digest"]
    if "verify" in asked:
        absent(r, ("time", "waterfall"), "row")
        return
    if case["steps"] == 0:
        absent(r, ("time", "waterfall"), "row")
    else:
        has(r["time"], TIME, "time")
        has(r["time"]["step_ms"], STEP, "time.step_ms")
        s = r["time"]["step_ms"]
        left_out = r["time"].get("discarded", 0)
        assert s["n"] + left_out == case["steps"] and left_out <= case["steps"] / 4, "n counts the timed steps"
        assert 0 < s["p10"] <= s["median"] <= s["p90"] <= s["p99"], s
        parts = r["waterfall"]
        has(parts, dict(compute_ms=NUMBER, optimizer_ms=NUMBER, harness_ms=NUMBER), "waterfall")
        absent(parts, ("comm_exposed_ms", "wait_ms"), "waterfall")
        assert abs(sum(parts.values()) / s["mean"] - 1) < 1e-9, "the parts are the mean step"
        assert ("exact_cost" in r["time"]) == (case["reduce"] == "exact"), "exact_cost"
        assert len(s["ci95"]) == 2 and s["ci95"][0] <= s["median"] <= s["ci95"][1], s
        assert r["time"]["mfu"] > 0
        rate, mean_rate = r["time"]["samples_per_s"], r["time"]["samples_per_s_mean"]
        of_mean = case["batch_global"] / (s["mean"] / 1000)
        if abs(mean_rate / of_mean - 1) < 1e-6: # all batches are full
            absent(r["time"], ("samples_per_s_of",), "time")
            assert abs(rate / (case["batch_global"] / (s["median"] / 1000)) - 1) < 1e-6, "samples_per_s"
        else:
            assert "epochs" in case and mean_rate < of_mean, "samples_per_s_mean"
            assert r["time"]["samples_per_s_of"] == "mean" and rate == mean_rate, "samples_per_s of a tail"
        if r["time"]["blocks"] > 1:
            low, high = r["time"]["samples_per_s_mean_ci95"]
            assert low <= mean_rate <= high, "samples_per_s_mean_ci95"
        apart = max(rate, mean_rate) / min(rate, mean_rate)
        warnings = r["result"].get("warnings", [])
        warned = "skewed" in warnings
        wide = s["ci95"][1] - s["ci95"][0] > 0.1 * s["median"]
        if "samples_per_s_of" in r["time"]: # as the interval of the mean step
            wide = mean_rate / low - mean_rate / high > 0.1
        disturbed = any(note.startswith("noisy: ") for note in r["result"].get("notes", []))
        assert all(note.split(":")[0] in warnings for note in r["result"].get("notes", [])), r["result"]
        assert ("noisy" in warnings) == (wide or disturbed), f"{s['ci95']} of {s['median']}, warned: {warnings}"
        few = r["time"]["blocks"] < 20 or r["time"]["timed_s"] < 1
        assert ("short" in warnings) == few, f"{r['time']}, warned: {warnings}"
        crowded = r["provenance"]["oversubscribed"]
        assert ("oversubscribed" in warnings) == crowded, f"oversubscribed: {crowded}: {warnings}"
        assert warned == (apart > 1.1) or abs(apart - 1.1) < 1e-9, f"{apart}, warned: {warned}"
        if "baseline" not in asked:
            absent(r["time"], ("speedup", "efficiency"), "time")
    train = r["train"]
    if case["steps"] + case["warmup"] > 0:
        has(train, dict(loss_first=NUMBER, loss_last=NUMBER), "train")
    if "verbose" in asked:
        has(train, dict(losses=LIST), "train")
        assert len(train["losses"]) == case["steps"], "one loss per timed step"
        assert not train["losses"] or train["losses"][-1] == train["loss_last"]
    else:
        absent(train, ("losses",), "train")
    if "target" not in asked:
        absent(train, ("target", "steps_to_target", "seconds_to_target"), "train")
    if case["model"].startswith("mlp") and case["steps"] + case["warmup"] > 0:
        has(train, dict(accuracy=NUMBER), "train")
        assert 0 <= train["accuracy"] <= 1
    if case["model"] == "poly":
        absent(train, ("accuracy",), "train")
    memory = r["memory"]
    has(memory, dict(devices=LIST), "memory")
    assert ("rss_peak" in memory) == (len(rows) == 1), "rss_peak is of the process, not of a case"
    assert memory.get("rss_peak", 1 << 30) > 1 << 20
    assert [d["device"] for d in memory["devices"]] == case["devices"]
    for device in memory["devices"]:
        has(device, DEVICE, "memory.devices")
        for name in LEDGER:
            formula = device["formula"].get(name)
            assert formula == device[name], f"memory: {name} {device[name]}, formula {formula}"
        assert device["peak"] >= sum(device[name] for name in
                LEDGER), "peak is below what is in use"
        assert device["reserved"] >= device["peak"], "more in use than reserved"
    if case["steps"] > 0:
        assert memory["growth_per_step"] == 0, f"grows by {memory['growth_per_step']} a step"
    if "--capture no" in r["command"]: # no program, so no time to build one
        assert case["capture"] is False
        absent(r, ("program",), "row")
        absent(r.get("time", {}), ("build_ms",), "time")
        return
    assert "time" not in r or r["time"]["build_ms"] > 0
    has(r["program"], dict(nodes=WHOLE, bytes=WHOLE), "program")
    assert r["program"]["nodes"] > 2 and r["program"]["bytes"] > 0

rows = [json.loads(line) for line in open(sys.argv[1])]
assert rows, "no row"
wrong = []
for row in rows:
    try:
        judge(row, sys.argv[2])
    except AssertionError as e:
        wrong.append(str(e))
assert len({row["id"] for row in rows}) == len(rows), "ids are not unique"
if wrong:
    sys.exit("\n".join(sorted(set(wrong))))
P
    ) || { wrong "a row is not as promised ($1)"; printf '%s\n' "$why" | sed 's/^/  /'; }
}

lockstep_ok run $small --steps 12
fields ""
keep plain
rows "parameters are counted to the byte" \
    "r['memory']['devices'][0]['parameters'] == 4 * (20 * 8 + 8 + 8 * 3 + 3)"
rows "Adam keeps two values a parameter" \
    "r['memory']['devices'][0]['optimizer'] == 2 * r['memory']['devices'][0]['parameters']"
rows "the command is in the row" "'--steps 12' in r['command']"
lockstep_ok run $poly --steps 5
fields ""
rows "poly's defaults" "r['case']['batch_global'] == 100 and r['case']['lr'] == 0.1 and
    r['case']['optimizer'].startswith('adam') and r['case']['data'].startswith('synthetic')"
lockstep_ok run $poly --steps 7 --warmup 2 --verbose
fields "verbose"
lockstep_ok run $small --steps 0 --warmup 3
fields ""
rows "warm-up alone is trained" "r['case']['warmup'] == 3 and r['train']['loss_last'] > 0"
lockstep_ok run $small --reduce exact,fast --steps 3 --math float32 --capture no
fields ""
rows "micro-shards belong to the exact case" \
    "sorted(x['case'].get('micro_shards', 0) for x in rows) == [0, 16]"
lockstep_ok run $poly --steps 3 --baseline yes
fields "baseline"
rows "single beside itself" "'speedup' in r['time'] and 'efficiency' in r['time']"
lockstep_ok run $poly --strategy single,mirrored --batch 10,20,30,40,50 --steps 20
rows "a case beyond a group of 8 has the command's single" \
    "len(rows) == 10 and all('speedup' in x['time'] and 'efficiency' in x['time'] for x in rows)"
for optimizer in sgd momentum:0.5 rmsprop adam:beta1=0.8,beta2=0.99,eps=1e-7; do
    lockstep_ok run $small --steps 3 --optimizer $optimizer
    fields ""
    rows "the optimizer is named" "r['case']['optimizer'].startswith('${optimizer%%:*}')"
    rows "memory of $optimizer" "r['memory']['devices'][0]['optimizer'] == 780 *
        dict(sgd=0, momentum=1, rmsprop=1, adam=2)['${optimizer%%:*}']"
done

# ---- Steps and epochs -------------------------------------------------------------------------

lockstep_ok run $poly --data synthetic:100 --batch 30 --epochs 2 --warmup 3 --verbose
fields "verbose"
rows "an epoch is ceil(N/B) steps, the warm-up among them" \
    "(r['case']['epochs'], r['case']['warmup'], r['case']['steps']) == (2, 3, 5)"
rows "samples of the timed steps over their time" "abs(r['time']['samples_per_s_mean'] /
    ((200 - 90) / (r['time']['step_ms']['mean'] * 5 / 1000)) - 1) < 1e-6"
keep epochs
lockstep_ok run $poly --data synthetic:100 --batch 30 --epochs 2 --warmup 8
rows "two epochs are eight steps however they are timed" \
    "r['case']['steps'] == 0 and 'time' not in r and r['equivalence']['digest'] == digest('epochs')"
lockstep_ok run $poly --data synthetic:100 --batch 300 --epochs 3 --warmup 0
fields ""
rows "a batch above N" "r['case']['steps'] == 3 and r['case']['batch_global'] == 300"
lockstep_ok run $poly --data synthetic:100 --batch 25 --epochs 2 --warmup 0
keep whole
lockstep_ok run $poly --data synthetic:100 --batch 25 --steps 8 --warmup 0
rows "whole epochs are steps" "r['equivalence']['digest'] == digest('whole')"
lockstep_ok run $poly --data synthetic:100 --batch 30 --steps 8 --warmup 0
rows "with steps every batch is full" "r['equivalence']['digest'] != digest('epochs')"

# An epoch of batches of 30 and 1 samples: half of the steps are short, and no rate is of the median step.
lockstep_ok run $poly --data synthetic:31 --batch 30 --epochs 10 --warmup 0 --strategy single,mirrored
rows "a tail is no full batch" "all(x['time']['samples_per_s_of'] == 'mean' and 'skewed' not in x['result']['warnings']
    and 12 < x['time']['samples_per_s'] * x['time']['step_ms']['mean'] / 1000 < 20 for x in rows)"
rows "mfu and speed-up are of the same samples" "all(abs(x['time']['mfu'] * x['time']['roof_gflops'] /
    x['time']['samples_per_s'] / (r['time']['mfu'] * r['time']['roof_gflops'] / r['time']['samples_per_s']) - 1) < 1e-6
    and abs(x['time']['speedup'] * r['time']['samples_per_s'] / x['time']['samples_per_s'] - 1) < 1e-6 for x in rows)"

# One step says nothing of how long another takes.
lockstep_ok run $poly --steps 1 --warmup 0 --strategy single,mirrored
rows "one step has no interval" "all('ci95' not in x['time']['step_ms'] and x['time']['step_ms']['n'] == 1
    and 'samples_per_s_mean_ci95' not in x['time'] for x in rows)"
lockstep_ok run ${poly/--format jsonl/} --steps 1 --warmup 0 --strategy single,mirrored
expect "one step ranks nothing" grep -q '^fastest: cannot be told; without an interval, so not ranked: ' out

# ---- The roof ---------------------------------------------------------------------------------

shared=$XDG_CACHE_HOME
export XDG_CACHE_HOME=$work/roofs # measured here, then changed
roofs() { # EXPRESSION over `roofs`, the cached figures by key; may change them
    python3 - "$XDG_CACHE_HOME/lockstep/roofs.json" "$1" <<'P'
import json, sys
roofs = json.load(open(sys.argv[1]))
good = eval(sys.argv[2])
json.dump(roofs, open(sys.argv[1], "w"))
sys.exit(not good)
P
}
products="--model mlp:784-256-10 --data synthetic:512 --batch 256 --steps 10 --gate-steps 1"
images="--model resnet:8 --data synthetic:64 --batch 32 --steps 2 --warmup 1 --gate-steps 1"
lockstep_ok run $products --results none --format jsonl
rows "a roof" "r['time']['roof_gflops'] > 0.001"
kind=$(sed -n '/^$/q; s/^\(cpu family\|model\|stepping\)[ \t]*: *//p' /proc/cpuinfo | paste -sd-)
[ -z "$kind" ] || expect "its key names the kind of processor" roofs "all('|$kind ' in key for key in roofs)"
expect "roofs made low" roofs "roofs.update({key: 1e6 for key in roofs}) is None"
lockstep_ok run $images --results none --format jsonl
rows "convolutions with fewer FLOPs than are counted say nothing of the roof" "any('winograd' in k
    for k in r['provenance']['kernels'].values()) == (r['time']['roof_gflops'] < 0.0011)"
expect "roofs made low again" roofs "roofs.update({key: 1e6 for key in roofs}) is None"
lockstep_ok run $products --results none --format jsonl
rows "a roof that a step beats is measured again" "r['time']['roof_gflops'] > 0.01"
expect "and kept" roofs "min(roofs.values()) > 1e7"
expect "roofs made high" roofs "roofs.update({key: 1e18 for key in roofs}) is None"
lockstep_ok run $products --results none --format jsonl
rows "one that no step beats is not" "r['time']['roof_gflops'] > 0.9e9"
XDG_CACHE_HOME=$shared

# ---- Lists ------------------------------------------------------------------------------------

lockstep_ok run $poly --steps 2,3 --batch 10,20 --seed 4,5
fields ""
rows "lists make their product" "sorted((x['case']['steps'], x['case']['batch_global'],
    x['case']['seed']) for x in rows) ==
    [(s, b, n) for s in (2, 3) for b in (10, 20) for n in (4, 5)]"
lockstep run $poly --steps 2 --reduce fast,exact --micro-shards 4,8
expect "status 0" [ "$code" -eq 0 ]
rows "an option that does not concern a case is no part of it" \
    "sorted(x['case'].get('micro_shards', 0) for x in rows) == [0, 4, 8]"
lockstep run $poly --steps 2 --seed 3,3
expect "status 0" [ "$code" -eq 0 ]
rows "each case once" "len(rows) == 1"
lockstep_ok run $poly --steps 2 --optimizer adam:beta1=0.8,beta2=0.9,sgd --lr 1e-4
rows "a comma before name= continues the value" "len(rows) == 2"
lockstep run $poly --steps 2 --devices 1,2
expect "status 0" [ "$code" -eq 0 ]
expect "a case left out is one line" [ "$(wc -l <err)" -eq 1 ]
rows "the other case runs" "len(rows) == 1"
lockstep run $poly --steps 2 --devices 1,2 --load none.safetensors
expect "a refusal is one line, without the case left out" one_line none.safetensors
lockstep run --model resnet:8 --data synthetic:8 --batch 2 --steps 1 --warmup 0 --gate-steps 0 --results none \
    --format jsonl --sync-bn no,yes --reduce fast,exact --strategy single,model-parallel
expect "statistics of the batch: a line for each case that would lack them" [ "$code" -eq 0 -a \
    "$(grep -c 'left out.*resnet:8' err)" -eq 3 ]
rows "the others run" "len(rows) == 5"
lockstep_ok run $poly --steps 2 --scaling weak,strong --batch 24
fields ""
rows "both ways of scaling" "sorted(x['case']['scaling'] for x in rows) == ['strong', 'weak'] and
    all(x['case']['batch_global'] == 24 and x['case']['batch_per_device'] == [24] for x in rows)"
lockstep_ok run $poly --steps 2 --data synthetic:50,synthetic:200 --batch 7
rows "two data sets are two cases" "len(rows) == 2"
rows "cases of two data sets can be told apart" "rows[0]['case'] != rows[1]['case']"

# ---- What digests depend on -------------------------------------------------------------------

same() { # WHAT OPTIONS...: 15 steps run differently give the bits of 15 steps
    local what=$1
    shift
    lockstep run $small "$@"
    expect "status 0" [ "$code" -eq 0 ]
    rows "the same bits $what" "[x['equivalence']['digest'] for x in rows
        if x['case']['seed'] == 1] == [digest('$reference')]"
}
for reduce in fast exact; do
    reference=reference_$reduce
    lockstep_ok run $small --reduce $reduce --steps 10 --warmup 5
    keep $reference
    for split in "15 0" "0 15" "1 14"; do
        same "with $split timed and not" --reduce $reduce --steps ${split% *} --warmup ${split#* }
    done
    same "again" --reduce $reduce --steps 10 --warmup 5
    same "step by step" --reduce $reduce --steps 10 --warmup 5 --capture no
    same "in one block" --reduce $reduce --steps 10 --warmup 5 --blocks 1
    same "in seven blocks" --reduce $reduce --steps 10 --warmup 5 --blocks 7
    same "with progress" --reduce $reduce --steps 10 --warmup 5 --progress yes
    same "with verbose rows" --reduce $reduce --steps 10 --warmup 5 --verbose
    same "without the gate" --reduce $reduce --steps 10 --warmup 5 --gate-steps 0
    same "with all steps compared" --reduce $reduce --steps 10 --warmup 5 --gate-steps 15
    same "with one core said" --reduce $reduce --steps 10 --warmup 5 --cores-per-device 1
    same "in memory taken at once" --reduce $reduce --steps 10 --warmup 5 --memory fraction=0.05
    same "beside a baseline" --reduce $reduce --steps 10 --warmup 5 --baseline yes
    same "on another device" --reduce $reduce --steps 10 --warmup 5 --cpu-devices 2 --devices cpu:1
    rows "which the row names" "r['case']['devices'] == ['cpu:1']"
    same "beside other cases" --reduce $reduce --steps 10 --warmup 5 --seed 1,2
    rows "whose seeds give other bits" \
        "len({x['equivalence']['digest'] for x in rows}) == 2"
done
for other in "--seed 2" "--warmup 6" "--lr 0.002" "--shuffle no" "--optimizer rmsprop"; do
    [ "${other% *}" = --warmup ] && fifth= || fifth="--warmup 5"
    lockstep_ok run $small --steps 10 $fifth $other
    rows "other bits with $other" "r['equivalence']['digest'] != digest('reference_fast')"
done

# ---- Parameter files --------------------------------------------------------------------------

lockstep_ok run $small --steps 0 --warmup 0 --save initial.safetensors
fields ""
keep initial
expect "initial values are written" [ -s initial.safetensors ]
lockstep_ok run $small --seed 9 --steps 0 --warmup 0 --load initial.safetensors --save \
    again.safetensors
rows "loaded values have the digest of those saved" \
    "r['equivalence']['digest'] == digest('initial')"
expect "a file loaded and saved is the same" cmp -s initial.safetensors again.safetensors
python3 - <<'P' # the same in two files and their index
import json, struct
raw = open("initial.safetensors", "rb").read()
first = 8 + struct.unpack_from("<Q", raw)[0]
tensors = json.loads(raw[8:first])
place = {}
for number, name in enumerate(tensors):
    place[name] = f"shard-{number % 2}.safetensors"
for shard in set(place.values()):
    header, data = {}, b""
    for name in (one for one in tensors if place[one] == shard):
        begin, end = tensors[name]["data_offsets"]
        header[name] = {**tensors[name], "data_offsets": [len(data), len(data) + end - begin]}
        data += raw[first + begin:first + end]
    text = json.dumps(header).encode()
    open(shard, "wb").write(struct.pack("<Q", len(text)) + text + data)
json.dump({"metadata": {}, "weight_map": place}, open("model.safetensors.index.json", "w"))
P
lockstep_ok run $small --seed 9 --steps 0 --warmup 0 --load model.safetensors.index.json
rows "an index of shards has the digest of its parameters" "r['equivalence']['digest'] == digest('initial')"
lockstep_ok run $small --strategy mirrored --devices 3 --steps 6 --save alone.safetensors
lockstep_ok run $small --strategy mirrored --devices 3 --steps 6 --baseline yes --save beside.safetensors
expect "a baseline's parameters are not what is saved" cmp -s alone.safetensors beside.safetensors
lockstep_ok verify $small --strategy mirrored --devices 3 --steps 6 --save checked.safetensors
expect "verify saves what it has checked" cmp -s alone.safetensors checked.safetensors
lockstep_ok verify $small --strategy ps --ps-mode async --devices 1 --steps 6 --save checked.safetensors
lockstep_ok run $small --steps 6 --save alone.safetensors
expect "of parameters that come one by one, too" cmp -s alone.safetensors checked.safetensors
lockstep_ok verify $small --strategy independent --devices 2 --steps 6 --save checked.safetensors
lockstep_ok run $small --strategy independent --devices 2 --steps 6 --save alone.safetensors
expect "of the first of replicas that train alone, too" cmp -s alone.safetensors checked.safetensors
lockstep_ok run $small --steps 10 --warmup 5 --load initial.safetensors
rows "training from a file of initial values" \
    "r['equivalence']['digest'] == digest('reference_fast')"
# sgd has no state, and six steps of 32 are two passes over 96 samples in file order.
sgd="--model mlp:20-8-3 --data synthetic:96 --batch 32 --optimizer sgd --lr 0.05 --shuffle no
     --warmup 0 --results none --format jsonl"
for reduce in fast exact; do
    lockstep_ok run $sgd --reduce $reduce --steps 12
    keep twelve
    lockstep_ok run $sgd --reduce $reduce --steps 6 --save half.safetensors
    rows "half of it differs" "r['equivalence']['digest'] != digest('twelve')"
    lockstep_ok run $sgd --reduce $reduce --steps 6 --load half.safetensors
    rows "six steps, a file, six steps: twelve" "r['equivalence']['digest'] == digest('twelve')"
done
lockstep_ok run $poly --steps 3 --save over.safetensors
lockstep_ok run $poly --steps 4 --save over.safetensors
keep over
lockstep_ok run $poly --steps 0 --warmup 0 --load over.safetensors
rows "the later save stays" "r['equivalence']['digest'] == digest('over')"

# ---- The gate and verify ----------------------------------------------------------------------

lockstep_ok run $small --steps 30 --warmup 2
rows "ten steps are compared" "r['equivalence']['steps'] == 10"
lockstep_ok run $small --steps 3 --warmup 2
rows "or fewer where there are fewer" "r['equivalence']['steps'] == 5"
lockstep_ok run $small --steps 3 --warmup 2 --gate-steps 4
fields ""
rows "or as many as asked" "r['equivalence']['steps'] == 4"
lockstep_ok run $small --steps 3 --gate-steps 0
fields ""
rows "or none, and the row says so" "r['equivalence']['grade'] == 'none'"
for reduce in fast exact; do
    lockstep_ok verify $small --steps 10 --warmup 5 --reduce $reduce
    fields "verify"
    rows "verify compares all and finds the bits of run" "r['equivalence']['steps'] == 15 and
        r['equivalence']['digest'] == digest('reference_$reduce')"
done
lockstep_ok verify --model poly,mlp:20-3 --data synthetic:50 --steps 4 --batch 10 --results none
expect "verify's table names the models" grep -q 'poly.*ok' out
expect "verify's table has both" grep -q 'mlp:20-3.*ok' out

# ---- Targets ----------------------------------------------------------------------------------

lockstep_ok run $poly --steps 200 --warmup 0 --target loss=5000 --verbose
fields "target verbose"
rows "mean of ten steps, each ten steps" "r['train']['steps_to_target'] == next(k for k in
    range(10, 201, 10) if sum(r['train']['losses'][k - 10:k]) / 10 <= 5000)"
for warmup in 0 10; do # a target that every loss reaches, after the first ten steps
    lockstep_ok run $poly --steps 10 --warmup $warmup --target loss=1e30
    rows "the time of the steps to it, with the warm-up's" "r['train']['steps_to_target'] == 10 and
        ($warmup > 0 or abs(r['train']['seconds_to_target'] / (10e-3 * r['time']['step_ms']['mean']) - 1) < 1e-9) and
        r['train']['seconds_to_target'] > 0"
done
lockstep_ok run $poly --steps 20 --target loss=1e-9
rows "a target that is not reached" \
    "'target' in r['train'] and not {'steps_to_target', 'seconds_to_target'} & r['train'].keys()"
learn="--model mlp:784-10 --data synthetic:500 --batch 50 --results none --format jsonl"
for epochs in 1 2 3; do
    lockstep_ok run $learn --epochs $epochs
    keep accuracy$epochs
done
lockstep_ok run $learn --epochs 3 --target accuracy=0.3
rows "accuracy is looked at after each epoch" \
    "r['train'].get('steps_to_target') == next((10 * e for e in
    (1, 2, 3) if old('accuracy%d' % e)[0]['train']['accuracy'] >= 0.3), None)"
rows "which changes nothing" "r['equivalence']['digest'] == digest('accuracy3')"

# ---- How much is evaluated --------------------------------------------------------------------

tested="--model mlp:784-10 --data synthetic:18000 --batch 50 --warmup 0 --results none --format jsonl" # 3,000 samples
for options in "1000 --steps 3" "1500 --steps 30" "3000 --steps 60" "3000 --epochs 1" "70 --steps 3 --eval-samples 70" \
    "3000 --steps 3 --eval-samples all" "3000 --steps 3 --eval-samples 99999" \
    "3000 --epochs 1 --eval-samples 70 --target accuracy=1"; do
    lockstep_ok run $tested ${options#* }
    rows "evaluated: $options" "r['train']['evaluated'] == ${options%% *} and
        abs(r['train']['accuracy'] * ${options%% *} - round(r['train']['accuracy'] * ${options%% *})) < 1e-6"
done
lockstep_ok run $tested --steps 3 --eval-samples 0
rows "nothing is evaluated" "r['result']['status'] == 'ok' and not {'accuracy', 'evaluated'} & set(r['train']) and
    r['case']['eval_samples'] == 0"
lockstep_ok run --model gpt:1-2-8-8-16 --data synthetic:6000 --batch 4 --steps 3 --results none --format jsonl
rows "of tokens 64 windows" "r['train']['evaluated'] == 64 and 'eval_samples' not in r['case']"
# Batches of unequal rows, and a number of samples that no batch divides: each sample is counted once.
lockstep run $tested --steps 3 --reduce exact --eval-samples 1999 --devices 1,2,3,7 --gate-steps 1 \
    --strategy single,mirrored,zero,towers,ps
rows "all numbers of devices evaluate alike" \
    "len(rows) == 17 and len({x['train']['accuracy'] for x in rows}) == 1 and r['train']['evaluated'] == 1999"
lockstep_ok run $tested --steps 3 --save saved
for strategy in single mirrored "zero --zero-stage 3" "hybrid --hybrid-replicas 2 --devices 4" gossip; do
    case $strategy in single | hybrid*) devices= ;; *) devices="--devices 3" ;; esac
    lockstep_ok run $tested --load saved --steps 0 --eval-samples 1999 --strategy $strategy $devices
    rows "the same parameters by $strategy" "r['train']['accuracy'] == old('evaluated')[0]['train']['accuracy']
        if '$strategy' != 'single' else r['train']['evaluated'] == 1999"
    [ "$strategy" != single ] || keep evaluated
done

# ---- Devices ----------------------------------------------------------------------------------

lockstep_ok run $poly --steps 2 --cpu-devices 1 --devices /cpu:0
rows "not oversubscribed" "r['provenance']['oversubscribed'] is False"
lockstep_ok run $poly --steps 2 --cpu-devices 300 --devices cpu:299
rows "more devices than cores work" "r['case']['devices'] == ['cpu:299']"
lockstep run $small --steps 3 --memory fraction=1e-10
expect "too little memory is status 3" [ "$code" -eq 3 ]
rows "the row is an error that names bytes and what they are for" \
    "r['result']['status'] == 'error' and
    'time' not in r and 'bytes' in r['result']['reason'] and '780' in r['result']['reason'] and
    'parameters' in r['result']['reason'] and '\n' not in r['result']['reason']"

# ---- Plans ------------------------------------------------------------------------------------

printf 'model: mlp:20-8-3\ndata: synthetic:100\nbatch: 32\nsteps: 10\nwarmup: 5\n' >plan.yaml
lockstep_ok run --plan plan.yaml --results none --format jsonl
rows "a plan is its options" "r['equivalence']['digest'] == digest('reference_fast')"
printf '%s\n' 'model: poly' 'steps: [2, 3]' 'seed: [4, 5]' 'shuffle: no' \
    'optimizer: "adam:beta1=0.8,beta2=0.9"' >plan.yaml
lockstep_ok run --plan plan.yaml --results none --format jsonl
rows "lists in a plan" "sorted((x['case']['steps'], x['case']['seed']) for x in rows) ==
    [(2, 4), (2, 5), (3, 4), (3, 5)] and all('beta1=0.8' in x['case']['optimizer'] for x in rows)"
cp out plan.rows
lockstep_ok run $poly --steps 2,3 --seed 4,5 --shuffle no --optimizer adam:beta1=0.8,beta2=0.9
cp plan.rows plan.kept
rows "a plan gives the bits of the command line" \
    "sorted(x['equivalence']['digest'] for x in rows) ==
    sorted(x['equivalence']['digest'] for x in old('plan'))"

# ---- What is said while it runs ---------------------------------------------------------------

lockstep run $poly --steps 20 --progress yes
expect "progress is plain lines on stderr" grep -Eq '^case 1/1 single 1 cpu, [a-z-]+, [0-9]+:[0-9]+ (left  [0-9]+%|so far)' err
expect "without control characters" [ -z "$(tr -d '[:print:]\n' <err)" ]
lockstep_ok run $poly --steps 20 --quiet
lockstep_ok run $poly --steps 20 --progress no
lockstep_ok run $poly --steps 20 --quiet=yes

# What a recipe promises is a column: a pipeline's idle share, also by the closed form; lead and staleness of ps.
small="--model mlp:20-30-8-3 --data synthetic:100 --batch 16 --steps 20 --gate-steps 0 --results none --devices 2"
lockstep_ok run $small --strategy pipeline --pipeline-microbatches 3 --baseline
expect "idle share, and (p-1)/(m+p-1)" eval "grep -q ' idle if equal ' out && grep -qE '^pipeline .* 25% ' out"
lockstep_ok run $small --strategy ps --ps-mode ssp,async
expect "lead and staleness" grep -q ' max lead mean stale ' out

finish
