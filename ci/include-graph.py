#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the include graph of the folders in Graphviz's language, without edges that others imply.

    ci/include-graph.py | dot -Tsvg -o includes.svg
"""
import collections, os, re, subprocess

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
files = subprocess.run(["git", "ls-files", "common", "impl", "bench"], check=True, capture_output=True, text=True).stdout
includes = collections.defaultdict(set)
for path in files.split():
    if path.endswith((".c", ".h", ".cu", ".cuh", ".cpp")) and "/tests/" not in path and "/examples/" not in path:
        with open(path) as stream:
            for header in re.findall(r'^\s*#\s*include\s*"(\w+/[^"]+)"', stream.read(), re.M):
                if os.path.dirname(header) != os.path.dirname(path):
                    includes[os.path.dirname(path)].add(os.path.dirname(header))


def reaches(start, target):
    seen, next_ones = {start}, [start]
    while next_ones:
        for folder in includes.get(next_ones.pop(), set()) - seen:
            seen.add(folder)
            next_ones.append(folder)
    return target in seen


for folder in sorted(includes):
    for target in sorted(includes[folder]):
        includes[folder].discard(target)
        if not reaches(folder, target):
            includes[folder].add(target)
print("digraph includes {\n  node [shape=box, fontname=sans]")
for folder in sorted(includes):
    for target in sorted(includes[folder]):
        print(f'  "{folder}" -> "{target}"')
print("}")
