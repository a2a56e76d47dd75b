-- Tables of a comparison, in a database in memory. A case is named by the number of its first row; `side` is 0 for BASE,
-- 1 for NEW.

-- Rows that the first blocks, or the files, have of a case. `rank`: the highest represents its side. On NEW a bad row ranks
-- highest, so that no repeat hides it, and on BASE a good one; an interrupted row is repeated, or reported.
CREATE TEMP TABLE held (number INTEGER PRIMARY KEY, side, kase, ok, rank, pace, half);
CREATE INDEX temp.held_kase ON held (kase, side);
CREATE TEMP TABLE keys (key PRIMARY KEY, kase);      -- texts that are equal for rows of a case (case_key)
CREATE TEMP TABLE times (turn, side, kase, ln);      -- logarithms of steps in ms
CREATE TEMP TABLE found (kase, list, text, change);  -- what worse.sql says of a case
-- To calibrate, a case is judged again with NEW's times `slowed` by a share. result: JSON, of look or unpaired (results_numbers.c).
CREATE TEMP TABLE cases (kase, slowed DEFAULT 0, name, decided DEFAULT 0, seconds, undecided, result);

CREATE TEMP VIEW represents AS
SELECT kase, side, number, row, ok, pace
FROM (SELECT *, row_number() OVER (PARTITION BY kase, side ORDER BY rank DESC, number) AS nth FROM held)
JOIN main.rows ON rows.rowid = number WHERE nth = 1;

-- The row of NEW, or else of BASE.
CREATE TEMP VIEW either AS SELECT kase, max(side) AS side, number, row FROM represents GROUP BY kase;

-- Cases of the JSON document, in order. `paired`: by turns. `noise`: what keeps a case from being told.
CREATE TEMP VIEW verdicts AS
SELECT row -> '$.case' AS "case:json", name, ifnull(result ->> 'verdict', 'cannot tell') AS verdict,
  ifnull(result ->> 'blocks', 0) AS blocks, result ->> 'ratio' AS ratio,
  '[' || number_text(result ->> 'low') || ',' || number_text(result ->> 'high') || ']' AS "ci95:json",
  (SELECT exp(median(ln)) FROM times WHERE times.kase = cases.kase AND times.side = 0 AND result ->> 'blocks') AS base_ms,
  (SELECT exp(median(ln)) FROM times WHERE times.kase = cases.kase AND times.side = 1 AND result ->> 'blocks') AS new_ms,
  nullif(result ->> 'more', 0) AS more_blocks,
  nullif((result ->> 'more') * seconds / (result ->> 'blocks') / 60, 0) AS more_minutes,
  iif(seconds > 0, 'true', 'false') AS "paired:json", undecided,
  (SELECT substr(note.value, 8, instr(note.value || ';', ';') - 8)
    FROM represents AS one, json_each(one.row, '$.result.notes') AS note
    WHERE one.kase = cases.kase AND note.value LIKE 'noisy: %' ORDER BY one.side DESC, note.key LIMIT 1) AS noise,
  (SELECT '[' || ifnull(group_concat(change), '') || ']' FROM found WHERE found.kase = cases.kase
    AND list IN ('worse', 'failed')) AS "worse:json",
  (SELECT '[' || ifnull(group_concat(change), '') || ']' FROM found WHERE found.kase = cases.kase
    AND list = 'differences') AS "differences:json",
  (SELECT text FROM found WHERE found.kase = cases.kase AND list = 'error') AS error
FROM cases JOIN either USING (kase) ORDER BY slowed, kase;
