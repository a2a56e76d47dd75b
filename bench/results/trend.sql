-- The commits of each series, in the order of their first rows, from the table `figures` of the rows (place, timestamp,
-- name, dirty, value, first: which stands for it in :series, a JSON object of series by numbers): the count, range and
-- median of a commit. A build of modified sources counts as a separate commit.
WITH known AS MATERIALIZED (SELECT CAST(key AS INTEGER) AS first, value AS series FROM json_each(:series)),
ranked AS (
  SELECT *, first_value(timestamp) OVER (PARTITION BY series, name, dirty ORDER BY place) AS begin,
    row_number() OVER (PARTITION BY series, name, dirty ORDER BY value) AS rank,
    count(*) OVER (PARTITION BY series, name, dirty) AS n
  FROM figures JOIN known USING (first)),
commits AS (
  SELECT series, name, dirty, begin, n, min(place) AS place, min(value) AS low, max(value) AS high,
    min(value) FILTER (WHERE rank = (n + 1) / 2) AS below, max(value) FILTER (WHERE rank = n / 2 + 1) AS above
  FROM ranked GROUP BY series, name, dirty)
SELECT series, name AS "commit", iif(dirty, 'true', NULL) AS "dirty:json", begin AS timestamp, n, low, high,
  below + 0.5 * (above - below) AS median
FROM commits ORDER BY series, place;
