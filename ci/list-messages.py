#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints every refusal, failure and warning whole, as a user reads it, with file and line; fails if one has words that a
stranger does not understand.

list-messages.py: the texts given to ls_fail, to what logs or notes a sentence, and to functions that relay such a text;
sentences that are kept in a variable or returned, to be the reason of a failure; of shell scripts, what goes to
stderr. What the program fills in stands in <>: the expression, or its literal alternatives.
"""
import glob
import os
import re
import sys

# Words that need the code next to them, and words that a stranger reads twice.
UNCLEAR = re.compile(
    r"\b(is none|are none|of them|that of|those (?:of|that)|beside|which beside|fallen over|mends?|spoils?|let go|told"
    r"|gone|settled?|worsens?|in vain|lots|meets|has not|have not|lacks?|lacking|goes with|go together|concerns?"
    r"|(?:is|are) of|(?<!there )(?:is|are) no|it is not said|takes? no part|leave (?:it|that|them|the option) out"
    r"|leave --[a-z-]+ out|stands? (?:in|above|below|beside)|the gate|number from 0|not none|not such an?|is there twice)\b"
    r"(?! (?:been|yet|longer))|\bno more\b(?! than)")
# Functions that print a text, or make one to be printed: positions of the parts that are joined by ": ".
ROOTS = {"ls_fail": [1, 2, 3], "REFUSAL": [1, 2], "ls_log_line": [2], "ls_log_stderr": [0], "ls_gate_wrong": [1], "note": [1],
         "set_error": [1]}
# What stands before a text that is not a line on standard error.
FRAMES = {"REFUSAL": "lockstep: option: ", "ls_gate_wrong": "(reason of a failed row) ", "note": "(note of a row) "}
# Texts that a variable keeps, or a function returns, to be a part of a message.
KEPT = re.compile(r"\b(?:(why|reason|hint|remedy|note|problem)\s*=|return(?= [^;(]*\"[^;]* [^;]*;)"
                  r"|snprintf\(([\w.>-]*\b(?:why|reason|line|dead|heard|wrong))\b[^\"]*,)([^;={}]*\"[^;]*);")
FUNCTION = re.compile(r"^(?!extern)[a-z][\w *]*?\b(\w+)\(", re.M)
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
SPEC = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|ll|[hljzt])?[diouxXeEfgGcsp]")


def read(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    blank = lambda found: re.sub(r"[^\n]", " ", found[0])
    strings = r'"(?:[^"\\\n]|\\.)*"'
    text = re.sub(strings + r"|/\*.*?\*/|//[^\n]*", lambda f: f[0] if f[0][0] == '"' else blank(f), text, flags=re.S)
    for name, words in re.findall(rf'^#define (\w+) +({strings})$', text, re.M):
        text = re.sub(rf'\b{name}\b', lambda _: words, text)
    return re.sub(r'\bPRI([diux])(?:32|64)\b', r'"l\1"', text)


def arguments(text, at):
    """The arguments of a call whose parenthesis ends before `at`."""
    depth, found = 1, [""]
    for part in re.finditer(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|.', text[at:at + 4000], re.S):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(part[0], 0)
        if not depth:
            break
        found[-1] += part[0] if depth > 1 or part[0] != "," else ""
        if depth == 1 and part[0] == ",":
            found.append("")
    return [" ".join(each.split()) for each in found]


def shown(expression, values):
    """A string expression as printed: literals joined, `values` in place of the format's fields."""
    if expression == "NULL":
        return None
    if not expression.startswith('"'):
        words = [words for words in LITERAL.findall(expression) if words]
        return "<" + ("|".join(words) if words and "?" in expression else expression) + ">"
    text = "".join(part[1:-1] if part[0] == '"' else f"<{part}>" for part in re.findall(r'"(?:[^"\\]|\\.)*"|\w+',
                                                                                     expression))
    values = iter(values)
    text = SPEC.sub(lambda spec: ("*" in spec[0] and next(values, ""), shown(next(values, "?"), [])
                                  or "")[1].strip('"'), text.replace("%%", "\0"))
    return re.sub(r'\\(["\\])', r"\1", text.replace("\0", "%").replace("\\n", " "))


