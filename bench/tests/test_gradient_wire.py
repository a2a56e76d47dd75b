# SPDX-License-Identifier: MIT
"""Computes again, to the letter of the command-line page, what --gradient-wire bf16 makes of gradients: each replica's (with
exchange `each`: each piece's) is rounded, the owner adds in float32 in the order of replicas, and where all get the sum it
is rounded, too. Of a parabola at 0, whose gradients of one sample are -y / 2 (x^2, x, 1): exact in float32, so that no order
of products matters, only roundings and the order of sums. Each draw must show every rounding that is left out, or added.

Usage: test_gradient_wire.py LOCKSTEP FOLDER
"""
import os
import random
import struct
import subprocess
import sys

from parameters import tensors, write

PROGRAM, FOLDER = sys.argv[1:3]
BATCH = 8  # 2 / BATCH, the loss's factor, is a power of 2


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def nearest(x):
    """To 16 bits by the neighbours in bits; ties to even."""
    whole = struct.unpack("<I", struct.pack("<f", x))[0]
    low, rest = whole & 0xffff0000, whole & 0xffff
    up = rest > 0x8000 or (rest == 0x8000 and low & 0x10000)
    return struct.unpack("<f", struct.pack("<I", low + 0x10000 * bool(up)))[0]


def exact(x):
    return x


def total(terms):
    result = terms[0]
    for term in terms[1:]:
        result = float32(result + term)
    return result


def part(i, n, items):
    return items[i * len(items) // n:(i + 1) * len(items) // n]


class Case:
    """How a layout sums: `sent` rounds what a replica sends, `own` what the owner has itself, `sum` what all get, `kept` what
    an owner of shares keeps, `hop` each partial sum."""

    def __init__(self, sent=nearest, own=nearest, sum=nearest, kept=exact, hop=exact, pieces_first=False):
        self.sent, self.own, self.sum, self.kept, self.hop, self.pieces_first = sent, own, sum, kept, hop, pieces_first

    def fold(self, addends, owner):
        result = None
        for d, x in enumerate(addends):
            x = (self.own if d == owner else self.sent)(x)
            result = x if result is None else self.hop(float32(result + x))
        return result

    def shares(self, addends, owner):
        return self.kept(self.fold(addends, owner))

    def whole(self, addends, owner):
        return self.sum(self.fold(addends, owner))


def slices(gradients, n, pieces=1):
    """[replica][piece] sums of a replica's pieces."""
    return [[total(part(d * pieces + a, n * pieces, gradients)) for a in range(pieces)] for d in range(n)]


def mirrored(case, gradients, owner, n, pieces=1):
    replicas = slices(gradients, n, pieces)
    if case.pieces_first:
        replicas = [[case.sent(piece) for piece in pieces] for pieces in replicas]
    return case.whole([total(pieces) for pieces in replicas], owner)


def each(case, gradients, owner, n, pieces):
    replicas = slices(gradients, n, pieces)
    return total([case.whole([replica[a] for replica in replicas], owner) for a in range(pieces)])


def zero(case, gradients, owner, n):
    return case.shares([g for [g] in slices(gradients, n)], owner)


def groups(case, gradients, owner, n):
    """Two groups of n / 2; each element's two owners, one in each group, are ranks `owner`; of their sum the first is."""
    replicas, each = [g for [g] in slices(gradients, n)], n // 2
    sums = [case.shares(replicas[:each], owner), case.shares(replicas[each:], owner)]
    return case.whole(sums, 1)  # the owner of a share of one element


# What the program is asked, the sum, its number of replicas, and how many owners the parameters are divided among.
LAYOUTS = [
    ("--strategy mirrored --devices 1", mirrored, (1,), 1),
    ("--strategy mirrored --devices 3", mirrored, (3,), 3),
    ("--strategy mirrored --devices 3 --bucket-bytes 0", mirrored, (3,), 3),
    ("--strategy mirrored --devices 2 --gradient-accumulation-steps 2", mirrored, (2, 2), 2),
    ("--strategy mirrored --devices 2 --gradient-accumulation-steps 2 --gradient-accumulation-exchange each", each, (2, 2), 2),
    ("--strategy zero --devices 1", zero, (1,), 1),
    ("--strategy zero --devices 3", zero, (3,), 3),
    ("--strategy zero --zero-stage 3 --devices 2", zero, (2,), 2),
    ("--strategy hybrid --hybrid-inner zero --zero-stage 2 --devices 6", groups, (6,), 3),
]
FAULTS = {"an addend is not rounded": Case(sent=exact), "the owner's addend is not rounded": Case(own=exact),
          "the sum is not rounded": Case(sum=exact), "the owner's sum of a share is rounded": Case(kept=nearest),
          "each partial sum is rounded": Case(hop=nearest), "pieces are rounded": Case(pieces_first=True)}


def owner_of(element, owners):
    """Of three elements: owner d has floor(3 d / n) on."""
    return next(d for d in range(owners) if 3 * d // owners <= element < 3 * (d + 1) // owners)


def draw(rng):
    """Samples whose gradients have 17 bits and exponents so far apart that float32 sums are rounded, too."""
    xs = [rng.choice([-2.0, -1.0, 1.0, 2.0]) for _ in range(BATCH)]
    ys = [rng.choice([-1, 1]) * (rng.getrandbits(9) * 256 + rng.choice([127, 128, 129]) + 2 ** 17) * 2.0 ** rng.randrange(-24, 1)
          for _ in range(BATCH)]
    return xs, ys


def gradients_of(xs, ys, element):
    found = [-y * x ** (2 - element) * 2 / BATCH for x, y in zip(xs, ys)]
    assert all(g == float32(g) for g in found)
    return found


def run(xs, ys, options):
    data, first, last = (os.path.join(FOLDER, name) for name in ("data.safetensors", "first.safetensors", "last.safetensors"))
    def tensor(shape, values):
        return "F32", shape, struct.pack(f"<{len(values)}f", *values)
    write(data, {"x0": tensor([BATCH, 1], xs), "y": tensor([BATCH], ys)})
    write(first, {"dense0.weight": tensor([1, 3], [0.0] * 3)})
    command = (f"run --model poly --data file:{data} --shuffle no --batch {BATCH} --optimizer sgd --lr 1 --steps 1 --warmup 0 "
               f"--blocks 1 --cpu-devices 6 --eval-samples 0 --results none --quiet --format jsonl --gradient-wire bf16 {options}")
    done = subprocess.run([PROGRAM, *command.split(), "--load", first, "--save", last], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"FAILED: status {done.returncode}: {command}\n{done.stdout}{done.stderr}")
    return [-w for w in tensors(last)["dense0.weight"]]


def main():
    rng = random.Random(5)
    shown = set()
    for options, layout, counts, owners in LAYOUTS:
        for _ in range(2):
            xs, ys = draw(rng)
            got = run(xs, ys, options)
            for element in range(3):
                gradients, owner = gradients_of(xs, ys, element), owner_of(element, owners)
                want = layout(Case(), gradients, owner, *counts)
                if got[element] != want:
                    sys.exit(f"FAILED: {options}: element {element} is {got[element]!r}, by the definition {want!r}")
                shown |= {what for what, fault in FAULTS.items() if layout(fault, gradients, owner, *counts) != want}
    hidden = FAULTS.keys() - shown
    if hidden:
        sys.exit(f"FAILED: no draw would show that {', '.join(sorted(hidden))}")


main()
