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
SELECT number, NULL, trainers, "time.speedup", "time.speedup" * below, "time.speedup" * above
FROM r
WHERE "time.speedup" >= 0
UNION ALL
SELECT DISTINCT NULL, 'ideal', trainers, trainers, NULL, NULL
FROM r
WHERE "time.speedup" >= 0 AND trainers <= 1.5 * (SELECT max("time.speedup") FROM r)
