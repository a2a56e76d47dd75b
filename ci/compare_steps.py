# SPDX-License-Identifier: MIT
"""Compares two programs cell by cell, for ci/compare-steps.sh; uses only Python's standard library.

    compare_steps.py [--quick] [--only REGEX] [--jobs N] [--list] BASE PROGRAM

Both run each command of compare_cells.py. A row is a cell; so is a command without rows, by its stderr and exit
status. Every field of a row is compared bitwise, except those below. A difference is printed as one line: command,
field, the base's value, the new one. Left out: times.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import compare_cells

SECONDS = 150  # a cell takes a second or two: longer means that it hangs
LINES = 5  # of a cell; a row that failed lacks most of its fields

# Fields that differ between two runs of one program, or that identify the program or machine.
VARYING = re.compile(
    r"""^(schema|id|timestamp|command|label
    |time\..*|waterfall\..*|gap\..*|pipeline\.(bubble(_formula|_stage)?|passes_ms\..*|slowest_stage)|train\.seconds_to_target  # times, or made of them
    |device_load\..*|server_load\.\d+\.busy|noise\..*|result\.(warnings|notes)\.?.*  # shares of time; what times show
    |memory\.rss_peak|memory\.devices\.\d+\.allocations  # pages of libraries and of the heap; requests, not bytes
    |provenance\.(?!kernels\.).*  # the machine, the commit; kernels are compared
    )$""",
    re.VERBOSE,
)
# Cases in which the order of arrival decides: async, ssp and backup workers with several workers. With backup workers,
# traffic depends on which worker was late: of such rows only its agreement with the formula is compared.
ARRIVAL = re.compile(
    r"""^(train\.(?!target).*|lead\.(?!bound).*|staleness\..*|dropped
    |equivalence\.(digest|reference_digest|max_ulp|max_rel|gradient_rel)
    )$""",
    re.VERBOSE,
)
LATE = re.compile(r"^(traffic\..*|server_load\.\d+\.(received|copied)_bytes)$")
# The length of a program of the harness may change a little; its results may not.
NODES = "program.nodes"
BYTES = "program.bytes"
BYTES_WITHIN = 0.10  # longer
# A step's kernels: a set per kind, whose order does not matter; it may contain more than before.
KERNELS = "provenance.kernels."
# A field that the base does not have: its value is not compared, its name is printed.
ADDED = object()
# Of stderr: a time.
TIMES = re.compile(r"^lockstep: (measuring( itself)? takes|the measurement adds) ")


def flat(value, path=""):
    """{path: value} for everything in a row; an empty list or object is a value."""
    if isinstance(value, dict) and value:
        return {k: v for name, part in value.items() for k, v in flat(part, f"{path}.{name}" if path else name).items()}
    if isinstance(value, list) and value:
        return {k: v for i, part in enumerate(value) for k, v in flat(part, f"{path}.{i}").items()}
    return {path: value}


def comes_first(row):
    """Whether the row depends on the order of arrival."""
    case = row["case"]
    asynchronous = case.get("ps_mode", "sync") != "sync" or case.get("ps_backup_workers", 0) > 0
    return asynchronous and sum(1 for samples in case["batch_per_device"] if samples > 0) > 1


def compared(row):
    """The fields of a row that must be equal."""
    varying = [VARYING]
    if comes_first(row):
        varying.append(ARRIVAL)
        if row["case"].get("ps_backup_workers", 0) > 0:
            varying.append(LATE)
            sent = row.get("traffic", {})
            as_formula = all(sent[f"{what}_sent"] == sent[f"{what}_formula"] for what in ("bytes", "messages") if sent)
            row = {**row, "as_formula": as_formula}
    return {k: v for k, v in flat(row).items() if not any(x.match(k) for x in varying)}


def command_of(program, cell, files):
    """The command to run: adds shared options, replaces `@` and `%` by files."""
    words = cell.split()
    launcher = []
    if words[0] == "mpirun":
        launcher = ["bench/tests/mpirun.sh", words[1]]
        words = words[2:]
    verb = words.pop(0) if words[0] in ("run", "verify") else "run"
    words = [str(files[word]) if word in files else word for word in words]
    if verb == "run" and "--blocks" not in words:
        words += ["--blocks", "1"]
    return [*launcher, program, verb, *words, "--verbose", "--format", "jsonl", "--results", "none"]


def run(program, cell, folder, loaded):
    """{rows, status, says}: a program's results for a cell."""
    saved = folder / "saved"
    saved.unlink(missing_ok=True)
    environment = dict(os.environ, TMPDIR=str(folder), MPIRUN_SECONDS=str(SECONDS))
    command = command_of(program, cell, {"@": saved, "%": loaded})
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", env=environment, start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=SECONDS + 20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += "lockstep: hangs\n"
    rows = []
    for line in out.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            err += f"lockstep: no row: {line}\n"
    if saved.exists():
        rows[0]["saved"] = hashlib.sha256(saved.read_bytes()).hexdigest()
    # A launcher's own lines come on top, and its ranks' in any order.
    says = [line.replace(str(folder), "FOLDER") for line in err.splitlines() if not TIMES.match(line)]
    if cell.startswith("mpirun"):
        says = sorted(line for line in says if line.startswith("lockstep: "))
    return {"rows": rows, "status": process.returncode, "says": says}


