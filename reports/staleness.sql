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
WITH
    counted AS (
        SELECT number, e.key AS late, e.value AS n, sum(e.value) OVER (PARTITION BY number) AS all_n
        FROM r, json_each("staleness.histogram") AS e
    )
SELECT number, NULL, late, 1.0 * n / all_n, NULL, NULL
FROM counted
WHERE all_n > 0 AND EXISTS (SELECT 1 FROM counted WHERE late > 0 AND n > 0)
