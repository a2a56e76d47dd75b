#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How often do the intervals of `run` hold what they say?

Processes of the same case run one after the other.
The median of all their steps stands for the truth. Counted: intervals that hold it, pairs of equal cases whose
intervals are disjoint, half widths. `--pulses` loads one core meanwhile in pulses shorter than a block.
Wanted of 100 processes of 10 s each: 80 intervals that hold it, at most 12 of 100 pairs disjoint, half widths below 5%.
Exit status 0: as wanted; 1: not. For a quiet machine.

    ci/coverage-of-intervals.py [--lockstep build/lockstep] [--processes 100] [--seconds 10] [--pulses] [-- OPTIONS OF run]
"""
import argparse, json, multiprocessing, os, random, statistics, subprocess, sys, time


def pulse(core, on_s, off_s):
    os.sched_setaffinity(0, {core})
    while True:
        end = time.monotonic() + on_s
        while time.monotonic() < end:
            pass
        time.sleep(off_s)


def measure(args, options, steps):
    command = [args.lockstep, "run", *options, "--steps", str(steps), "--blocks", str(args.blocks), "--gate-steps", "0",
               "--results", "none", "--format", "jsonl"]
    row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return row["time"], row["result"].get("warnings", [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default="build/lockstep")
    parser.add_argument("--processes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10, help="timed steps of each process")
    parser.add_argument("--blocks", type=int, default=25)
    parser.add_argument("--pulses", action="store_true")
    parser.add_argument("options", nargs="*", help="of run, after --")
    args = parser.parse_args()
    if args.processes < 2:
        parser.error("--processes: two or more")
    probe = measure(args, args.options, 200)[0]
    steps = max(args.blocks, round(args.seconds * 1000 / probe["step_ms"]["mean"]))
    load = None
    if args.pulses:
        block_s = args.seconds / args.blocks
        core = max(os.sched_getaffinity(0))
        load = multiprocessing.Process(target=pulse, args=(core, block_s / 4, block_s / 2), daemon=True)
        load.start()
    try:
        begin = time.monotonic()
        runs = [measure(args, args.options, steps) for _ in range(args.processes)]
        took = time.monotonic() - begin
    finally:
        if load:
            load.terminate()
    times = [t["step_ms"] for t, _ in runs]
    truth = statistics.median(t["median"] for t in times)  # all have as many steps
    held = sum(t["ci95"][0] <= truth <= t["ci95"][1] for t in times) / len(times)
    pairs = [(a, b) for i, a in enumerate(times) for b in times[:i]]
    pairs = random.Random(1).sample(pairs, min(len(pairs), 1000))
    apart = sum(a["ci95"][1] < b["ci95"][0] or b["ci95"][1] < a["ci95"][0] for a, b in pairs) / len(pairs)
    halves = sorted((t["ci95"][1] - t["ci95"][0]) / 2 / t["median"] for t in times)
    words = sorted({w for _, warnings in runs for w in warnings})
    print(f"{len(runs)} processes of {steps} steps in {args.blocks} blocks, {took:.0f} s in all, "
          f"{'one core loaded in pulses' if args.pulses else 'no load added'}")
    print(f"median of all {truth:.4g} ms; medians from {min(t['median'] for t in times):.4g} to "
          f"{max(t['median'] for t in times):.4g} ms")
    print(f"intervals that hold it    {100 * held:5.1f}%   (80% or more)")
    print(f"pairs that are disjoint   {100 * apart:5.1f}%   (12% or less)")
    print(f"half width, median, most  {100 * statistics.median(halves):5.2f}%  {100 * halves[-1]:.2f}%   (below 5%)")
    for word in words:
        print(f"  {word}: {sum(word in warnings for _, warnings in runs)} of {len(runs)}")
    return 0 if held >= 0.8 and apart <= 0.12 and halves[-1] < 0.05 else 1


if __name__ == "__main__":
    sys.exit(main())
