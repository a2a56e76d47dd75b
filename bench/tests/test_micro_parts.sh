#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `lockstep micro copy` and `launch`: rows, consistent fields, no wrong element, refusals. Leaves out the figures, and
# GPUs, on which ci/gpu.sh runs the same.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

lockstep_ok micro copy --sizes 4,4KiB,300000 --format jsonl
rows "a row for each size and way" "[(x['micro']['shape'], x['micro']['size_bytes']) for x in rows] ==
    [(w, s) for s in (4, 4096, 300000) for w in ('within', 'from host', 'to host')]"
rows "no element is wrong, bytes within memory count twice" "all(m['wrong'] == 0 and m['count'] * 4 == m['size_bytes']
    and 0 < m['time_p10_us'] <= m['time_us'] <= m['time_p90_us'] and math.isclose(m['algbw_gbs'],
    m['size_bytes'] * (2 if m['shape'] == 'within' else 1) / m['time_us'] / 1e3) for m in (x['micro'] for x in rows))"
lockstep_ok micro copy --cpu-devices 2 --devices cpu:1+cpu:0 --sizes 4KiB --format jsonl
rows "between two devices: into the first" "len(rows) == 1 and r['micro']['shape'] == 'from cpu:0' and
    r['micro']['wrong'] == 0 and math.isclose(r['micro']['algbw_gbs'], 4.096 / r['micro']['time_us'])"

lockstep_ok micro launch --format jsonl
rows "programs and single operations, of 1 to 512" "[(x['micro']['shape'], x['micro']['count']) for x in rows] ==
    [(w, n) for n in (1, 8, 64, 512) for w in ('program', 'one by one')]"
rows "each with the host's time; a program with that to build it" "all(m['time_us'] > 0 and m['host_us'] > 0 and
    ('build_us' in m) == (m['shape'] == 'program') for m in (x['micro'] for x in rows))"
rows "more operations take a replay longer" "rows[6]['micro']['time_us'] > rows[0]['micro']['time_us']"

# ---- Where it ran, and where rows are kept ----------------------------------------------------

keep launch
expect "kept where run keeps its rows" [ -s results/lockstep.db ]
lockstep_ok results list --where op=launch --format jsonl
rows "as they were printed" "rows == old('launch')"
lockstep_ok run --model poly --steps 2 --format jsonl
rows "of which source, program and machine, as a row of run says" "all({k: v for k, v in
    r['provenance'].items() if k not in ('kernels', 'ci95')} == x['provenance'] for x in old('launch'))"
lockstep_ok micro launch --label "it's" --results none --format jsonl
rows "command and label" "r['label'] == 'it\'s' and r['command'] ==
    'lockstep micro launch --label \'it\'\\\\\'\'s\' --results none --format jsonl'"
lockstep_ok micro copy --cpu-devices 2 --devices cpu:1+cpu:0 --sizes 4KiB --results none --format jsonl
rows "all devices" "[len(x) for x in r['provenance']['cores']] == [1, 1]"
lockstep_ok results list --where op=launch --format jsonl
rows "none: kept nowhere" "rows == old('launch')"

refused() { # refused STATUS WORD ARGUMENT...
    local status=$1 word=$2
    shift 2
    lockstep "$@"
    expect "refused in one line" one_line "$word"
    expect "exit status $status" [ "$code" -eq "$status" ]
    expect "nothing on stdout" [ ! -s out ]
}
refused 2 'runs on one device or between two' micro copy --devices 3
refused 2 'runs on one device; ' micro launch --devices 2
refused 3 'nowhere' micro launch --results nowhere/a.db
refused 2 'does not apply to lockstep micro launch' micro launch --sizes 4KiB
finish
