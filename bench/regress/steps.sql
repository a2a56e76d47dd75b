-- SPDX-License-Identifier: MIT
-- The steps of a comparison, on the tables of cases.sql: a section begins after an empty line with its name
-- (ls_results_section).

-- put: rows of a side, as JSON texts
INSERT INTO main.rows (id, row) SELECT :side || ' ' || :turn || ' ' || key, value FROM json_each(:rows);

-- decide: errors decide a case
UPDATE cases SET decided = 1 WHERE kase IN (SELECT kase FROM found WHERE list IN ('error', 'failed'));

-- find: cases that have one side each and agree in the common fields
CREATE TEMP TABLE alike AS SELECT a.kase AS a, b.kase AS b
FROM represents AS a JOIN represents AS b ON a.side = 0 AND b.side = 1
WHERE a.kase NOT IN (SELECT kase FROM held WHERE side = 1) AND b.kase NOT IN (SELECT kase FROM held WHERE side = 0)
  AND same_case(a.row, b.row, :but) ORDER BY 1, 2;

-- join: the first case of BASE that is left gets the first one of NEW
UPDATE held SET kase = (SELECT a FROM alike) WHERE kase = (SELECT b FROM alike);
UPDATE keys SET kase = (SELECT a FROM alike) WHERE kase = (SELECT b FROM alike);
DELETE FROM alike WHERE a IN (SELECT kase FROM held WHERE side = 1) OR b NOT IN (SELECT kase FROM held);

-- choose: the rows that name cases
DELETE FROM chosen;
INSERT INTO chosen (number) SELECT number FROM either ORDER BY kase;

-- name: in the order of these rows
UPDATE cases SET name = trim(ifnull(row ->> '$.case.model', '') || ' ' || told)
FROM (SELECT kase, row, ltrim(one.value ->> 'name') AS told
  FROM (SELECT *, row_number() OVER (ORDER BY kase) - 1 AS nth FROM either) JOIN json_each(:names) AS one ON one.key = nth)
  AS named
WHERE named.kase = cases.kase;

-- make: the cases
INSERT INTO cases (kase) SELECT DISTINCT kase FROM held ORDER BY kase;

-- unknown: the first key of :fail_on that no row has, if a row is ok
WITH known AS (SELECT text FROM found WHERE list = 'known')
SELECT value ->> 'key' AS key FROM json_each(:fail_on) WHERE value ->> 'key' NOT IN known AND '' IN known
ORDER BY json_each.key LIMIT 1;

-- unmeasured: what was not timed is not a pass
INSERT INTO found (kase, list, text)
SELECT kase, 'error', 'no block of steps was timed with both programs; raise --max-time' FROM cases
WHERE NOT ifnull(result ->> 'blocks', 0) AND kase NOT IN (
  SELECT kase FROM found WHERE list IN ('error', 'failed', 'worse'));

-- undecided: counts on from the cases of the report :before; the :most-th time in a row is worse
UPDATE cases SET undecided = 1 + ifnull((SELECT value ->> 'undecided' FROM json_each(:before) WHERE value ->> 'name' = name
  ORDER BY key LIMIT 1), 0)
WHERE ifnull(result ->> 'verdict', 'cannot tell') = 'cannot tell' AND kase NOT IN (SELECT kase FROM found WHERE list = 'error');
INSERT INTO found
SELECT kase, 'worse', '', json_object('key', 'undecided', 'base', undecided - 1, 'new', undecided, 'reason',
  'comparisons in a row that could not tell, which --fail-on undecided limits') FROM cases WHERE undecided >= :most;

-- other_class: a row of side :b that was measured on another class of machine (48: LS_OF_CLASS | LS_OF_SHARE) than the
-- row that represents its case on side :a
SELECT path, ifnull(nullif(row_text(a, path), ''), 'none') AS a, ifnull(nullif(row_text(b, path), ''), 'none') AS b
FROM (SELECT base.row AS a, rows.row AS b, other_machine(base.row, rows.row, 48) AS path
  FROM represents AS base JOIN held AS other USING (kase) JOIN main.rows ON rows.rowid = other.number
  WHERE base.side = :a AND other.side = :b AND (:a = :b OR other.number IN (SELECT number FROM represents))
  ORDER BY kase, other.number)