def relays_of(text, known):
    """Functions of a file that pass a text which they are given on: name, and a template of what they print."""
    found = {}
    function = r"^(?!static const|extern)[a-z][\w *]*?\b(\w+)\(([^(){};]*)\)\s*\{(.*?)^\}"
    for head in re.finditer(function, text, re.M | re.S):
        names = [re.split(r"[\s*]", parameter.strip())[-1] for parameter in head[2].split(",")]
        strings = [name for name, parameter in zip(names, head[2].split(",")) if "const char *" in parameter]
        same = dict((made, given) for made, given in re.findall(r"vsnprintf\(([\w.>-]+), [^,]*, (\w+),", head[3]))
        for call in re.finditer(r"\b(" + "|".join(known) + r")\s*\(", head[3]):
            parts = printed(call[1], arguments(head[3], call.end()), known)
            parts = re.sub(r"<([\w.>-]+)>", lambda f: f"<{same.get(f[1], f[1])}>", parts)
            used = [names.index(name) for name in strings if f"<{name}>" in parts.rsplit(": ", 1)[-1]]
            if used and head[1] not in ROOTS:
                found[head[1]] = (names, parts, used)
                FRAMES.update({head[1]: FRAMES[call[1]]} if call[1] in FRAMES else {})
    return found


def printed(name, given, known):
    """A call's text, with the names of scopes before it."""
    if name in ROOTS:
        parts = [shown(given[i], given[ROOTS[name][-1] + 1:]) for i in ROOTS[name] if i < len(given)]
        return ": ".join(part for part in parts if part)
    names, template, used = known[name]
    values = dict(zip(names, given))
    fill = lambda f: shown(values[f[1]], given[len(names) - (names[-1] == "..."):]) or "" if f[1] in values else f[0]
    return re.sub(r"<(\w+)>", fill, template)


def kept_of(text):
    """Texts that are kept or returned: line, pattern of the place in a message that they fill, text."""
    for kept in re.finditer(KEPT, text):
        name = kept[1] or kept[2] and re.split(r"\W", kept[2])[-1]
        if not name:
            function = [head[1] for head in re.finditer(FUNCTION, text[:kept.start()])][-1]
            name = function + r"\([^<>]*\)"
            assigned = re.search(r"\b(\w+) = [^;]*\b" + function + r"\(", text)
            name += "|" + assigned[1] if assigned else ""
        first = arguments(kept[3] + ")", 0)[0]
        joined = [shown(first, [])] if re.fullmatch(r'"[^?%]*"', first) and not kept[2] else []
        for words in joined or LITERAL.findall(re.sub(r'"\s*"', "", kept[3])):
            if " " in words.strip():
                line = text.count("\n", 0, kept.start()) + 1
                yield line, rf"<(?:[^<>|]*\W)?(?:{name})(?: \? [^<>]*)?>", SPEC.sub("<..>", words)


def messages_of(text, known, elsewhere=()):
    """Whole messages; a text that a variable keeps takes its place in a message of the file, else elsewhere."""
    whole, filled = [], set()
    for call in re.finditer(r"\b(" + "|".join(known) + r")\s*\(", text):
        given = arguments(text, call.end())
        if not re.search(r"\bconst char \*", " ".join(given)) and any('"' in each for each in given):
            message = printed(call[1], given, known)
            whole.append((text.count("\n", 0, call.start()) + 1, FRAMES.get(call[1], "lockstep: ") + message))
    for line, place, words in kept_of(text):
        holds = [message for message in whole if re.search(place, message[1])]
        filled.update(holds[:1])
        holds = holds or [message for message in elsewhere if "VALUE_OF" in words and re.search(place, message[1])]
        yield line, re.sub(place, lambda _: words, holds[0][1], count=1) if holds else f"(part of a message) {words}"
    yield from (message for message in whole if message not in filled)


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    files = [path for folder in ("bench", "ci", "common", "datasets", "impl", "reports") for end in ("c", "h", "cu", "def", "sh")
             for path in sorted(glob.glob(f"{folder}/**/*.{end}", recursive=True))]
    texts = {path: read(path) for path in files if "/tests/" not in path}
    everywhere, unclear = dict(ROOTS), 0
    for text in texts.values():
        everywhere.update({name: relay for name, relay in relays_of(text, ROOTS).items() if name.startswith("ls_")})
    remedies = list(messages_of(texts["common/base/dynamic.c"], everywhere))
    for path, text in texts.items():
        if path.endswith(".sh"):
            found = [(text.count("\n", 0, echo.start()) + 1, echo[1])
                     for echo in re.finditer(r'\becho "((?:[^"\\]|\\.)*)" >&2', text)]
        else:
            beside = texts.get(path.replace(".def", ".c"), text)  # which has what the rows of a table call
            known = {**everywhere, **relays_of(beside, everywhere)}
            found = list(messages_of(text, known, remedies))
        for line, message in sorted(found):
            if not re.search(r"[a-z]{2}.* [a-z]{2}", re.sub(r"^lockstep: |^\(.*?\) |<[^|]*?>+|\$\S+", "", message)):
                continue  # a relayed text is printed where it is worded
            print(f"{path}:{line}: {message}")
            if UNCLEAR.search(message):
                unclear += 1
                print(f"{path}:{line}: unclear: '{UNCLEAR.search(message)[0]}' in: {message}", file=sys.stderr)
    return unclear > 0


if __name__ == "__main__":
    sys.exit(main())
