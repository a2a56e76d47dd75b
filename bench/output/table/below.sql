-- The lines below a table. :document has rows of `micro`, rows that were `verified`, and headings that were `dropped` for
-- lack of room; `pooled` has the rows that are ranked (pools.sql), if there are any. A row of the result is a line,
-- wrapped to :width.
CREATE TEMP TABLE members AS
SELECT m.*, row,
  first_value(m.place) OVER (PARTITION BY pool ORDER BY m.place) AS first
FROM pool_members AS m JOIN s USING (place) WHERE timed AND nth = 1;
-- The options in which all rows differ (g: -1), or the cases of a pool.
INSERT INTO cases SELECT pool, place, '', row -> 'case' FROM members UNION ALL SELECT -1, place, '', row -> 'case' FROM s;
CREATE TEMP TABLE words AS
WITH cells AS MATERIALIZED (
  SELECT g, m.place AS place, o.nth AS nth, name, path, follows, cell(row, path) AS cell,
    max(row ->> '$.case.steps_asked') OVER (PARTITION BY g) IS NOT NULL AS asked
  FROM (SELECT * FROM options WHERE differs) AS o JOIN members AS m ON g = pool OR (g = -1 AND place = first))
SELECT g, place, nth, name, cell, follows OR (name = 'steps' AND asked) AS outcome,
  iif(name IN ('model', 'data') OR cell = '', NULL, iif(name IN ('strategy', 'devices'), '', heading(path) || ' ') || cell)
    AS word
FROM cells;
CREATE INDEX temp.words_place ON words (g, place);
-- In an outcome (the steps that were trained where others were asked for, and what follows from other options) cases may
-- differ for no reason of their own: it is said where it tells two cases apart that have one name without it.
CREATE TEMP VIEW plain AS
SELECT pool, place, ifnull((SELECT group_concat(word, ' ') FROM (
  SELECT word FROM words WHERE g = pool AND words.place = members.place AND NOT outcome ORDER BY nth)), '') AS name
FROM members;
WITH
telling AS (
  SELECT g, words.name AS option FROM words JOIN plain ON pool = g AND plain.place = words.place WHERE outcome
  GROUP BY g, words.name, plain.name HAVING count(DISTINCT cell) > 1),
named AS (
  SELECT *, ifnull((SELECT group_concat(word, ' ') FROM (
    SELECT word FROM words WHERE g = pool AND words.place = members.place
      AND (NOT outcome OR (g, name) IN telling) ORDER BY nth)), '') AS name
  FROM members),
-- A pool by what differs between all: " of mlp, batch 256, 2 cpu, group 2 of 3".
shared (place, option, title) AS (VALUES (1, 'model', ''), (2, 'model_digest', ''), (3, 'data', ''),
  (4, 'batch_global', 'batch '), (5, 'link', 'link '), (6, 'devices', '')),
pools AS (
  SELECT pool, way, apart, ' of ' || (SELECT group_concat(text, ', ') FROM (
      SELECT title || ifnull(nullif(cell, ''), 'none') AS text
      FROM shared JOIN words ON words.name = option WHERE g = -1 AND words.place = members.first ORDER BY shared.place))
    AS environment, iif("group", printf('group %d of %d', "group", row ->> '$.time.groups'), NULL) AS part
  FROM members WHERE place = first),
ways (way, words) AS (VALUES (0, ': '), (1, ' by samples trained / time: '),
  (2, ' by speed-up over single in each group''s own turns: ')),
repeats AS (
  SELECT pool, place AS number, name, rate, low, high, known, noisy, equal,
    row_number() OVER (PARTITION BY pool, name ORDER BY rate) AS nth, count(*) OVER (PARTITION BY pool, name) AS n
  FROM named),
-- A case of several rows has the median of their rates, and the range of all, as in a report.
cases AS (
  SELECT pool, min(number) AS number, name || iif(max(noisy), ' (noisy)', '') AS name,
    avg(iif(nth IN ((n + 1) / 2, n / 2 + 1), rate, NULL)) AS rate, iif(n > 1, min(rate), min(low)) AS low,
    iif(n > 1, max(rate), max(high)) AS high, n > 1 OR max(known) AS known, max(equal) AS equal
  FROM repeats GROUP BY pool, repeats.name),
-- Those with an interval first, of these those equal to `single`, of these the fastest.
ordered AS (
  SELECT *, row_number() OVER (PARTITION BY pool ORDER BY known DESC, equal DESC, rate DESC, number) AS place,
    sum(known) OVER (PARTITION BY pool) AS known_cases, count(*) OVER (PARTITION BY pool) AS all_cases FROM cases),
-- Cases that are not meant to be equal to `single` are ranked only if all are such. `beyond`: this case, or one before
-- it, is slower by more than the noise.
ranked AS (
  SELECT one.*, one.known AND one.equal = best.equal AS ranked, best.rate AS best, best.low AS best_low,
    best.high AS best_high, max(one.high < best.low) OVER (PARTITION BY one.pool ORDER BY one.place) AS beyond
  FROM ordered AS one JOIN ordered AS best ON best.pool = one.pool AND best.place = 1 WHERE one.all_cases > 1),
