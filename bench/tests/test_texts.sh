#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Texts of a row come back the same: hostile names of files, and numbers, from a row through the report's plan, through
# a list of the command line, and through the row's command and the line of `advise`.
# Without gnuplot a report has no pictures, and its plan is the same.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cat >texts.py <<'P'
import json, os, struct, subprocess, sys

names = ["a,b", "a, ? b", "it's", "'quoted' name", '"q"', "a#b # c", " lead", "trail ", "-dash", "--batch=3", "+x",
         "a: b", "{a}", "[b]", "&a", "*a", "!t", "%d", "`x`", "$HOME", "a\\b", "a\\,b", "a\\", "new\nline", "tab\t",
         "\x1b[1m", "\x7f", "\u0085", "\u00b5\u20ac", "\u202erl", "\ufeffbom", "\u2028", "\U0001f600", "1e-7", "yes",
         "null", "~", ",", ",x=1", "a=b,c=d", "? x", "a;b&c", "''", "x\r"]
header = json.dumps({"x0": {"dtype": "F32", "shape": [4, 1], "data_offsets": [0, 16]},
                     "y": {"dtype": "F32", "shape": [4], "data_offsets": [16, 32]}}).encode()
data = ["file:" + name + ".safetensors" for name in names]
quotes = "file:" + 25 * "'a " + ".safetensors" # where a heading is wrapped, the next line begins with a quote
for name in data + [quotes]:
    with open(name.removeprefix("file:"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + struct.pack("<8f", *range(8)))
rates = ["1e-7", "0.30000000000000004", "3.3333333333333333e-5", "+0.5"]
short = ("--steps 1 --warmup 0 --batch 2 --blocks 1 --gate-steps 0 --waterfall no --quiet "
         "--results none --format jsonl").split()


def rows(*arguments):
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{arguments[:6]}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def same(what, got, rows):
    for one, row in zip(got, rows):
        if one["case"] != row["case"]:
            sys.exit(f"{what}: {one['case']}\nis not {row['case']}")
    if len(got) != len(rows):
        sys.exit(f"{what}: {len(got)} of {len(rows)} cases")


program = os.environ["LOCKSTEP"]
with open("first.yaml", "w") as file:
    json.dump({"cases": [{"model": "poly", "data": data}, {"model": "poly", "data": quotes, "lr": rates}]}, file)
first = rows(program, "run", "--plan", "first.yaml", *short, "--label", "'first' of\n\u202e a, b")
if [row["case"]["data"] for row in first] != data + [quotes] * len(rates):
    sys.exit("a plan's lists")
with open("rows.jsonl", "w") as file:
    file.writelines(json.dumps(row) + "\n" for row in first)
report = subprocess.run([program, "report", "--results", "rows.jsonl", "--against", "label", "--out", "page"],
                        capture_output=True, text=True)
if report.returncode and "gnuplot: not found" not in report.stderr:
    sys.exit("report: " + report.stderr)
same("the report's plan", rows(program, "run", "--plan", "page/report.yaml", *short), first)
values = ",".join(one.replace("\\", "\\\\").replace(",", "\\,") for one in data)
line = rows(program, "run", "--model", "poly", "--data", values, *short)
same("a list", line, first[:len(data)])
command = line[0]["command"].replace("lockstep", program, 1)
same("the command", rows("bash", "-c", command), line)
with open("g,h ? 'x'.yaml", "w") as file:
    file.write("data: synthetic\ninput: [3]\nlayers: [dense: 2, softmax_cross_entropy]\n")
model = "graph:g,h ? 'x'.yaml"
advice = rows(program, "advise", "--model", model.replace(",", "\\,"), "--devices", "2", "--durations", "flops=1e9",
              "--platform", "flat:bandwidth=1GB/s", "--results", "none", "--format", "jsonl")
check = advice[0]["check"].replace("lockstep", program, 1)
if rows("bash", "-c", " ".join([check, *short]))[0]["case"]["model"] != model:
    sys.exit("advise's line: " + check)
P
expect "every text comes back" python3 -B texts.py
lockstep run --results none --model poly --data "file:a\\,b.safetensors" --batch 2 --steps 1 --warmup 0 --format jsonl
rows "a backslash makes a comma part of a value" "r['case']['data'] == 'file:a,b.safetensors'"
lockstep_ok run --help
expect "help says so" grep -qF 'is part of a value is written \, and' out
finish