def name_of(cell, row, several):
    """Name of a row's cell: the command, and what distinguishes the row from others of that command."""
    if not several:
        return cell
    words = cell.split()
    keys = [word[2:] for word, value in zip(words, words[1:]) if word.startswith("--") and "," in value]
    case = row["case"]
    values = {key: case.get(key.replace("-", "_")) for key in keys}
    if "batch" in values:
        values["batch"] = case["batch_global"]
    text = ", ".join(f"{k} {'+'.join(v) if isinstance(v, list) else v}" for k, v in values.items() if v is not None)
    return f"{cell} [{text}]"


def names(kernels):
    """The set of "a+b"."""
    return set(kernels.split("+")) - {"absent"}


def differences(base, new):
    """[(field, base's value, new value)] of two rows, and the same for fields that are only noted."""
    a, b = compared(base), compared(new)
    found, noted = [], []
    for field in sorted(a.keys() | b.keys(), key=lambda field: (not field.startswith("result."), field)):
        old, now = a.get(field, "absent"), b.get(field, "absent")
        if old == now or field.startswith(KERNELS) and names(old) == names(now):
            continue
        if old == "absent":  # named at the end: whether the program should tell it is the reader's judgement
            noted.append((re.sub(r"\.\d+", "[]", field), old, ADDED))
            continue
        numbers = all(isinstance(value, int) for value in (old, now))
        if field == NODES and numbers or field == BYTES and numbers and now <= (1 + BYTES_WITHIN) * old:
            noted.append((field, old, now))
        elif field.startswith(KERNELS) and names(old) < names(now):
            noted.append((field, old, now))
        else:
            found.append((field, old, now))
    return found, noted


def pairs(base, new):
    """Pairs rows of the same case, then the rest in order. Rows are printed when their turn ends, earlier after a
    failure."""
    matched = [next((other for other in new if other["case"] == one["case"]), None) for one in base]
    left = [row for row in new if not any(row is other for other in matched)]
    return [(one, other or left.pop(0)) for one, other in zip(base, matched) if other or left]


def judge(cell, base, new):
    """[(name, found, noted)] of a command's cells."""
    judged = []
    several = len(base["rows"]) > 1
    if len(base["rows"]) == len(new["rows"]):
        for one, other in pairs(base["rows"], new["rows"]):
            judged.append((name_of(cell, one, several), *differences(one, other)))
    else:
        judged.append((cell, [("rows", len(base["rows"]), len(new["rows"]))], []))
    whole = [(field, base[field], new[field]) for field in ("status", "says") if base[field] != new[field]]
    if whole and judged:
        judged[0][1].extend(whole)
    elif not judged:
        judged.append((cell, whole, []))
    return judged


def print_difference(name, field, old, now):
    if isinstance(old, list):  # lines of stderr: those that are not in both
        lines = [line for line in old if line not in now] or ["-"]
        now, old = [line for line in now if line not in old] or ["-"], lines
    print(f"{name}: {field}: {json.dumps(old)[:400]} -> {json.dumps(now)[:400]}", flush=True)


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("programs", nargs=2)
    given = parser.parse_args()
    commands = compare_cells.cells(given.quick)
    listed = subprocess.run([given.programs[1], "list", "strategies"], capture_output=True, text=True, check=True).stdout
    for name in re.findall(r"^  (\S+)", listed, re.MULTILINE):  # one that no cell names
        if not re.search(rf"--strategy\b.*\b{name}\b", "\n".join(commands)):
            commands.append(f"--strategy {name} --devices 1,2,3 --model mlp:784-16-10 --data synthetic:60 --batch 14 --steps 4")
    commands = [cell for cell in commands if given.only.search(cell)]
    mpi = shutil.which("mpirun") is not None
    if given.list:
        print(*commands, sep="\n")
        return 0
    base, program = (str(pathlib.Path(path).resolve()) for path in given.programs)
    left_out = [] if mpi else [cell for cell in commands if cell.startswith("mpirun")]
    commands = [cell for cell in commands if cell not in left_out]
    cells = differ = refused = 0
    notes = []
    with tempfile.TemporaryDirectory(prefix="compare-") as work:
        work = pathlib.Path(work)
        os.environ["XDG_CACHE_HOME"] = str(work)  # where the measured roof lies, for all
        made = run(base, compare_cells.LOADED, work, work / "loaded")
        if made["status"] != 0:
            print("the base does not run:", *made["says"], sep="\n")
            return 1

        def both(number, cell):
            folder = work / str(number)
            folder.mkdir()
            results = [run(each, cell, folder, work / "loaded") for each in (base, program)]
            shutil.rmtree(folder)
            return judge(cell, *results), not results[0]["rows"]

        with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
            for judged, refusal in pool.map(both, range(len(commands)), commands):
                refused += refusal
                for name, found, noted in judged:
                    cells += 1
                    differ += bool(found)
                    for difference in found[:LINES]:
                        print_difference(name, *difference)
                    if len(found) > LINES:
                        print(f"{name}: and {len(found) - LINES} more fields", flush=True)
                    notes += [(name, *note) for note in noted]
    added = collections.Counter(field for _, field, _, now in notes if now is ADDED)
    notes = [note for note in notes if note[3] is not ADDED]
    for field, times in sorted(added.items()):
        print(f"only in the new rows, not compared: {field} ({times} values)")
    if notes:
        print(f"noted in {len(notes)} places, no difference: the length of programs, kernels told besides")
        for name, field, old, now in notes:
            print(f"  {name}: {field}: {old} -> {now} ({now / old - 1:+.1%})" if isinstance(old, int) and old else f"  {name}: {field}: {old} -> {now}")
    if left_out:
        print(f"left out: {len(left_out)} commands under mpirun, which is not here")
    print(f"{cells} cells ({refused} of them refusals), {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