-- The ratio of the first to the second, with the interval of a ratio (statistics.h).
told AS (
  SELECT *, known_cases > 1 AND known AND NOT ranked AS unequal, best / rate AS ratio,
    sqrt(pow(ln(best / best_low), 2) + pow(ln(high / rate), 2)) AS down,
    sqrt(pow(ln(best_high / best), 2) + pow(ln(rate / low), 2)) AS up
  FROM ranked ORDER BY pool, place),
fastest AS (
  SELECT pool, iif(known_cases > 1, max(iif(place = 1, name, NULL)), 'cannot be told')
    || coalesce('; within the noise of it: ' || group_concat(iif(place > 1 AND ranked AND NOT beyond, name, NULL), ', '),
      max(iif(place = 2 AND ranked, printf(', %s times as fast as the next (%s to %s), %s', decimals(ratio, 2),
        decimals(ratio * exp(-down), 2), decimals(ratio * exp(up), 2), name), NULL)), '')
    || ifnull('; not meant to be equal to single, so not ranked: '
      || group_concat(iif(unequal, printf('%s (%s times as fast)', name, decimals(rate / best, 2)), NULL), ', '), '')
    || ifnull('; without an interval, so not ranked: ' || group_concat(iif(known, NULL, name), ', '), '') AS text
  FROM told GROUP BY pool),
-- What each row of `verify` that passes was compared with.
compared AS (
  SELECT key AS number, ifnull(value ->> '$.case.strategy', '') AS strategy, value ->> '$.equivalence.grade' AS grade,
    ifnull(value ->> '$.equivalence.grade', '') = 'none' AS never, ifnull(value ->> '$.equivalence.steps', 0) AS steps,
    ifnull(value ->> '$.equivalence.oracle', '') AS oracle, value ->> '$.equivalence.library_rel' IS NOT NULL AS library,
    iif(value ->> '$.equivalence.gradient_rel' IS NOT NULL, ifnull(value ->> '$.equivalence.bound', 0.0), NULL) AS bound
  FROM json_each(:document, '$.verified')
  WHERE value -> 'equivalence' IS NOT NULL AND ifnull(value ->> '$.result.status', '') IN ('', 'ok')),
sentences AS (
  SELECT number, strategy, iif(never AND NOT steps, oracle, printf('%s: after each of %d steps %s', grade, steps,
    CASE WHEN never THEN 'every replica has the bits of its replay, in sequence on one device'
      WHEN strategy = 'single' THEN 'the bits of a second, fresh run'
      WHEN grade = 'exact' THEN 'the bits of single --reduce exact'
      WHEN library THEN 'the reduced gradient is that of the slices, summed in float64 (at most 1e-5 apart), and the '
        || 'update has the bits that single''s optimizer makes of it'
      ELSE 'the bits of an oracle that computes each replica''s slice by itself, on one device, and sums in this '
        || 'strategy''s order' END)
    || iif(never AND library, ', with the library''s means', '') || iif(never, '; not compared with single', '')
    || ifnull('; gradient: how far the first one is from single''s of the whole batch (at most ' || digits(bound, 6)
      || ')', '')) AS sentence
  FROM compared),
-- The average bus bandwidth of collectives, by algorithm.
averages AS (
  SELECT ifnull(nullif(value ->> '$.micro.kernel', ''), value ->> '$.micro.op') || ' '
    || digits(avg(value ->> '$.micro.busbw_gbs'), 4) AS text
  FROM json_each(:document, '$.micro')
  WHERE value ->> '$.micro.busbw_gbs' IS NOT NULL AND value ->> '$.micro.shape' IN ('out of place', 'in place')
  GROUP BY ifnull(nullif(value ->> '$.micro.kernel', ''), value ->> '$.micro.op') ORDER BY min(key)),
lines (part, number, text) AS (
  SELECT 0, 0, 'average bus bandwidth, GB/s: ' || group_concat(text, ', ') FROM averages
  UNION ALL SELECT 1, 0, 'no room for: ' || group_concat(key, ', ') FROM json_each(:document, '$.dropped')
  UNION ALL SELECT 2, pool, 'fastest' || coalesce(environment || ifnull(', ' || part, ''), ' of ' || part, '')
    || words || text FROM fastest JOIN pools USING (pool)
    JOIN ways USING (way)
  UNION ALL SELECT 3, 0, 'groups ran one after the other, so that the machine may have changed between them; '
    || iif(mean, 'fewer cases in a command are one group', '--baseline yes compares them by speed-up')
    FROM (SELECT max(apart) AS apart, max(way = 1) AS mean FROM pools) WHERE apart
  UNION ALL SELECT 4, min(number), group_concat(strategy, ', ') || ', ' || sentence
    FROM (SELECT sentence, strategy, min(number) AS number FROM sentences GROUP BY sentence, strategy ORDER BY 3)
    GROUP BY sentence
  UNION ALL SELECT 5, 0, 'drift: distance from single''s parameters; for information: two correct orders of summation '
    || 'drift apart' FROM (SELECT max(value ->> '$.equivalence.max_rel') AS drift FROM json_each(:document, '$.verified'))
    WHERE drift > 0)
SELECT wrapped(text, 0, 0, :width) AS text FROM lines WHERE text IS NOT NULL ORDER BY part, number;
