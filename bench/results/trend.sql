-- The commits of each series, in the order of their first rows: of `trend` (number, series, value) the count, range and
-- middle values of a commit. A build of modified sources counts as a separate commit.
WITH figures AS (
  SELECT series, place, timestamp, "provenance.commit" AS name, "provenance.dirty" IS 'true' AS dirty, value
  FROM s JOIN trend USING (number)),
ranked AS (
  SELECT *, first_value(timestamp) OVER (PARTITION BY series, name, dirty ORDER BY place) AS first,
    row_number() OVER (PARTITION BY series, name, dirty ORDER BY value) AS rank,
    count(*) OVER (PARTITION BY series, name, dirty) AS n
  FROM figures)
SELECT series, name, dirty, first, n, min(value), max(value),
  min(value) FILTER (WHERE rank = (n + 1) / 2), max(value) FILTER (WHERE rank = n / 2 + 1)
FROM ranked GROUP BY series, name, dirty ORDER BY series, min(place);
