-- title: Idle share of a pipeline, by micro-batches
-- x: micro-batches
-- y: idle share
-- unit: %
-- caption: A point is the share of the stages' time that they wait. Formulas: of equal stages; zero bubble: with equal forward, data and weight passes.
-- wanted: --strategy pipeline --pipeline-schedule gpipe,zb-h1 --pipeline-microbatches 1,2,4
-- by: "case.model", "case.batch_global"
-- at: case.pipeline_microbatches
-- template: lines
-- log: x
-- place: 150
SELECT number, NULL, "case.pipeline_microbatches", "pipeline.bubble", NULL, NULL
FROM r
UNION ALL
SELECT
    NULL,
    CASE
        WHEN "case.pipeline_chunks" > 1 THEN 'formula, ' || "case.pipeline_chunks" || ' chunks'
        WHEN "case.pipeline_schedule" LIKE 'zb-%' THEN 'formula, zero bubble'
        ELSE 'formula'
    END,
    "case.pipeline_microbatches",
    "pipeline.bubble_equal",
    NULL,
    NULL
FROM r
