-- title: Efficiency by devices
-- x: devices
-- y: efficiency
-- unit: %
-- caption: A point is the speed-up over single on one like device, over the devices.
-- wanted: several numbers of devices: --devices 1,2,4 --baseline yes
-- by: "case.model", iif("case.scaling" = 'weak', '', "case.batch_global")
-- each: iif("case.scaling" IN ('strong', 'weak'), "case.scaling", NULL)
-- template: lines
-- place: 30
SELECT number, NULL, trainers, "time.efficiency", "time.efficiency" * below, "time.efficiency" * above
FROM r
WHERE "time.efficiency" >= 0
UNION ALL
SELECT DISTINCT NULL, 'ideal', trainers, 1, NULL, NULL
FROM r
WHERE "time.efficiency" >= 0
