-- title: Time of a step, by delay of one worker
-- x: delay of one worker, ms
-- y: step, ms
-- unit: ms
-- caption: A point is the time of the median step, or of the mean one where steps are not alike.
-- wanted: several --inject delay=RANK:TIME
-- by: "case.model", "case.batch_global"
-- at: case.inject
-- template: lines
-- place: 230
SELECT number, NULL, delay, coalesce(pace, "time.step_ms.median"), pace_low, pace_high
FROM r
WHERE "time.step_ms.median" >= 0
