# SPDX-License-Identifier: MIT
"""Judges the expressions of lib.sh's `rows`: reads `DIR newline EXPRESSION NUL` from standard input, evaluates it in
DIR, and answers with `NUL`, or with what is wrong and `NUL`. One process per test: starting Python takes longer."""
import json, math, os, re, sys, traceback

work = sys.argv[1]


def read(path):
    with open(os.path.join(work, path)) as lines:
        return [json.loads(line) for line in lines]


def old(name):
    return read(name + ".kept")


def digest(name):
    return old(name)[0]["equivalence"]["digest"]


def judge(expression):
    rows = read("out")
    r = rows[0] if rows else {}
    value = eval("(" + expression + ")", {**globals(), "r": r, "rows": rows})
    if isinstance(value, (dict, tuple)): # "condition or what to show" would hold always
        return "not a condition: " + " ".join(expression.split())
    if value:
        return ""
    brief = {k: r.get(k) for k in ("case", "result", "train", "equivalence")}
    return "not so: " + " ".join(expression.split()) + "\n  row: " + json.dumps(brief)[:1500]


def requests():
    left = b""
    while chunk := os.read(0, 65536):
        *whole, left = (left + chunk).split(b"\0")
        yield from whole


for request in requests():
    where, expression = request.decode().split("\n", 1)
    try:
        os.chdir(where)
        answer = judge(expression)
    except BaseException:  # of the expression, SystemExit included
        answer = traceback.format_exc()
    os.write(1, answer.replace("\0", "").encode() + b"\0")
