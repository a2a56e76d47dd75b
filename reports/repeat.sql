-- SPDX-License-Identifier: MIT
-- For repeating a report: the plan of its cases (report.yaml), and the commands. plan_case: bench/report/report_plan.c.

-- plan_row: processes that a launcher started; --baseline adds rows of single that differ from others in no setting
CREATE TEMP TABLE plan_row AS SELECT place, "case.strategy" AS strategy, "case.blocks" AS blocks,
  "case.batch_global" AS batch, "case.batch_per_device" AS split, json_array("case.model", "case.data",
    "case.optimizer",
  "case.seed", "case.steps") AS same, ok AND NOT is_peer AND is_ours AS ours,
  CASE WHEN coalesce("case.comm", '') IN ('', 'thread', 'device') THEN 1 ELSE max(coalesce("case.ranks", 1),
    1) END AS processes
FROM s;

-- plan
CREATE TEMP TABLE plan AS SELECT *, CASE WHEN NOT ours THEN 'other' WHEN most > 1 AND strategy = 'single' AND EXISTS (
    SELECT 1 FROM plan_row AS o WHERE o.processes = most AND o.same IS r.same AND (o.batch IS r.batch OR o.split IS
    r.split))
  THEN 'baseline' WHEN processes < most THEN 'alone' ELSE 'case' END AS kind
FROM plan_row AS r, (SELECT coalesce(max(processes), 1) AS most FROM plan_row WHERE ours);

-- planned: each case as a plan has it; NULL where this version does not have it
CREATE TEMP TABLE planned AS SELECT place, (SELECT plan_case(row) FROM s WHERE s.place = plan.place) AS line
FROM plan WHERE kind = 'case';

-- again
SELECT json_group_array(line) AS "cases:json"
FROM (SELECT line FROM planned WHERE line IS NOT NULL GROUP BY line ORDER BY min(place)) HAVING count(*) > 0;

-- commands: what runs the plan in the report's folder and compares both, with a label that no row has: "again-2"
WITH labels (n, label) AS (
  SELECT 1, 'again' UNION ALL SELECT n + 1, 'again-' || (n + 1) FROM labels WHERE label IN (SELECT s.label FROM s)),
named AS (SELECT label FROM labels ORDER BY n DESC LIMIT 1)
SELECT coalesce((SELECT 'mpirun -n ' || most || ' ' FROM plan WHERE most > 1), '') ||
  printf('lockstep run --plan report.yaml --label %s --results %s.db', label, label) AS command FROM named
UNION ALL SELECT printf('lockstep report --results rows.jsonl --results %s.db --against label --out %s', label, label)
FROM named
UNION ALL SELECT printf('lockstep regress rows.jsonl %s.db', label) FROM named;

-- repeat
SELECT nullif(sum(kind = 'other') + (SELECT count(*) FROM planned WHERE line IS NULL), 0) AS others, nullif(sum(kind = 'alone'), 0) AS alone,
  sum(kind = 'baseline') > 0 OR NULL AS baseline,
  (SELECT coalesce((SELECT blocks FROM plan WHERE kind = 'case' AND blocks > 0 ORDER BY place DESC LIMIT 1),
    5)) AS blocks
FROM plan;
