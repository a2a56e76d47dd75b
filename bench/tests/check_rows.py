#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Validates rows against bench/row.schema.json: check_rows.py FILE...; and that a device's memory by type is that by use.

Each line that is a JSON object must be a row; other lines, and a truncated last one, are skipped.
Prints each distinct error; exit status 1 if there is any, 3 without jsonschema.
"""

import json
import os
import sys

try:
    import jsonschema
except ImportError:  # not the Python of Debian's packages
    if os.path.realpath(sys.executable) == os.path.realpath("/usr/bin/python3"):
        print("rows: python3-jsonschema is not installed; ci/install.sh test brings it")
        sys.exit(3)
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "row.schema.json")


USES = ("parameters", "gradients", "optimizer", "activations", "communication", "workspace")


def apart(row):
    """Devices whose memory by type is not that by use."""
    for device in row.get("memory", {}).get("devices", []) if isinstance(row, dict) else []:
        if "types" in device and sum(device["types"].values()) != sum(device[use] for use in USES):
            yield f"memory of {device['device']}: types {device['types']} are not its uses"


def errors(path, validator):
    """Errors of a file's rows, as texts without the rows' values."""
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            if not line.startswith("{") or not line.endswith("}\n"):
                continue
            row = json.loads(line)
            for error in validator.iter_errors(row):
                yield f"not as in row.schema.json: {'.'.join(map(str, error.absolute_path)) or 'row'}: {error.message[:300]}"
            yield from apart(row)


def main():
    """Checks the files of the command line."""
    with open(SCHEMA, encoding="utf-8") as stream:
        schema = json.load(stream)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    wrong = sorted({text for path in sys.argv[1:] for text in errors(path, validator)})
    for text in wrong[:20]:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
