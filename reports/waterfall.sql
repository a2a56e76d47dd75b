-- title: Where the time of a step goes
-- y: ms of the mean step
-- unit: ms
-- caption: A bar is the mean step of the median row of a case; its parts sum to the step.
-- wanted: rows of lockstep run with --steps 1 or more
-- by: "case.model", "case.data", "case.batch_global"
-- median: yes
-- template: bars
-- place: 60
WITH
    parts AS (
        SELECT number, place, 1 AS k, 'compute' AS part, "waterfall.compute_ms" AS y FROM r
        UNION ALL
        SELECT number, place, 2 AS k, 'optimizer' AS part, "waterfall.optimizer_ms" AS y FROM r
        UNION ALL
        SELECT number, place, 3 AS k, 'communication' AS part, "waterfall.comm_exposed_ms" AS y FROM r
        UNION ALL
        SELECT number, place, 4 AS k, 'wait' AS part, "waterfall.wait_ms" AS y FROM r
        UNION ALL
        SELECT number, place, 5 AS k, 'copy' AS part, "waterfall.copy_ms" AS y FROM r
        UNION ALL
        SELECT number, place, 6 AS k, 'harness' AS part, "waterfall.harness_ms" AS y FROM r
    ),
    stacked AS (
        SELECT *, total(y) OVER (PARTITION BY number ORDER BY k ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) AS low
        FROM parts
    )
SELECT number, part, place, coalesce(y, 0), low, low + coalesce(y, 0)
FROM stacked
WHERE number IN (SELECT number FROM r WHERE "waterfall.compute_ms" >= 0)
ORDER BY k, place
