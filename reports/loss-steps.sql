-- title: Loss by steps
-- x: step
-- y: loss
-- caption: A point is the loss of a batch.
-- wanted: rows of --verbose
-- by: "case.model", "case.batch_global"
-- one: yes
-- template: lines
-- place: 180
SELECT number, NULL, step, loss, NULL, NULL
FROM r JOIN losses USING (number)
