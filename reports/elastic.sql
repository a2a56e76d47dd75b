-- title: Step time and loss while replicas leave and join
-- x: step
-- y: ms of a step, loss
-- caption: A point is a step, or the loss of its batch; case.elastic says before which steps members change, in no step's time.
-- wanted: rows of --elastic with --verbose
-- by: "case.model", "case.batch_global"
-- one: yes
-- template: lines
-- log: y
-- place: 185
WITH changed AS (
    SELECT number, coalesce("case.warmup", 0) AS before, (SELECT row FROM main.rows WHERE rowid = of) AS row FROM r
)
SELECT number, 'ms of a step', e.key + before, e.value, NULL, NULL
FROM changed, json_each(row -> '$.time.steps_ms') AS e
WHERE row -> '$.elastic' IS NOT NULL AND e.value > 0
UNION ALL
SELECT number, 'loss', e.key + before, e.value, NULL, NULL
FROM changed, json_each(row -> '$.train.losses') AS e
WHERE row -> '$.elastic' IS NOT NULL AND e.value > 0
