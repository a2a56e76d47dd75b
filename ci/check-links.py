#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails if a link in a document of the repository leads to a file or a heading that does not exist."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def headings(page):
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in
            re.findall(r"^#+ (.*)$", text, re.M)}


def main():
    wrong = 0
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True,
                            text=True)
    pages = [ROOT / name for name in listed.stdout.split() if (ROOT / name).exists()]
    if listed.returncode:
        pages = [page for page in ROOT.rglob("*.md") if not page.relative_to(ROOT).parts[0].startswith(("build", "."))]
    for page in pages:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if re.match(r"\w+:", link):
                continue
            if not target.exists() or anchor and anchor not in headings(target):
                print(f"{page.relative_to(ROOT)}: the link {link} leads nowhere")
                wrong += 1
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
