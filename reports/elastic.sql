-- title: Step time and loss while replicas leave and join
-- x: step
-- y: ms of a step, loss, replicas
-- caption: A point is a step, or the loss of its batch; a change of replicas is in no step's time.
-- wanted: rows of --elastic with --verbose
-- by: "case.model", "case.batch_global"
-- one: yes
-- colours: series
-- template: lines
-- log: y
-- place: 185
WITH
    changed AS (
        SELECT number, coalesce("case.warmup", 0) AS before, (SELECT row FROM main.rows WHERE rowid = of) AS row FROM r
    ),
    -- members from a step on, and before the first event
    event AS (
        SELECT number, e.key AS at, e.value ->> 'step' AS step, e.value ->> 'members' AS members,
            iif(e.value ->> 'kind' = 'join', -1, 1) AS undone
        FROM changed, json_each(row -> '$.elastic.events') AS e
    ),
    since AS (
        SELECT number, at, step, members FROM event
        UNION ALL
        SELECT number, -1, 0, members + sum(undone) FROM event AS e
        WHERE step = (SELECT min(step) FROM event WHERE number = e.number) GROUP BY number
    )
SELECT number, 'ms of a step', e.key + before, e.value, NULL, NULL
FROM changed, json_each(row -> '$.time.steps_ms') AS e
WHERE row -> '$.elastic' IS NOT NULL AND e.value > 0
UNION ALL
SELECT number, 'loss', e.key + before, e.value, NULL, NULL
FROM changed, json_each(row -> '$.train.losses') AS e
WHERE row -> '$.elastic' IS NOT NULL AND e.value > 0
UNION ALL
SELECT number, 'replicas', e.key + before,
    (SELECT members FROM since WHERE since.number = changed.number AND step <= e.key + before ORDER BY at DESC LIMIT 1),
    NULL, NULL
FROM changed, json_each(row -> '$.train.losses') AS e
WHERE row -> '$.elastic' IS NOT NULL
