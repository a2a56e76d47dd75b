-- title: How far workers are ahead
-- x: steps ahead of the slowest
-- y: share of gradients
-- unit: %
-- caption: A point is the share of the gradients whose worker was so many steps ahead of the slowest.
-- wanted: --strategy ps --ps-mode ssp,async
-- by: "case.model", "case.batch_global"
-- one: yes
-- template: lines
-- place: 170
SELECT number, NULL, late, share, NULL, NULL
FROM r JOIN lateness USING (number)
WHERE
    kind = 'lead'
    AND EXISTS (SELECT 1 FROM r JOIN lateness USING (number) WHERE kind = 'lead' AND late > 0 AND share > 0)
