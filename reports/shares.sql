-- title: Memory and step over those of mirrored, by devices
-- x: devices
-- y: memory, step: over mirrored's
-- unit: times
-- caption: A point is what the fullest device holds, or a step takes, over the same of the newest row of mirrored with the same model, batch and devices.
-- wanted: --strategy mirrored,zero --zero-stage 1,2,3 --devices 2,4
-- by: "case.model", "case.scaling", "case.bucket_bytes"
-- one: yes
-- template: lines
-- place: 40
WITH
    named AS (
        SELECT
            *,
            "case.strategy" || ' stage ' || "case.zero_stage"
                || coalesce(', ' || "case.hybrid_replicas" || ' groups', '') AS shown
        FROM r
        WHERE of_mirrored ->> 1 > 0
    )
SELECT number, shown || ': memory', trainers, of_mirrored ->> 0, NULL, NULL
FROM named
UNION ALL
SELECT number, shown || ': step', trainers, of_mirrored ->> 1, of_mirrored ->> 2, of_mirrored ->> 3
FROM named
UNION ALL
SELECT DISTINCT NULL, 'mirrored', trainers, 1, NULL, NULL
FROM named
