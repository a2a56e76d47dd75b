-- title: Time of layers, and their roofs
-- y: ms of a pass
-- unit: ms
-- caption: A mark is the median time of a layer's pass, its bar from the 10th to the 90th percentile, the second mark its roof: its products timed alone, or a copy of as many bytes.
-- wanted: rows of lockstep micro layers
-- by: "micro.op", "micro.ranks", "micro.type", "micro.link"
-- series: micro.shape
-- median: yes
-- template: ranges
-- place: 75
WITH
    timed AS (
        SELECT *
        FROM r
        WHERE
            "micro.time_us" >= 0
            AND "micro.roof_us" >= 0
            AND "micro.time_p10_us" >= 0
            AND "micro.time_p90_us" >= 0
    )
SELECT number, 'time, p10 to p90', place, "micro.time_us" / 1e3, "micro.time_p10_us" / 1e3, "micro.time_p90_us" / 1e3
FROM timed
UNION ALL
SELECT number, 'roof', place, "micro.roof_us" / 1e3, NULL, NULL
FROM timed
