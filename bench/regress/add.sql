-- Adds rows of :side that are chosen and not held yet. In turn 0, of the first blocks or of files, they make cases; in a
-- later turn their times count, and a bad row, or none, takes the place of the good rows that a case had.
DROP TABLE IF EXISTS temp.fresh;
CREATE TEMP TABLE fresh AS
SELECT number, key, ok, pace, half, iif(rank AND :side, 4 - rank, rank) AS rank
FROM (SELECT number, case_key(row, :but) AS key, "result.status" IS 'ok' AS ok, pace, 0.5 * ln(pace_high / pace_low) AS half,
    CASE WHEN "result.status" IS 'interrupted' THEN 0
      WHEN "result.status" IS 'failed' OR json_type(row, '$.equivalence.pass') IS 'false' THEN 1
      WHEN "result.status" IS 'ok' THEN 3 ELSE 2 END AS rank
  FROM s WHERE number NOT IN (SELECT number FROM held) AND json_type(row, '$.case') = 'object')
ORDER BY number;

INSERT OR IGNORE INTO keys SELECT key, min(number) FROM fresh WHERE :turn = 0 GROUP BY key;
INSERT INTO held SELECT number, :side, kase, ok, rank, pace, half FROM fresh JOIN keys USING (key) WHERE :turn = 0;
INSERT INTO times SELECT :turn, :side, kase, avg(ln(pace)) FROM fresh JOIN keys USING (key)
WHERE :turn AND pace > 0 AND kase IN (SELECT kase FROM cases WHERE NOT decided) GROUP BY kase;

DROP TABLE IF EXISTS temp.lost;
CREATE TEMP TABLE lost AS
SELECT kase, bad FROM (
  SELECT kase, count(fresh.number) AS n, min(iif(fresh.ok, NULL, fresh.number)) AS bad
  FROM (SELECT kase FROM represents WHERE side = :side AND ok AND :turn) JOIN keys USING (kase) LEFT JOIN fresh USING (key)
  GROUP BY kase)
WHERE (n = 0 OR bad IS NOT NULL) AND kase NOT IN (SELECT kase FROM found WHERE list = 'error');
DELETE FROM held WHERE side = :side AND kase IN (SELECT kase FROM lost);
INSERT INTO held SELECT number, :side, kase, ok, rank, pace, half FROM lost JOIN fresh ON number = bad;
DELETE FROM main.rows WHERE rowid NOT IN (SELECT number FROM held);
