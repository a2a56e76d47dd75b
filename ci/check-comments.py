#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails if a comment of a header or source has a form that is read twice; CONTRIBUTING.md has the rules.

check-comments.py [--count] [PATH..]: refused are sentences without their noun ("Of a split layer:", "Those of b",
"The same of"), "NULL: none" for "NULL if there is none", words that other programs' users do not have (lacks, concerns,
goes with, likewise, beside, spoil, mend, tell apart), and comments of a struct's member with more than 12 words. Tests
are left out. --count prints how often each form occurs, of these and of weaker ones, and fails never.
"""
import collections
import glob
import os
import re
import sys

MOST = 12
REFUSED = {
    "a value without its verb: \"NULL: none\"": r"(?:\b(?:NULL|NaN|SIZE_MAX|0|1|false|true|none|empty|negative)|-1): "
                                                r"(?:it |there )?(?:has )?(?:no|not|none|nothing|as)\b(?! more)",
    "a sentence without its noun: \"Of ..\"": r"(?:^|[.;] )Of [a-z]+",
    "a sentence without its noun: \"Those ..\"": r"(?:^|[.;] )(?:Those|That) (?:of|that|which|whose|in|with)\b",
    "a sentence without its noun: \"The same ..\"": r"(?:^|[.;] )[Tt]he same(?: (?:of|for|with|as|in|but|to|where|if)\b|[,;.]|$)",
    "of what? \"is of\"": r"\b(?:is|are) of (?!use|equal|the form)",
    "\"is not a\"": r"(?<![Tt]here )(?<!answer )\b(?:is|are) (?:no|none)\b(?! (?:longer|more|answer))",
    "\"does not have\"": r"\b(?:has|have) (?:not|none)\b(?! (?:been|yet|[a-z]+(?:ed|en|un|ne|t|id|ad)\b))",
    "another word": r"\b(?:lack(?:s|ing)?|concerns?|goes? with|likewise|[Bb]eside|spoil(?:s|t)?|mends?|[Ll]ikewise"
                    r"|passe[sd] over|in vain|let go|(?:tell|tells|told) [\w ]{0,20}\bapart)\b(?! kernel)",
}
COUNTED = {
    "those, these": r"\b(?:[Tt]hose|[Tt]hese)\b", "that of": r"\bthat of\b",
    "as it is": r"\bas (?:it|they|is|are) (?:is|are|was|were)\b", "of its own": r"\bof (?:its|their) own\b",
    "of which, with which": r"\b(?:of|with|by|from|on|at|in|to) (?:which|whose|whom|what)\b",
}
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|/\*.*?\*/|//[^\n]*|[{}]', re.S)


def comments(text):
    """Line, text and whether it is a data member's, of each comment; a run of // lines is one."""
    found, structs, end = [], [], 0
    for token in TOKEN.finditer(text):
        shown, line = token[0], text.count("\n", 0, token.start()) + 1
        if shown == "{":
            code = re.sub(r"/\*.*?\*/|//[^\n]*", "", text[max(0, token.start() - 300):token.start()], flags=re.S)
            head = re.split(r"[;{}]", code)[-1].strip()
            structs.append(bool(re.match(r"(?:typedef |static |const )*(?:struct|union|enum)\b[^()=]*$", head)))
        elif shown == "}":
            structs = structs[:-1]
        elif shown[0] == "/":
            words = " ".join(re.sub(r"(?m)^\s*(?:/\*+<?|///?<?|\*(?!/))|\*/$", "", shown).split())
            own = not text[text.rfind("\n", 0, token.start()) + 1:token.start()].strip()
            if shown[1] == "/" and own and found and end == line - 1 and found[-1][3]:
                found[-1][1] += " " + words
            else:
                after = text[token.end():token.end() + 200]
                function = own and "(*" in " ".join(after.split("\n")[:3])
                found.append([line, words, bool(structs and structs[-1]) and not function, shown[1] == "/"])
            end = line + shown.count("\n")
    return found


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = [path for path in sys.argv[1:] if path != "--count"] or ["bench", "common", "impl"]
    files = [file for path in paths for end in ("h", "c", "cu", "cuh")
             for file in glob.glob(path if os.path.isfile(path) else f"{path}/**/*.{end}", recursive=True)]
    count, wrong = collections.Counter(), 0
    for path in sorted(set(files)):
        if "/tests/" in path:
            continue
        with open(path, encoding="utf-8") as file:
            found = comments(file.read())
        for line, words, is_member, _ in found:
            faults = [name for name, form in REFUSED.items() if re.search(form, words)]
            if is_member and len(re.sub(r"`[^`]*`", "x", words).split()) > MOST:
                faults.append(f"a member's comment of more than {MOST} words")
            for name, form in COUNTED.items():
                count[name] += len(re.findall(form, words))
            for fault in faults:
                count[fault] += 1
                wrong += 1
                if "--count" not in sys.argv:
                    print(f"{path}:{line}: {fault}: {words[:200]}")
    if "--count" in sys.argv:
        for name in [*REFUSED, *COUNTED]:
            print(f"{count[name]:6} {name}")
        return 0
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
