# SPDX-License-Identifier: MIT
"""An SVG picture is well-formed and says what its data say: check_picture.py PICTURE.svg DATA.tsv

Title, every name, and of scaling every efficiency stand in it as text; nothing is said of pixels.
"""

import sys
import xml.etree.ElementTree


def main(picture, data):
    """Fails with one line."""
    texts = ["".join(e.itertext()).strip() for e in xml.etree.ElementTree.parse(picture).iter()
             if e.tag.endswith("}text")]
    with open(data, encoding="utf-8") as stream:
        lines = [line.rstrip("\n").split("\t") for line in stream]
    expected = {lines[0][1], *(line[0] for line in lines[2:])}
    if "efficiency" in lines[1]:
        expected |= {f"{100 * float(line[-1]):.0f}%" for line in lines[2:] if line[-1] != "-"}
    missing = sorted(text for text in expected if not any(text in found for found in texts))
    if missing:
        sys.exit(f"FAILED: {picture}: {missing[0]}: not in it; draw it again (results/README.md)")


main(*sys.argv[1:])
