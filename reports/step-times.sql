-- title: How much the time of a step varies
-- y: ms of a step
-- unit: ms
-- caption: A mark is the median step, its bar from the 10th to the 90th percentile, the second mark the 99th; of the median row of a case.
-- wanted: timed rows
-- by: "case.model", "case.data", "case.batch_global"
-- median: yes
-- template: ranges
-- place: 70
WITH
    timed AS (
        SELECT *
        FROM r
        WHERE
            coalesce("time.step_ms.n", 2) > 1
            AND "time.step_ms.p10" >= 0
            AND "time.step_ms.p90" >= 0
            AND "time.step_ms.median" >= 0
            AND "time.step_ms.p99" >= 0
    )
SELECT number, 'median, p10 to p90', place, "time.step_ms.median", "time.step_ms.p10", "time.step_ms.p90"
FROM timed
UNION ALL
SELECT number, 'p99', place, "time.step_ms.p99", NULL, NULL
FROM timed