WHERE path IS NOT NULL LIMIT 1;

-- unpaired: judges rows of files. 0.01: the standard deviation of the logarithm of a median step between two times on
-- one machine. `half`: of the first interval of a row.
INSERT INTO times SELECT 0, side, kase, ln(pace) FROM held WHERE pace > 0 ORDER BY number;
CREATE TEMP TABLE sides AS
SELECT kase, side, (SELECT row ->> '$.id' FROM represents AS r WHERE r.kase = h.kase AND r.side = h.side) AS id,
  (SELECT '[' || group_concat(number_text(ln)) || ']' FROM times AS t WHERE t.kase = h.kase AND t.side = h.side) AS logs,
  (SELECT half FROM held AS one WHERE one.kase = h.kase AND one.side = h.side AND half > 0 ORDER BY number LIMIT 1) AS half
FROM held AS h GROUP BY kase, side;
UPDATE cases SET result = (
  SELECT iif(a.id = b.id AND a.logs = b.logs, json_object('verdict', 'same', 'ratio', 1.0, 'low', 1.0, 'high', 1.0, 'blocks',
      json_array_length(a.logs), 'more', 0),
    unpaired(a.logs, a.half, b.logs, b.half, :threshold, (SELECT count(*) FROM cases), 0.01))
  FROM sides AS a JOIN sides AS b ON a.kase = cases.kase AND b.kase = cases.kase AND b.side > a.side)
WHERE NOT decided;

-- steps: with which the slowest case is timed for :block ms, and every case for a period. Older rows have no period, but
-- the option that it follows from.
SELECT CAST(max(iif(slowest > 0, min(:block / slowest, :most), 0), least, :least) AS INTEGER) * (slowest > 0) AS steps
FROM (SELECT max(pace) AS slowest, max(coalesce(row ->> '$.case.period', row ->> ('$.case.'
    || replace(strategy_fact(row ->> '$.case.strategy', 'period'), '-', '_')), 0)) AS least
  FROM represents);

-- lone: times of a turn that one side has only
DELETE FROM times WHERE (turn, kase) IN (SELECT turn, kase FROM times GROUP BY 1, 2 HAVING count(*) = 1);

-- look: tests the undecided cases
UPDATE cases SET seconds = :seconds, result = look(
  (SELECT '[' || ifnull(group_concat(number_text(b.ln - a.ln + ln(1 + slowed))), '') || ']'
    FROM times AS a JOIN times AS b USING (turn, kase) WHERE kase = cases.kase AND a.side = 0 AND b.side = 1),
  :threshold, :cases, :spent, :share)
WHERE NOT decided;
UPDATE cases SET decided = 1 WHERE NOT decided AND result ->> 'verdict' != 'cannot tell';

-- slow: the cases once more for each slowdown
INSERT INTO cases (kase, slowed, name, decided) SELECT kase, column1, name, decided
FROM (VALUES (0.01), (0.02), (0.03), (0.05), (0.1)), cases;

-- wrong: why programs are no subjects of a calibration
SELECT name, iif(list = 'error', text,
  'NEW fails the gate in this case, or sends more bytes or needs more memory than BASE; name two equal programs') AS why
FROM cases JOIN found USING (kase) WHERE list IN ('error', 'failed', 'worse') ORDER BY cases.rowid, list LIMIT 1;

-- verdicts: of one comparison of a calibration
SELECT slowed, seconds, result ->> 'verdict' AS verdict, result ->> 'ratio' AS ratio FROM cases;

-- calibration: of the verdicts of all its comparisons
SELECT 100 * slowed AS slowed_percent, count(*) AS comparisons, median(ratio) AS ratio, sum(verdict = 'slower') AS slower,
  sum(verdict = 'same') AS same, sum(verdict = 'faster') AS faster, sum(verdict = 'cannot tell') AS "cannot tell",
  avg(seconds) AS seconds_each
FROM (SELECT (value ->> 'slowed') + 0.0 AS slowed, value ->> 'verdict' AS verdict, value ->> 'ratio' AS ratio,
    value ->> 'seconds' AS seconds FROM json_each(:verdicts))
GROUP BY slowed;
