-- title: Time of a step, by bandwidth of a link
-- x: bandwidth of a link, MB/s
-- y: step, ms
-- unit: ms
-- caption: A point is the time of the median step, or of the mean one where steps are not alike.
-- wanted: several --link bandwidth=.. of one latency
-- by: "case.model", "case.batch_global", latency
-- at: case.link
-- template: lines
-- log: xy
-- place: 220
SELECT number, NULL, bandwidth, coalesce(pace, "time.step_ms.median"), pace_low, pace_high
FROM r
WHERE "time.step_ms.median" >= 0 AND bandwidth > 0
