-- title: Idle share of a pipeline, by micro-batches
-- x: micro-batches
-- y: idle share
-- unit: %
-- caption: A point is the share of the stages' time that they wait. Formula: of equal stages.
-- wanted: --strategy pipeline --pipeline-microbatches 1,2,4
-- by: "case.model", "case.batch_global"
-- at: case.pipeline_microbatches
-- template: lines
-- log: x
-- place: 150
SELECT number, NULL, "case.pipeline_microbatches", "pipeline.bubble", NULL, NULL
FROM r
UNION ALL
SELECT NULL, 'formula', "case.pipeline_microbatches", "pipeline.bubble_equal", NULL, NULL
FROM r
