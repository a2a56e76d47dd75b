-- title: What the fullest device holds
-- y: held by the fullest device
-- unit: bytes
-- caption: A bar is what the fullest device of the median row of a case holds, by use.
-- wanted: rows with memory
-- by: "case.model", "case.data", "case.batch_global"
-- median: yes
-- template: bars
-- place: 65
SELECT number, part, place, size, low, low + size
FROM r JOIN parts USING (number)
WHERE kind = 'memory' AND known
ORDER BY k, place
