-- title: Loss by time
-- x: seconds
-- y: loss
-- caption: A point is the loss of a batch, at the mean step's pace.
-- wanted: rows of --verbose
-- by: "case.model", "case.batch_global"
-- one: yes
-- median: yes
-- template: lines
-- place: 190
SELECT number, NULL, "time.step_ms.mean" / 1e3 * (coalesce("case.warmup", 0) + e.key), e.value, NULL, NULL
FROM r, json_each("train.losses") AS e
WHERE
    e.type IN ('real', 'integer')
    AND (
        e.key % (json_array_length("train.losses") / 50 + 1) = 0
        OR e.key + 1 = json_array_length("train.losses")
    )
