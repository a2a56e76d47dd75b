#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How often do the intervals of `run` contain the true value?

Runs commands of 8 equal cases each (with different seeds), whose blocks take turns. The median of a command's cases
serves as the true value. Counts intervals that contain it, pairs of equal cases with disjoint intervals, and half
widths. `--pulses` loads one core meanwhile, in pulses shorter than a block. `--alone`: one case per command, to show
how much the machine drifts between commands, which no interval of a single command can cover.
Required of cases of 10 s each: 80% contain it, at most 12% of pairs are disjoint, half widths are below 5%. Exit
status 0: met; 1: not. For a quiet machine.

    ci/coverage-of-intervals.py [--lockstep build/lockstep] [--commands 13] [--seconds 10] [--pulses] [-- OPTIONS OF run]
"""
import argparse, json, multiprocessing, os, statistics, subprocess, sys, time


def pulse(core, on_s, off_s):
    os.sched_setaffinity(0, {core})
    while True:
        end = time.monotonic() + on_s
        while time.monotonic() < end:
            pass
        time.sleep(off_s)


def measure(args, steps, cases):
    seeds = ",".join(str(i + 1) for i in range(cases))
    command = [args.lockstep, "run", *args.options, "--steps", str(steps), "--blocks", str(args.blocks), "--seed", seeds,
               "--gate-steps", "0", "--results", "none", "--format", "jsonl"]
    rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [(row["time"]["step_ms"], row["result"].get("warnings", [])) for row in map(json.loads, rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default="build/lockstep")
    parser.add_argument("--commands", type=int, default=13)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--seconds", type=float, default=10, help="timed steps of each case")
    parser.add_argument("--blocks", type=int, default=25)
    parser.add_argument("--pulses", action="store_true")
    parser.add_argument("options", nargs="*", help="of run, after --")
    args = parser.parse_args()
    probe = measure(args, 200, 1)[0][0]
    steps = max(args.blocks, round(args.seconds * 1000 / probe["mean"]))
    load = None
    if args.pulses:
        block_s = args.seconds / args.blocks
        core = max(os.sched_getaffinity(0))
        load = multiprocessing.Process(target=pulse, args=(core, block_s / 4, block_s / 2), daemon=True)
        load.start()
    try:
        begin = time.monotonic()
        commands = [measure(args, steps, 1 if args.alone else 8) for _ in range(args.commands)]
        took = time.monotonic() - begin
    finally:
        if load:
            load.terminate()
    groups = [[time for command in commands for time, _ in command]] if args.alone else \
        [[time for time, _ in command] for command in commands]
    held, apart, halves = [], [], []
    for times in groups:
        truth = statistics.median(t["median"] for t in times)  # all have as many steps
        held += [t["ci95"][0] <= truth <= t["ci95"][1] for t in times]
        apart += [a["ci95"][1] < b["ci95"][0] or b["ci95"][1] < a["ci95"][0] for i, a in enumerate(times) for b in times[:i]]
        halves += [(t["ci95"][1] - t["ci95"][0]) / 2 / t["median"] for t in times]
    if not apart:
        parser.error("--commands: two or more")
    held, apart, halves = statistics.mean(held), statistics.mean(apart), sorted(halves)
    runs = [case for command in commands for case in command]
    medians = [time["median"] for time, _ in runs]
    words = sorted({w for _, warnings in runs for w in warnings})
    print(f"{len(runs)} cases of {steps} steps in {args.blocks} blocks, {took:.0f} s in all, "
          f"{'one core loaded in pulses' if args.pulses else 'no load added'}; "
          f"{'a case a command' if args.alone else '8 in turns'}")
    print(f"medians from {min(medians):.4g} to {max(medians):.4g} ms")
    print(f"intervals that hold it    {100 * held:5.1f}%   (80% or more)")
    print(f"pairs that are disjoint   {100 * apart:5.1f}%   (12% or less)")
    print(f"half width, median, most  {100 * statistics.median(halves):5.2f}%  {100 * halves[-1]:.2f}%   (below 5%)")
    for word in words:
        print(f"  {word}: {sum(word in warnings for _, warnings in runs)} of {len(runs)}")
    return 0 if held >= 0.8 and apart <= 0.12 and halves[-1] < 0.05 else 1


if __name__ == "__main__":
    sys.exit(main())
