-- Tables of `results trend`, from the view `figure` (results_answers.c) of rows with their `value`. Rows without it, or
-- without a commit, are skipped. 1: a case with any number of blocks, 112: what makes a machine, 1536: what may change
-- with a commit (LS_BUT_, LS_OF_ in bench/rows/fields.h).

-- key: the row's case and facts (case_key); first: the first row with the same.
CREATE TEMP TABLE figures AS
SELECT *, first_value(number) OVER (PARTITION BY key ORDER BY place) AS first
FROM (SELECT number, place, timestamp, "provenance.commit" AS name, "provenance.dirty" IS 'true' AS dirty,
    value + 0.0 AS value, case_key(row, 1, 1648) AS key
  FROM figure WHERE value IS NOT NULL AND json_type(row, '$.provenance.commit') = 'text');

-- Rows of one case and one machine are a series. What is unknown matches anything, so facts are compared one after the
-- other.
CREATE TEMP TABLE facts AS
WITH firsts AS MATERIALIZED (
  SELECT number, figures.place, key, key -> 0 AS kase, row FROM figures JOIN main.rows ON rows.rowid = number
  WHERE number = first ORDER BY figures.place),
machines AS MATERIALIZED (SELECT number, place, key, kase, machine_of(kase, row, 112) AS machine FROM firsts)
SELECT number AS first, place, key, dense_rank() OVER (ORDER BY begin) AS series
FROM (SELECT *, min(place) OVER (PARTITION BY kase, machine) AS begin FROM machines) ORDER BY place;
CREATE INDEX temp.facts_series ON facts (series, place);

-- Each is named by what tells it from the others. differ: what else differs between its rows.
CREATE TEMP TABLE member AS
SELECT series, part.key AS part, field.key AS path, field.type AS type, field.value AS value
FROM facts, json_each(facts.key) AS part, json_each(part.value) AS field;
CREATE TEMP TABLE series AS
WITH telling AS MATERIALIZED (
  SELECT path, field_fact(path, 'order') AS nth FROM member GROUP BY part, path
  HAVING (part = 0 OR field_fact(path, 'machine')) AND (min(value) IS NOT max(value) OR min(type) != max(type)
    OR (part = 0 AND count(*) < (SELECT count(*) FROM facts)))),
named AS MATERIALIZED (
  SELECT series, nth, iif(path = 'peer.what', 'peer', replace(path, rtrim(path, replace(path, '.', '')), '')) || ' '
    || coalesce(row_text(row, path), (SELECT row_text(row, path) AS text FROM facts JOIN main.rows ON rows.rowid = first
      WHERE facts.series = one.series AND text IS NOT NULL ORDER BY place LIMIT 1), 'none') AS part
  FROM (SELECT series, first, min(place) FROM facts GROUP BY series) AS one JOIN main.rows ON rows.rowid = one.first
    CROSS JOIN telling),
names AS MATERIALIZED (
  SELECT series, group_concat(part, ', ') AS name FROM (SELECT * FROM named ORDER BY series, nth) GROUP BY series),
other AS MATERIALIZED (
  SELECT series, path FROM member WHERE part = 1 AND series IN (SELECT series FROM facts GROUP BY series HAVING count(*) > 1)
  GROUP BY series, path
  HAVING NOT field_fact(path, 'machine') AND (min(value) IS NOT max(value) OR min(type) != max(type))),
others AS MATERIALIZED (
  SELECT series, group_concat(path, ', ') AS differ FROM (SELECT * FROM other ORDER BY series, field_fact(path, 'order'))
  GROUP BY series)
SELECT series, ifnull(name, '') AS name, differ
FROM (SELECT DISTINCT series FROM facts) LEFT JOIN names USING (series) LEFT JOIN others USING (series);

-- The commits of each series, in the order of their first rows: count, range and median. A build of modified sources
-- counts as a separate commit. by: where a level begins, how far its mean is from that of the one before.
CREATE TEMP TABLE medians AS
WITH ranked AS (
  SELECT *, first_value(timestamp) OVER (PARTITION BY series, name, dirty ORDER BY place) AS begin,
    row_number() OVER (PARTITION BY series, name, dirty ORDER BY value) AS rank,
    count(*) OVER (PARTITION BY series, name, dirty) AS n
  FROM (SELECT series, name, dirty, timestamp, figures.place AS place, value FROM figures JOIN facts USING (first))),
counted AS (
  SELECT series, name, dirty, begin, n, min(place) AS place, min(value) AS low, max(value) AS high,
    min(value) FILTER (WHERE rank = (n + 1) / 2) AS below, max(value) FILTER (WHERE rank = n / 2 + 1) AS above
  FROM ranked GROUP BY series, name, dirty)
SELECT *, below + 0.5 * (above - below) AS median, row_number() OVER (PARTITION BY series ORDER BY place) - 1 AS nth
FROM counted;
CREATE TEMP TABLE lists (series INTEGER PRIMARY KEY, levels); -- whose key saves a search through all
INSERT INTO lists SELECT series, levels('[' || group_concat(number_text(median), ',') || ']')
FROM (SELECT series, nth, median FROM medians ORDER BY series, nth) GROUP BY series;
CREATE TEMP TABLE commits AS
WITH placed AS (SELECT medians.*, levels ->> nth AS level FROM medians JOIN lists USING (series)),
means AS (SELECT *, avg(median) OVER (PARTITION BY series, level) AS mean FROM placed),
steps AS (
  SELECT *, lag(level, 1, level) OVER one != level AS steps, lag(mean) OVER one AS old FROM means
  WINDOW one AS (PARTITION BY series ORDER BY place))
SELECT *, CASE WHEN NOT steps THEN NULL WHEN old != 0
  THEN iif(mean >= old, '+', '') || decimals(100.0 * (mean / old - 1.0), 1) || '%' ELSE 'from 0' END AS by
FROM steps ORDER BY series, place;

CREATE TEMP VIEW trend AS
SELECT series.name AS series, commits.name AS "commit", iif(dirty, 'true', NULL) AS "dirty:json", begin AS timestamp, n,
  low, high, median, iif(by IS NULL, NULL, 'true') AS "change:json", by
FROM commits JOIN series USING (series) ORDER BY commits.series, nth;
