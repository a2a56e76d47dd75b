#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mutation test of steps, one edit at a time (impl/tests/step_edits.c): which edits do the checks
detect?

    mutate.py PROGRAM FILE [--replay PS_REPLAY] [--ranks "LAUNCHER N"] [--one-of N] [--list] [--doubt]

PROGRAM is built with LOCKSTEP_HOOKS. FILE has a line for each configuration: options of `verify`.
PS_REPLAY is bench/tests/ps_replay.c, for servers in order of arrival. With --one-of, one of N edits is
made, the same ones each time. Each task of the step is
dropped, doubled, swapped with the next one of its lane and with the next one described; each wait
is dropped. A changed step must be detected by one of

    check    the race check, and other checks of a step before it runs
    gate     verify's comparison, the counted traffic, or a step that never ends; for strategies
             without a reference, digest and losses of the unedited run
    replay   for servers in order of arrival: a sequential replay gives other bits
    fuzzing  verify with random pauses, if nothing else detected it
    capture  the program of the step cannot be captured

unless the program says that the step is equivalent: two swapped tasks do not conflict, or only in
what nothing reads; a task does nothing; or a fence orders no conflict. With --doubt, fuzzing runs before the program is
asked. Prints a table and each edit that was not detected. Exit status 1: more than one in 1,000 of the edits that are not equivalent
were not detected (some are only with luck, by pauses).
"""
import concurrent.futures, json, os, random, re, subprocess, sys, tempfile, time

SECONDS, TIMES, SEEDS, ENOUGH = 20, 20, 5, 0.999 # limits of a run
FINDERS = ("check", "gate", "replay", "fuzzing", "capture")
TASK_EDITS, WAIT_EDITS = ("drop", "double", "swap", "turn"), ("drop-wait", "drop-begin")
NO_EDITS = ("nothing follows", "to the swap on their lane", "it does not wait for the beginning")


ALWAYS = "--warmup 0 --results none --format jsonl"


def run(command, options, seconds, **environment):
    """Exit status, and the reason."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}
    try:
        done = subprocess.run([*command, *options.split(), *ALWAYS.split()],
                              env={**clean, **environment}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return 124, "never ends", None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    row = json.loads(lines[-1]) if lines else None
    said = next((line for line in done.stderr.splitlines() if line.startswith("lockstep: ")), done.stderr[:200])
    return done.returncode, row["result"].get("reason", said) if row and done.returncode else said, row


def finder(words):
    """Which check detected the edit."""
    if re.match(r"(lockstep: )?(race|step): ", words):
        return "check"
    if re.match(r"(lockstep: )?(program|capture)|.*(operations do not match|operations of ranks)", words):
        return "capture"
    return "replay" if words.startswith("replayed: ") else "gate"


class Configuration:
    def __init__(self, command, options, replay):
        self.command, self.options, self.replay = command, options, replay
        self.by_arrival = bool(re.search(r"--ps-mode (async|ssp)|--ps-backup-workers [1-9]", options))
        if self.by_arrival and not replay:
            sys.exit(f"--replay is missing for: {options}")
        self.seconds, begin = 300, time.monotonic()
        code, words, _ = self.once("")
        self.seconds = max(SECONDS, TIMES * (time.monotonic() - begin))
        if code:
            sys.exit(f"nothing is edited, but status {code}: {words}: {options}")
        self.tasks, self.waits = self.count("drop:999999999"), self.count("drop-wait:999999999")

    def once(self, edit, options="", **more):
        """A case by arrival is replayed in sequence, too."""
        more["LOCKSTEP_EDIT"] = edit
        code, words, row = run([*self.command, "verify"], f"{self.options} {options}", self.seconds, **more)
        if code == 0 and self.by_arrival and not edit.endswith("?"):
            return self.serve_again(f"{self.options} {options}", more)
        return code, words, row

    def serve_again(self, options, environment):
        with tempfile.TemporaryDirectory() as folder:
            files = f"{options} --gate-steps 0 --ps-record {folder}/order --save {folder}/parameters"
            code, words, row = run([*self.command, "run"], files, self.seconds, **environment)
            if code:
                return code, words, row
            done = subprocess.run([self.replay, "run", *files.split(), *ALWAYS.split()], input=json.dumps(row),
                                  capture_output=True, text=True, timeout=self.seconds)
            return done.returncode, f"replayed: {done.stderr.strip()}" if done.returncode else words, row

    def count(self, edit):
        _, words, _ = self.once(edit)
        return int(re.search(r"there are (\d+)$", words)[1])

    def judge(self, edit):
        """The check that detected it, "equivalent", None (a survivor) or "none" (no edit), and the
        reason."""
        capture = "--capture no" if edit.startswith("drop-") else ""
        code, words, _ = self.once(edit, capture)
        if "LOCKSTEP_EDIT: " in words:
            same = re.search(r"is equivalent: (.*)", words)
            assert same, words
            return ("none" if same[1] in NO_EDITS else "equivalent"), same[1]
        if code in (0, 2) and capture: # or it is captured always
            code, words, _ = self.once(edit)
        if code == 0:
            _, asked, _ = self.once(edit + "?")
            same = re.search(r"is equivalent: (.*)", asked)
            for seed in range(1, SEEDS + 1) if not same or "--doubt" in sys.argv else ():
                if self.once(edit, "--capture no", LOCKSTEP_FUZZ=str(seed))[0] not in (0, 2):
                    return "fuzzing", f"seed {seed}"
            if same:
                return "equivalent", same[1]
        return (finder(words) if code else None), words

    def edits(self):
        return [f"{kind}:{t}" for kind in TASK_EDITS + WAIT_EDITS
                for t in range(self.waits if kind == "drop-wait" else self.tasks)]


def option(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""


def main():
    program, path = sys.argv[1:3]
    ranks = option("--ranks").split()
    with open(path) as lines:
        options = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    columns = ("tasks", "waits", "edits", "equivalent", *FINDERS, "survive")
    print(f"{'strategy':12}" + "".join(f"{c:>11}" for c in columns) + "  options")
    found = judged = 0
    survivors = []
    with concurrent.futures.ThreadPoolExecutor(1 if ranks else os.cpu_count()) as pool:
        for line in options:
            c = Configuration([*ranks, program], line, option("--replay"))
            edits = c.edits()
            edits = random.Random(line).sample(edits, -(-len(edits) // int(option("--one-of") or 1)))
            results = list(zip(edits, pool.map(c.judge, edits)))
            counted = {who: sum(r[0] == who for _, r in results) for who in (*FINDERS, "equivalent", "none", None)}
            survivors += [(line, edit) for edit, r in results if r[0] is None]
            found += sum(counted[who] for who in FINDERS)
            judged += sum(counted[who] for who in FINDERS) + counted[None]
            strategy = re.search(r"--strategy (\S+)", line)[1]
            values = (c.tasks, c.waits, len(results) - counted["none"], counted["equivalent"],
                      *(counted[who] for who in FINDERS), counted[None])
            print(f"{strategy:12}" + "".join(f"{v:11}" for v in values) + f"  {line}", flush=True)
            if "--list" in sys.argv:
                for edit, (who, words) in results:
                    if who != "none":
                        print(f"    {edit:16} {who or 'SURVIVES':11} {words[:160]}")
    for line, edit in survivors:
        print(f"survives: {edit} of: {line}")
    print(f"{found} of {judged} edits that are not equivalent were found: {100 * found / judged:.1f}%")
    sys.exit(found < ENOUGH * judged)


main()
