#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails where an inner loop of the vector loops keeps values on the stack that belong in registers.

ci/check-spills.py [--list] SET=OBJECT...    (SET: avx2 or avx512; needs objdump)

The portable set is left out: it computes a fused multiplication and addition by twenty instructions, which decide its
speed. An inner loop is a backward jump's range without another one inside, and without a call: what calls is a
remainder. Counted are loads and stores of whole vectors at constant places on the stack. ALLOWED has what is left, as
gcc 12 compiles it, with its reason; fewer are welcome. --list prints all.
"""
import collections
import re
import subprocess
import sys

REGISTER = {"avx512": "zmm", "avx2": "ymm"}
BUFFERS = "an array in memory by design, or what is done with it behind the loop"
REMAINDER = "the last channels or columns, fewer than a vector"
CONSTANTS = "more constants than registers; they are loaded from the stack as from anywhere"
ALLOWED = {  # function: (reason, {set: loads and stores})
    "attention": (CONSTANTS, {"avx2": 2}),
    "attention_back": (CONSTANTS, {"avx512": 1, "avx2": 3}),
    "bn_backward_sums": (REMAINDER, {"avx512": 34, "avx2": 34}),
    "bn_forward": (REMAINDER, {"avx512": 16, "avx2": 6}),
    "bn_sums": (REMAINDER, {"avx512": 6, "avx2": 6}),
    "column_sums": (BUFFERS, {"avx512": 16, "avx2": 24}),
    "conv_max": (BUFFERS, {"avx512": 8, "avx2": 1}),
    "dense_forward": (CONSTANTS, {"avx2": 1}),
    "dropout_run": (BUFFERS, {"avx512": 40, "avx2": 1}),
    "exponential": (CONSTANTS, {"avx2": 2}),
    "logarithm": (CONSTANTS, {"avx2": 2}),
    "ls_order_chunk": (CONSTANTS, {"avx2": 4}),
    "lstm_forward": (CONSTANTS, {"avx512": 135, "avx2": 111}),
    "max_pool": (REMAINDER, {"avx512": 4, "avx2": 4}),
    "softmax_narrow": (BUFFERS, {"avx2": 28}),
    "softmax_tile": (CONSTANTS, {"avx2": 4}),
    "softmax_whole": (CONSTANTS, {"avx2": 1}),
    "softmax_whole_loss": (CONSTANTS, {"avx2": 1}),
    "squared_error": (REMAINDER, {"avx512": 3}),
    "weights_of_output": (BUFFERS, {"avx512": 8, "avx2": 32}),
    "weights_of_three": (BUFFERS, {"avx512": 4, "avx2": 8}),
    "winograd_forward": (BUFFERS, {"avx512": 10, "avx2": 9}),
    "winograd_pack": (CONSTANTS, {"avx2": 4}),
    "winograd_weights": (BUFFERS, {"avx512": 6, "avx2": 6}),
}


def functions(path):
    """(name, [(address, instruction)]) of each function of an object."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    for block in text.stdout.split("\n\n"):
        name = re.match(r"[0-9a-f]+ <([^>]+)>:\n", block)
        if name:
            found = re.findall(r"^\s*([0-9a-f]+):\s+(.*)$", block, re.M)
            # Parts that the compiler split off belong to the function.
            yield name[1].split(".")[0], [(int(address, 16), line) for address, line in found]


def inner_loops(code):
    """Their instructions."""
    places = {address: number for number, (address, _) in enumerate(code)}
    loops = []
    for number, (_, line) in enumerate(code):
        jump = re.match(r"j\w+\s+([0-9a-f]+)\b", line)
        target = places.get(int(jump[1], 16)) if jump else None
        if target is not None and target <= number:
            loops.append((target, number))
    for first, last in loops:
        if not any(other != (first, last) and first <= other[0] and other[1] <= last for other in loops):
            body = [line for _, line in code[first:last + 1]]
            if not any(line.startswith("call") for line in body):
                yield body


def spills(path, register):
    """{function: (loads, stores)}"""
    counts = collections.defaultdict(lambda: [0, 0])
    for name, code in functions(path):
        for body in inner_loops(code):
            for line in body:
                if re.search(r"\(%rsp\)", line) and f"%{register}" in line and not re.match(r"v?\w+s[sd]\s", line):
                    counts[name][bool(re.search(r",-?(0x[0-9a-f]+)?\(%rsp\)$", line))] += 1
    return {name: tuple(count) for name, count in counts.items()}


def main(arguments):
    listed = arguments[:1] == ["--list"]
    failed = False
    for argument in arguments[listed:]:
        isa, path = argument.split("=", 1)
        for name, (loads, stores) in sorted(spills(path, REGISTER[isa]).items()):
            reason, sets = ALLOWED.get(name, ("", {}))
            most = sets.get(isa, 0)
            if listed:
                print(f"{isa:8} {name:20} {loads:3} loads {stores:3} stores, {most} allowed: {reason}")
            if loads + stores > most:
                failed = True
                print(f"{path}: {name}: {loads} loads and {stores} stores of {isa} vectors on the stack in inner "
                      f"loops, {most} allowed; a smaller block (vector_blocks.h) needs fewer registers")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
