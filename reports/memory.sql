-- title: What the fullest device holds
-- y: held by the fullest device
-- unit: bytes
-- caption: A bar is what the fullest device of the median row of a case holds, by use.
-- wanted: rows with memory
-- by: "case.model", "case.data", "case.batch_global"
-- median: yes
-- template: bars
-- place: 65
WITH
    parts AS (
        SELECT number, place, 1 AS k, 'parameters' AS part, "memory.devices.parameters" AS y FROM r
        UNION ALL
        SELECT number, place, 2 AS k, 'gradients' AS part, "memory.devices.gradients" AS y FROM r
        UNION ALL
        SELECT number, place, 3 AS k, 'optimizer' AS part, "memory.devices.optimizer" AS y FROM r
        UNION ALL
        SELECT number, place, 4 AS k, 'activations' AS part, "memory.devices.activations" AS y FROM r
        UNION ALL
        SELECT number, place, 5 AS k, 'communication' AS part, "memory.devices.communication" AS y FROM r
        UNION ALL
        SELECT number, place, 6 AS k, 'workspace' AS part, "memory.devices.workspace" AS y FROM r
    ),
    stacked AS (
        SELECT *, total(y) OVER (PARTITION BY number ORDER BY k ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) AS low
        FROM parts
    )
SELECT number, part, place, coalesce(y, 0), low, low + coalesce(y, 0)
FROM stacked
WHERE number IN (SELECT number FROM r WHERE "memory.devices.parameters" >= 0)
ORDER BY k, place
