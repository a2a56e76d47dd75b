-- Tables of `results trend`, from the view `figure` (results_answers.c) of rows with their `value`. Rows without it, or
-- without a commit, are skipped. 1: a case with any number of blocks, 112: what makes a machine, 1536: what may change
-- with a commit (LS_BUT_, LS_OF_ in bench/rows/fields.h).

-- kase: the row's case; first: the first row with the same facts.
CREATE TEMP TABLE figures AS
SELECT number, place, timestamp, "provenance.commit" AS name, "provenance.dirty" IS 'true' AS dirty, value + 0.0 AS value,
  case_key(row, 1) AS kase, first_value(number) OVER (PARTITION BY case_key(row, 1, 1648) ORDER BY place) AS first
FROM figure WHERE value IS NOT NULL AND json_type(row, '$.provenance.commit') = 'text';

-- Rows of one case and one machine are a series. What is unknown matches anything, so facts are compared one after the
-- other.
CREATE TEMP TABLE facts AS
WITH firsts AS MATERIALIZED (
  SELECT number, figures.place, kase, row FROM figures JOIN main.rows ON rows.rowid = number WHERE number = first
  ORDER BY figures.place),
machines AS MATERIALIZED (SELECT *, machine_of(kase, row, 112) AS machine FROM firsts)
SELECT number AS first, place, row, dense_rank() OVER (ORDER BY begin) AS series
FROM (SELECT *, min(place) OVER (PARTITION BY kase, machine) AS begin FROM machines) ORDER BY place;

CREATE INDEX temp.facts_series ON facts (series, place);

-- Each is named by what tells it from the others. differ: what else differs between its rows.
DELETE FROM keyed;
INSERT INTO keyed SELECT 0, case_key(row, 1, 112) FROM facts UNION ALL SELECT series, case_key(row, 1, 1536) FROM facts;
CREATE TEMP TABLE series AS
WITH differing AS MATERIALIZED (SELECT g, path, field_fact(path, 'order') AS nth FROM differences),
named AS MATERIALIZED (
  SELECT series, nth, iif(path = 'peer.what', 'peer', replace(path, rtrim(path, replace(path, '.', '')), '')) || ' '
    || ifnull((SELECT row_text(row, path) AS text FROM facts WHERE facts.series = all_series.series
      AND text IS NOT NULL ORDER BY place LIMIT 1), 'none') AS part
  FROM (SELECT DISTINCT series FROM facts) AS all_series, (SELECT path, nth FROM differing WHERE g = 0))
SELECT series, ifnull((SELECT group_concat(part, ', ') FROM (
    SELECT part FROM named WHERE named.series = all_series.series ORDER BY nth)), '') AS name,
  (SELECT group_concat(path, ', ') FROM (SELECT path FROM differing WHERE g = all_series.series ORDER BY nth)) AS differ
FROM (SELECT DISTINCT series FROM facts) AS all_series;

-- The commits of each series, in the order of their first rows: count, range and median. A build of modified sources
-- counts as a separate commit. by: where a level begins, how far its mean is from that of the one before.
CREATE TEMP TABLE commits AS
WITH ranked AS (
  SELECT *, first_value(timestamp) OVER (PARTITION BY series, name, dirty ORDER BY figures.place) AS begin,
    row_number() OVER (PARTITION BY series, name, dirty ORDER BY value) AS rank,
    count(*) OVER (PARTITION BY series, name, dirty) AS n
  FROM figures JOIN facts USING (first)),
counted AS (
  SELECT series, name, dirty, begin, n, min(place) AS place, min(value) AS low, max(value) AS high,
    min(value) FILTER (WHERE rank = (n + 1) / 2) AS below, max(value) FILTER (WHERE rank = n / 2 + 1) AS above
  FROM ranked GROUP BY series, name, dirty),
medians AS MATERIALIZED (
  SELECT *, below + 0.5 * (above - below) AS median, row_number() OVER (PARTITION BY series ORDER BY place) - 1 AS nth
  FROM counted),
lists AS MATERIALIZED (
  SELECT series, levels('[' || group_concat(number_text(median), ',') || ']') AS levels
  FROM (SELECT * FROM medians ORDER BY series, nth) GROUP BY series),
placed AS MATERIALIZED (
  SELECT medians.*, levels ->> nth AS level, levels ->> (nth - 1) AS level_before FROM medians JOIN lists USING (series)),
means AS MATERIALIZED (SELECT series, level, avg(median) AS mean FROM placed GROUP BY series, level)
SELECT placed.*, CASE WHEN placed.level = level_before THEN NULL WHEN old.mean != 0
  THEN iif(new.mean >= old.mean, '+', '') || decimals(100.0 * (new.mean / old.mean - 1.0), 1) || '%'
  WHEN old.mean = 0 THEN 'from 0' END AS by
FROM placed JOIN means AS new USING (series, level)
LEFT JOIN means AS old ON old.series = placed.series AND old.level = level_before
ORDER BY series, placed.place;

CREATE TEMP VIEW trend AS
SELECT series.name AS series, commits.name AS "commit", iif(dirty, 'true', NULL) AS "dirty:json", begin AS timestamp, n,
  low, high, median, iif(by IS NULL, NULL, 'true') AS "change:json", by
FROM commits JOIN series USING (series) ORDER BY commits.series, nth;
