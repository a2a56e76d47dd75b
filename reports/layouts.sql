-- title: Time of a step and memory of the fullest device, by layout
-- x: bytes of the fullest device
-- y: ms of a step
-- unit: ms
-- caption: A point is the fastest case of a layout: what its fullest device holds, and its step. Three numbers, of hybrid: replicas x stages x places of a stage. Those on the line are beaten by none in both.
-- wanted: --strategy mirrored,zero,pipeline,tensor-parallel,hybrid --devices 4
-- of: is_candidate AND coalesce("case.ps_mode", 'sync') = 'sync' AND trainers > 1 AND pace > 0 AND "memory.devices.peak" > 0
-- without: several devices, a time and memory
-- passed: cases of a layout whose fastest is shown, or beyond 12 layouts
-- by: "case.model", "case.data", "case.batch_global", "case.devices", "case.ranks", "case.link", "prediction.platform"
-- one: yes
-- median: yes
-- log: x
-- template: lines
-- place: 50
WITH
    named AS (
        SELECT
            number,
            place,
            pace,
            pace_low,
            pace_high,
            "memory.devices.peak" AS held,
            CASE
                WHEN coalesce("case.hybrid_replicas", 0) <= 0 THEN "case.strategy"
                WHEN "case.hybrid_inner" = 'zero' THEN "case.hybrid_replicas" || ' groups zero'
                ELSE printf(
                    '%d x %d x %d %s%s',
                    "case.hybrid_replicas",
                    iif("case.hybrid_inner" IN ('pipeline', 'model-parallel'),
                        trainers / "case.hybrid_replicas",
                        coalesce("case.hybrid_stages", 1)),
                    iif("case.hybrid_inner" IN ('pipeline', 'model-parallel'),
                        1,
                        trainers / "case.hybrid_replicas" / coalesce("case.hybrid_stages", 1)),
                    "case.hybrid_inner",
                    iif("case.zero_stage" > 0, ', zero', '')
                )
            END || iif("case.zero_stage" > 0, ' stage ' || "case.zero_stage", '') || against AS layout
        FROM r
    ),
    layouts AS (
        SELECT *
        FROM (SELECT *, row_number() OVER (PARTITION BY layout ORDER BY pace, place) AS k FROM named)
        WHERE k = 1
    ),
    judged AS (
        SELECT
            *,
            NOT EXISTS (
                SELECT 1
                FROM layouts AS b
                WHERE (b.pace < a.pace OR (b.pace = a.pace AND b.place < a.place)) AND b.held <= a.held
            ) AS best
        FROM layouts AS a
        WHERE
            (SELECT count(*) FROM layouts) >= 3
            AND (SELECT max(held) FROM layouts) > 1.005 * (SELECT min(held) FROM layouts)
    ),
    shown AS (SELECT * FROM judged ORDER BY best DESC, pace LIMIT 12)
SELECT number, layout, held, pace, pace_low, pace_high
FROM (SELECT * FROM shown ORDER BY pace, place)
UNION ALL
SELECT NULL, 'not beaten in both', held, pace, NULL, NULL
FROM shown
WHERE best
