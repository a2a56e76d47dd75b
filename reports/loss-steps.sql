-- title: Loss by steps
-- x: step
-- y: loss
-- caption: A point is the loss of a batch.
-- wanted: rows of --verbose
-- by: "case.model", "case.batch_global"
-- one: yes
-- template: lines
-- place: 180
SELECT number, NULL, coalesce("case.warmup", 0) + e.key, e.value, NULL, NULL
FROM r, json_each("train.losses") AS e
WHERE
    e.type IN ('real', 'integer')
    AND (
        e.key % (json_array_length("train.losses") / 50 + 1) = 0
        OR e.key + 1 = json_array_length("train.losses")
    )
