#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails if a GPU kernel may be loaded in a capture, or is launched with the wrong number of
threads.

check-kernels.py [LIBRARY]: each __global__ function of a .cu file has __launch_bounds__(N) or (N, blocks), is
launched with N threads (N occurs in its launches), and is loaded by ls_gpu_load, as often as it has
instances in LIBRARY, which nvcc has built.
"""
import collections
import glob
import os
import re
import subprocess
import sys

failures = []


def refuse(path, text, place, why):
    failures.append(f"{path}:{text.count(chr(10), 0, place) + 1}: {why}")


def read_code(path):
    with open(path, encoding="utf-8") as file:
        return re.sub(r"/\*.*?\*/", lambda found: re.sub(r"[^\n]", " ", found[0]), file.read(),
                      flags=re.S)


def arguments_of(text, place):
    """The arguments of the call whose parenthesis ends at `place`."""
    open_at, found = ["("], [""]
    for i in range(place, len(text)):
        letter = text[i]
        if letter in "([{" or (letter == "<" and re.match(r"\w<\S", text[i - 1:])):
            open_at.append(letter)
        elif letter in ")]}" or (letter == ">" and open_at[-1] == "<"):
            open_at.pop()
            if not open_at:
                break
        if letter == "," and len(open_at) == 1:
            found.append("")
        else:
            found[-1] += letter
    return [" ".join(each.split()) for each in found]


def name_of(kernel):
    return kernel.split("<")[0]


def check_file(path):
    """Returns how many times each kernel is loaded."""
    text = read_code(path)
    bounds = {}
    for found in re.finditer(r"__global__\s", text):
        head = re.match(r"[\s\w]*?(?:__launch_bounds__\(([^()]*)\)[\s\w]*?)?\b(\w+)\(",
                        text[found.end():])
        bounds[head[2]] = head[1] and head[1].split(",")[0]
        if not head[1]:
            refuse(path, text, found.start(), f"{head[2]} has no __launch_bounds__")
    loads = collections.Counter(
        name_of(kernel) for found in re.finditer(r"\bls_gpu_load(?:_with)?\(", text)
        for kernel in arguments_of(text, found.end()) if not kernel.startswith("sizeof"))
    for name in bounds:
        if not loads[name]:
            refuse(path, text, text.find(f" {name}("), f"{name} is not loaded before a capture")
    launches = [(found.start(), *arguments_of(text, found.end())[2:4])
                for found in re.finditer(r"\bls_gpu_launch(?:_over|_with)?\(", text)]
    by_name = {name_of(kernel) for _, _, kernel in launches} & set(bounds)
    for place, threads, kernel in launches:
        here = {name_of(kernel)} & by_name or set(bounds) - by_name # else handed to a function
        for name in here:
            if bounds[name] and not re.search(rf"\b{re.escape(bounds[name])}\b", threads):
                refuse(path, text, place, f"{name} is made for {bounds[name]} threads: {threads}")
    return loads


def check_instances(library, loads):
    symbols = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    stubs = set(re.findall(r"__device_stub__(Z\w+)E5__tmp", symbols))
    for name, count in sorted(loads.items()):
        head = re.compile(rf"Z(N\d+_GLOBAL__N__\w+?_[0-9a-f]{{8}})?{len(name)}{name}[A-Z\d]?")
        instances = sum(1 for stub in stubs if head.match(stub))
        if instances != count:
            failures.append(f"{library}: {name} has {instances} instances, {count} are loaded")


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    loads = collections.Counter()
    for path in sorted(glob.glob("common/**/*.cu", recursive=True)):
        loads += check_file(path)
    if len(sys.argv) > 1:
        check_instances(sys.argv[1], loads)
    print("\n".join(failures + [f"{sum(loads.values())} kernels loaded"]))
    return 1 if failures or not loads else 0


sys.exit(main())
