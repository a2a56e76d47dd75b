-- title: Speed-up over one device, by devices
-- x: devices
-- y: speed-up over one device
-- unit: times
-- caption: A point is the speed-up over single on one like device.
-- wanted: several numbers of devices: --devices 1,2,4 --baseline yes
-- by: "case.model", iif("case.scaling" = 'weak', '', "case.batch_global")
-- each: iif("case.scaling" IN ('strong', 'weak'), "case.scaling", NULL)
-- template: lines
-- place: 20
WITH
    p AS (
        SELECT number, trainers, "time.speedup" AS y, rate_low / rate AS low, rate_high / rate AS high
        FROM r
        WHERE "time.speedup" >= 0
    )
SELECT number, NULL, trainers, y, y * low, y * high
FROM p
UNION ALL
SELECT DISTINCT NULL, 'ideal', trainers, trainers, NULL, NULL
FROM p
WHERE trainers <= 1.5 * (SELECT max(y) FROM p)
