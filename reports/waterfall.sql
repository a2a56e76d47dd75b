-- title: Where the time of a step goes
-- y: ms of the mean step
-- unit: ms
-- caption: A bar is the mean step of the median row of a case; its parts sum to the step.
-- wanted: rows of lockstep run with --steps 1 or more
-- by: "case.model", "case.data", "case.batch_global"
-- median: yes
-- template: bars
-- place: 60
SELECT number, part, place, size, low, low + size
FROM r JOIN parts USING (number)
WHERE kind = 'time' AND known
ORDER BY k, place
