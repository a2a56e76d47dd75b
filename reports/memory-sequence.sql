-- title: Memory of the fullest device by part, by length of a sequence
-- x: tokens of a sequence
-- y: held by the fullest device
-- unit: bytes
-- caption: A point is what the fullest device holds for one use; of activations, a line for each --recompute.
-- wanted: gpt with several numbers of positions: --model gpt:4-4-64-64-64,gpt:4-4-64-128-64
-- by: iif(json_valid('[' || replace(substr("case.model", 5), '-', ',') || ']'), json_remove('[' || replace(substr("case.model", 5), '-', ',') || ']', '$[3]'), "case.model"), "case.strategy", "case.devices", "case.ranks", "case.batch_global", "case.gradient_accumulation_steps", "case.zero_stage", "case.reduce"
-- at: case.model
-- template: lines
-- log: xy
-- place: 92
WITH
    shaped AS (
        SELECT
            number,
            '[' || replace(substr("case.model", 5), '-', ',') || ']' AS shape,
            coalesce((SELECT row ->> '$.case.recompute' FROM main.rows WHERE rowid = of), 'none') AS recompute
        FROM r
        WHERE "case.model" LIKE 'gpt:%'
    ),
    long AS (SELECT number, recompute, iif(json_valid(shape), json_extract(shape, '$[3]'), NULL) AS tokens FROM shaped)
SELECT number, part || iif(part = 'activations', ', recompute ' || recompute, ''), tokens, size, NULL, NULL
FROM long JOIN parts USING (number)
WHERE kind = 'memory' AND known AND k <= 4 AND tokens > 0
ORDER BY k, recompute != 'none', recompute = 'full', number
