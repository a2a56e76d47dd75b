-- title: Samples per second by devices
-- x: devices
-- y: samples/s
-- unit: samples/s
-- caption: A point is the rate of the median step, or of the mean one where steps are not alike. Ideal: the rate of one device times the devices.
-- wanted: several numbers of devices: --devices 1,2,4 --baseline yes
-- by: "case.model", iif("case.scaling" = 'weak', '', "case.batch_global")
-- each: iif("case.scaling" IN ('strong', 'weak'), "case.scaling", NULL)
-- template: lines
-- place: 10
WITH
    p AS (
        SELECT number, trainers, coalesce(rate, "time.samples_per_s") AS y, rate_low, rate_high
        FROM r
        WHERE "time.samples_per_s" >= 0
    ),
    alone AS (
        SELECT
            coalesce(
                (
                    SELECT rate / "time.speedup"
                    FROM r
                    WHERE "time.speedup" > 0 AND "peer.what" IS NULL
                    ORDER BY place
                    LIMIT 1
                ),
                (SELECT max(rate) FROM r WHERE trainers <= 1 AND is_candidate)
            ) AS rate
    )
SELECT number, NULL, trainers, y, rate_low, rate_high
FROM p
UNION ALL
SELECT DISTINCT NULL, 'ideal', trainers, rate * trainers, NULL, NULL
FROM p, alone
WHERE rate * trainers <= 1.5 * (SELECT max(y) FROM p)
