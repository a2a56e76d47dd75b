-- title: Loss by time
-- x: seconds
-- y: loss
-- caption: A point is the loss of a batch, at the mean step's pace.
-- wanted: rows of --verbose
-- by: "case.model", "case.batch_global"
-- one: yes
-- median: yes
-- template: lines
-- place: 190
SELECT number, NULL, "time.step_ms.mean" / 1e3 * step, loss, NULL, NULL
FROM r JOIN losses USING (number)
