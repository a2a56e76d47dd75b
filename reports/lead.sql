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
WITH
    counted AS (
        SELECT number, e.key AS late, e.value AS n, sum(e.value) OVER (PARTITION BY number) AS all_n
        FROM r, json_each("lead.histogram") AS e
    )
SELECT number, NULL, late, 1.0 * n / all_n, NULL, NULL
FROM counted
WHERE all_n > 0 AND EXISTS (SELECT 1 FROM counted WHERE late > 0 AND n > 0)
