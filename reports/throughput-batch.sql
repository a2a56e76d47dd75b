-- title: Samples per second by batch
-- x: global batch
-- y: samples/s
-- unit: samples/s
-- caption: A point is the rate of the median step, or of the mean one where steps are not alike.
-- wanted: several --batch
-- by: "case.model"
-- at: case.batch_global
-- template: lines
-- log: x
-- place: 100
SELECT number, NULL, "case.batch_global", coalesce(rate, "time.samples_per_s"), rate_low, rate_high
FROM r
WHERE "time.samples_per_s" >= 0
