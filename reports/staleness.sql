-- title: How late gradients are
-- x: updates by others
-- y: share of gradients
-- unit: %
-- caption: A point is the share of the gradients with so many updates by others since their pull.
-- wanted: --strategy ps --ps-mode ssp,async
-- by: "case.model", "case.batch_global"
-- one: yes
-- template: lines
-- place: 160
SELECT number, NULL, late, share, NULL, NULL
FROM r JOIN lateness USING (number)
WHERE
    kind = 'staleness'
    AND EXISTS (SELECT 1 FROM r JOIN lateness USING (number) WHERE kind = 'staleness' AND late > 0 AND share > 0)
