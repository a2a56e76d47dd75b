-- SPDX-License-Identifier: MIT
-- What the page shows of the rows (view s: reports/rows.sql): a query for each list of page.html, page.markdown and
-- report.bib. A column "NAME:json" is JSON.

-- told: rows beside each other, with the case of each, and its figure to compare by: those of the model and batch (or
-- batch of a device) with most strategies, by pools of rows that may be compared (pools.sql; "NUMBER|by what")
CREATE TEMP TABLE told (place, pool, title, name, v, low, high);
DELETE FROM asked;
INSERT INTO asked
WITH k AS (
  SELECT at, strategy, is_candidate, json_array(apart, "case.model", "case.data", "case.scaling", "case.model_digest",
    "case.batch_global" * 1.0 / iif("case.scaling" = 'weak', trainers, 1)) AS key
  FROM read WHERE ok AND rate > 0)
SELECT 0, at, NULL FROM k WHERE key = (SELECT key FROM k GROUP BY key
  ORDER BY count(DISTINCT iif(is_candidate, strategy, NULL)) DESC, count(*) DESC, min(at) LIMIT 1);
INSERT INTO naming VALUES (nullif('{{against}}', 'case.strategy'));
INSERT INTO told
SELECT p.place, pool || '|' || CASE way WHEN 0 THEN '' WHEN 1 THEN 'samples trained / time'
    ELSE 'speed-up over single in each group''s own turns' END,
  name || printf(' on %g', trainers) || against, name || iif(against = '', '', ' (' || substr(against, 3) || ')'),
  p.rate, low, high
FROM (SELECT * FROM pool_members ORDER BY pool, place) AS p CROSS JOIN s ON s.place = p.place
  CROSS JOIN named ON named.number = p.place;
DELETE FROM same;
INSERT INTO same SELECT DISTINCT title, place FROM told;

-- notes
SELECT 'table of cases: rows of one case that differ in '
  || (SELECT group_concat(path, ', ') FROM (SELECT path FROM differing GROUP BY path ORDER BY min(rank), path))
  || ': ' || sum(size) AS text
FROM (SELECT size FROM differing GROUP BY g) HAVING count(*) > 0;

-- pair: for --against, a row of `told` for each row, with its case as title and its value as name
DELETE FROM asked;
INSERT INTO asked
SELECT dense_rank() OVER (ORDER BY apart, "case.model", "case.batch_global", "case.model_digest"), at, NULL
FROM read WHERE ok AND rate > 0 AND '{{against}}' != '';
INSERT INTO naming VALUES ('{{against}}');
INSERT INTO told
SELECT place, 'pair', ltrim(name || printf(' on %g (%s, global batch %.0f', trainers, "case.model", "case.batch_global")
    || iif(several AND machines = 1, coalesce(', on ' || nullif(first_value(origin) OVER (PARTITION BY list ORDER BY place), ''),
      ''), '') || ')'), s.value, 0, 0, 0
FROM named JOIN s ON place = named.number
  JOIN (SELECT list, count(DISTINCT machine) AS machines FROM asked JOIN read ON at = number GROUP BY list) USING (list),
  (SELECT count(DISTINCT machine) > 1 AS several FROM asked JOIN read ON at = number);
DELETE FROM same;
INSERT INTO same SELECT json_array(title, name), place FROM told WHERE pool = 'pair'
  AND title IN (SELECT title FROM told WHERE pool = 'pair' GROUP BY title HAVING count(DISTINCT name) > 1);

-- pair_notes
SELECT 'side by side: rows of one case that differ in ' || group_concat(path, ', ') || ': ' || size AS text
FROM (SELECT g ->> 0 AS title, path, (SELECT sum(size) FROM (SELECT size FROM differing AS o
    WHERE o.g ->> 0 = d.g ->> 0 GROUP BY g)) AS size
  FROM differing AS d GROUP BY title, path ORDER BY title, min(rank), path) GROUP BY title;

-- found: the cases of told (ls_page_tell), each with the row that represents its repeats
CREATE TEMP TABLE found AS SELECT pool, title, min(place) AS first, max(place) FILTER (WHERE i = (n + 1) / 2) AS place,
  max(name) || CASE WHEN max(is_noisy) THEN ' (noisy)' ELSE '' END AS name, max(is_noisy) AS noisy, n AS count,
  median(v) AS v, CASE WHEN n > 1 THEN min(v) ELSE low END AS low, CASE WHEN n > 1 THEN max(v) ELSE high END AS high,
  n > 1 OR max(low) > 0 AS known, max(is_candidate) AS equal, median(rate) AS rate,
  CASE WHEN n > 1 THEN min(rate) ELSE rate_low END AS rate_low,
    CASE WHEN n > 1 THEN max(rate) ELSE rate_high END AS rate_high,
  median(pace) AS pace, median("time.speedup") AS speedup, median("time.efficiency") AS efficiency,
  max(trainers) AS cores
FROM (SELECT told.*, trainers, is_noisy, is_candidate, rate, rate_low, rate_high, pace, "time.speedup", "time.efficiency",
  row_number() OVER (PARTITION BY pool, title ORDER BY rate) AS i, count(*) OVER (PARTITION BY pool, title) AS n
  FROM s JOIN told USING (place) WHERE pool != 'pair') GROUP BY pool, title;

-- ranked: of each pool the fastest first; of those whose figure has an interval, candidates before others
CREATE TEMP TABLE ranked AS SELECT *, row_number() OVER w AS i, first_value(low) OVER w AS best_low,
  first_value(equal) OVER w AS equals, max(known) OVER (PARTITION BY pool) AS any_known,
  first_value(cores) OVER (PARTITION BY pool ORDER BY first) AS size, sum(equal) OVER (PARTITION BY pool) AS candidates
FROM found WINDOW w AS (PARTITION BY pool ORDER BY known DESC, equal DESC, v DESC);

-- pools: how many cases are compared, and how many of these may be the fastest
CREATE TEMP TABLE pools AS SELECT *, CASE WHEN any_known THEN slower - 1 ELSE compared END AS near FROM (
  SELECT pool, any_known, count(*) AS compared, coalesce(min(i) FILTER (WHERE high < best_low), count(*) + 1) AS slower
  FROM ranked WHERE known = any_known AND equal = equals GROUP BY pool);

-- line
CREATE TEMP TABLE line AS
SELECT b.size, printf('%g device%s', b.size, CASE WHEN b.size > 1 THEN 's' ELSE '' END) AS devices, b.name,
  figure_text(b.rate, 'samples/s') AS rate, CASE WHEN b.count > 1 THEN b.count END AS repeats,
  compared < 2 OR NULL AS alone, busy AND compared > 1 OR NULL AS busy, n.name AS next,
  CASE WHEN compared > 1 AND NOT busy THEN substr(b.pool, instr(b.pool, '|') + 1) END AS by,
  CASE WHEN near > 2 THEN near - 2 END AS more, CASE WHEN near > 1 AND NOT busy THEN
    CASE WHEN b.any_known THEN 'their intervals overlap' ELSE 'no interval is known' END END AS open,
  CASE WHEN near < 2 AND compared > 1 AND NOT busy THEN
    (SELECT printf('%s (%s to %s)', decimals(of ->> 'value', 2), decimals(of ->> 'low', 2), decimals(of ->> 'high', 2))
      FROM (SELECT ratio(b.v, b.low, b.high, n.v, n.low, n.high) AS of)) END AS ratio,
  CASE WHEN gate IN ('bounded', 'exact') THEN gate END AS grade,
  CASE WHEN gate NOT IN ('bounded', 'exact') THEN gate END AS unproven, coalesce(steps, 0) AS steps,
  CASE WHEN compared < 2 THEN b.name || ' (the only case)' WHEN busy THEN 'the machine was too busy to tell'
    WHEN near > 1 THEN 'too close to tell' ELSE b.name END AS word
FROM pools JOIN (SELECT ranked.*, gate, "equivalence.steps" AS steps,
    noisy AND coalesce("time.speedup" > cores, 0) AS busy FROM ranked JOIN s USING (place) WHERE i = 1) AS b USING
    (pool)
  LEFT JOIN ranked AS n ON n.pool = b.pool AND n.i = 2 ORDER BY b.size DESC, b.candidates DESC, b.first;

-- lines
SELECT * FROM line ORDER BY rowid;

-- told_alike: numbers of devices of which the same is told, first those where something can be told
CREATE TEMP TABLE told_alike AS SELECT word, max(n) > 1 OR max(size) > 1 AS several,
  group_concat(CASE WHEN i = 1 THEN '' WHEN i = n THEN ' and ' ELSE ', ' END || printf('%g', size), '') AS sizes
FROM (SELECT *, row_number() OVER (PARTITION BY word ORDER BY size) AS i, count(*) OVER (PARTITION BY word) AS n
  FROM (SELECT DISTINCT word, size FROM line) ORDER BY word, size) AS one
GROUP BY word ORDER BY word IN ('too close to tell', 'the machine was too busy to tell'), max(size) DESC,
  (SELECT min(rowid) FROM line WHERE line.word = one.word);

-- finding_of
CREATE TEMP TABLE finding AS SELECT group_concat(CASE number WHEN 1 THEN 'Fastest on ' || sizes || ' device' ||
  iif(several, 's', '') ELSE '; on ' || sizes END || ': ' || word, '')
    AS headline, "where"
FROM (SELECT *, rowid AS number FROM told_alike ORDER BY rowid), (SELECT printf('%s, %s batch %g, %s scaling, on %s',
  "case.model",
  CASE "case.scaling" WHEN 'weak' THEN 'a device''s' ELSE 'global' END,
  CASE "case.scaling" WHEN 'weak' THEN "case.batch_global" / cores ELSE "case.batch_global" END, "case.scaling",
  CASE WHEN (SELECT count(DISTINCT origin) FROM found JOIN s USING (place)) > 1 THEN 'several machines' ELSE
    coalesce(nullif(origin, ''), 'a machine that the row does not name') END) AS "where"
  FROM found JOIN s USING (place) LIMIT 1) HAVING count(*) > 0;

-- finding
SELECT "where" FROM finding;

-- headline
SELECT coalesce((SELECT headline FROM finding), CASE WHEN max(ok) THEN 'No row here has a time'
  ELSE 'All rows here failed a check, could not run or were interrupted' END) AS text FROM s;

-- cases
SELECT i = 1 OR NULL AS best, title AS label, count, figure_text(rate, '', rate_low, rate_high) AS rate,
  figure_text(rate, '') AS speed,
  CASE WHEN pace > 0 THEN printf('%.4g', pace) END AS step, CASE i WHEN 1 THEN '1' ELSE
    (SELECT figure_text(of ->> 'value', '', of ->> 'low', of ->> 'high')
      FROM (SELECT ratio(best_v, best_low, best_high, v, low, high) AS of)) END AS over,
  CASE WHEN speedup >= 0 THEN printf('%.2f', speedup) END AS speedup, figure_text(efficiency, '%') AS efficiency,
  iif(is_peer, 'peer', gate) AS equal
FROM (SELECT ranked.*, is_peer, gate, first_value(v) OVER w AS best_v, first_value(high) OVER w AS best_high
  FROM ranked JOIN s USING (place)
  WINDOW w AS (PARTITION BY pool ORDER BY i)) AS one
ORDER BY size DESC, candidates DESC, (SELECT min(first) FROM ranked AS r WHERE r.pool = one.pool), i LIMIT 40;

-- slower
SELECT count(*) - 40 AS count FROM ranked HAVING count(*) > 40;

-- side: cases by the values of --against; rows whose steps are not alike are compared with others by the mean rate
CREATE TEMP TABLE side AS SELECT found.*, uneven, "time.samples_per_s_mean" AS mean,
  json_extract("time.samples_per_s_mean_ci95", '$[0]') AS mean_low,
  json_extract("time.samples_per_s_mean_ci95", '$[1]') AS mean_high,
  min(found.first) OVER (PARTITION BY title) AS begin, count(*) OVER (PARTITION BY title) AS sides
FROM (SELECT title, name AS value, min(place) AS first, max(place) FILTER (WHERE i = (n + 1) / 2) AS place, n AS count,
    median(pace) AS pace, median(rate) AS rate, CASE WHEN n > 1 THEN min(rate) ELSE rate_low END AS low,
    CASE WHEN n > 1 THEN max(rate) ELSE rate_high END AS high
  FROM (SELECT *, row_number() OVER (PARTITION BY title, name ORDER BY rate) AS i, count(*) OVER (PARTITION BY title,
    name) AS n
    FROM (SELECT place, pace, rate, rate_low, rate_high, title,
    name FROM s JOIN told USING (place) WHERE pool = 'pair'))
  GROUP BY title, name) AS found JOIN s USING (place);

-- pairs
SELECT CASE WHEN first = begin THEN title END AS "case", value, count, CASE WHEN pace > 0 THEN printf('%.4g',
  pace) END AS step,
  CASE WHEN first = begin THEN '1' ELSE figure_text(of ->> 'value', '', of ->> 'low', of ->> 'high') END AS over,
  CASE WHEN first != begin THEN of ->> 'verdict' END AS verdict
FROM (SELECT *, ratio(x, x_low, x_high, y, y_low, y_high) AS of FROM (SELECT b.*, iif(a.uneven = b.uneven, a.rate, a.mean) AS x, iif(a.uneven = b.uneven, a.low, a.mean_low) AS x_low,
    iif(a.uneven = b.uneven, a.high, a.mean_high) AS x_high, iif(a.uneven = b.uneven, b.rate, b.mean) AS y,
    iif(a.uneven = b.uneven, b.low, b.mean_low) AS y_low, iif(a.uneven = b.uneven, b.high, b.mean_high) AS y_high
  FROM side AS b JOIN side AS a ON a.title = b.title AND a.first = b.begin)) WHERE sides > 1 ORDER BY begin, first;

-- paired
SELECT 1 AS one FROM side WHERE sides > 1 LIMIT 1;

-- lonely
SELECT count(*) AS count FROM side WHERE sides = 1 HAVING count(*) > 0;

-- between: fields in which cases without a partner differ from those of another value
CREATE TEMP TABLE between_them AS SELECT a, b, group_concat(path, ', ') AS fields, count(*) AS n FROM (
  SELECT p.first AS a, o.first AS b, path
  FROM (SELECT first, value FROM side WHERE sides = 1 ORDER BY first LIMIT 20) AS p JOIN side AS o ON o.value != p.value
    JOIN member ON member.number IN (p.first, o.first) JOIN option USING (path)
  WHERE is_set_apart AND path != '{{against}}' GROUP BY p.first, o.first, path
  HAVING min(member.value) IS NOT max(member.value) OR count(member.value) BETWEEN 1 AND count(*) - 1
    OR (is_case AND count(*) = 1)
  ORDER BY a, b, rank, path) GROUP BY a, b;

-- unpaired
SELECT title, value, (SELECT value FROM side AS o WHERE o.first = nearest) AS other,
  coalesce((SELECT fields FROM between_them WHERE a = first AND b = nearest), 'nothing') AS fields
FROM (SELECT p.*, (SELECT o.first FROM side AS o LEFT JOIN between_them ON a = p.first AND b = o.first
    WHERE o.value != p.value ORDER BY coalesce(n, 0), o.first LIMIT 1) AS nearest
  FROM side AS p WHERE sides = 1 ORDER BY first LIMIT 20);

-- machine
CREATE TEMP TABLE machine AS SELECT row_number() OVER (ORDER BY first) AS number, * FROM (
  SELECT origin AS name, min(place) AS first, max(place) AS newest FROM s WHERE has_origin GROUP BY 1);

-- machines
SELECT machine.number, coalesce(nullif(name, ''), 'not named') AS name, (
  SELECT json_group_array(json_object('name', key, 'value', CASE WHEN type IN ('array', 'object') THEN list_text(value)
    WHEN type IN ('true', 'false') THEN type ELSE number_text(value) END)) FROM json_each(row,
    '$.provenance')) AS "facts:json"
FROM machine JOIN s ON place = newest ORDER BY machine.number;

-- models
SELECT "case.model" AS name, "case.model_digest" AS digest, '[' || replace(replace(json_quote("case.model_text"),
  '\\', '\u005c'), '\n', '","') || ']' AS "lines:json"
FROM s WHERE length("case.model_text") > 0 GROUP BY "case.model_digest" ORDER BY min(place);

-- predicted
SELECT count(*) AS count, (SELECT count(*) FROM chosen) AS total,
  nullif(sum("prediction.extrapolated" = 'true'), 0) AS extrapolated,
  CASE WHEN max("prediction.error") > 0 THEN printf('%.1f%% to %.1f%%', 100 * min(nullif("prediction.error", 0.0)),
    100 * max("prediction.error")) END AS error,
  (SELECT group_concat(x, ', ') FROM (SELECT DISTINCT "prediction.engine" AS x FROM s)) AS engines,
  (SELECT group_concat(x, ', ') FROM (SELECT DISTINCT "prediction.platform" AS x FROM s)) AS platforms
FROM s WHERE is_predicted HAVING count(*) > 0;

-- names
DELETE FROM asked;
INSERT INTO asked SELECT 0, at, "case.model" FROM read;
INSERT INTO naming VALUES ('case.batch_global');

-- saved: by accumulation and recomputation, next to the last row of the same case without them, of the same machine
WITH held AS MATERIALIZED (
    SELECT place, origin, pace, "case.recompute" != '' OR "case.gradient_accumulation_steps" > 1 AS eased,
      json_remove(row, '$.case.recompute', '$.case.gradient_accumulation_steps', '$.case.gradient_accumulation_exchange',
        '$.case.zero_accumulation') -> '$.case' AS plain,
      (SELECT max(value ->> '$.peak') FROM json_each(row, '$.memory.devices')) AS peak
    FROM s WHERE ok),
  twin AS MATERIALIZED (SELECT max(place) AS place, plain, origin FROM held WHERE eased IS NOT 1 GROUP BY plain, origin)
SELECT name AS label, iif(other.peak > own.peak, figure_text(other.peak - own.peak, 'bytes'), 'nothing') AS saved,
  figure_text(other.peak, 'bytes') AS whole,
  CASE WHEN other.pace > 0 AND own.pace > 0 THEN printf('%.2f', own.pace / other.pace) END AS times
FROM held AS own JOIN twin USING (plain, origin) JOIN held AS other ON other.place = twin.place
  JOIN named ON named.number = own.place
WHERE own.eased AND other.peak > 0 ORDER BY own.place LIMIT 20;

-- limits: what limits each row's step (bench/results/bound.sql)
INSERT INTO wanted SELECT number FROM s;
CREATE TEMP TABLE bound AS SELECT * FROM bounds;

-- rows
SELECT CASE WHEN "micro.op" IS NULL THEN name ELSE "micro.op" || coalesce(' ' ||
    CASE WHEN "micro.comm" IS NULL THEN "micro.shape" ELSE "micro.kernel" END, '') ||
    coalesce(' ' || figure_text(nullif("micro.size_bytes", 0), 'bytes'), '') END AS label,
  "case.model" AS model, iif(is_ours, printf('%g', trainers), NULL) AS devices, "case.batch_global" AS batch,
  figure_text(coalesce("micro.time_us" / 1e3, pace), 'plain') AS step,
  CASE WHEN pace_low > 0 THEN printf('%.1f%%', 50 * (pace_high - pace_low) / pace) END AS half,
  figure_text(rate, 'plain') AS rate, CASE WHEN "time.speedup" >= 0 THEN printf('%.2f', "time.speedup") END AS speedup,
  figure_text("time.efficiency", '%') AS efficiency,
  CASE WHEN "micro.op" IS NULL THEN gate END AS gate, "equivalence.pass" = 'false' OR NULL AS failed,
  "result.status" || coalesce(': ' || nullif(replace(list_text("result.warnings"), '+', ', '), ''), '') AS status,
  is_bad OR NULL AS bad, label AS tag, substr(timestamp, 1, 10) AS day,
  (SELECT group_concat(part || ' ' || figure_text(y, ''), ', ') FROM positive AS p WHERE p.number = place AND kind = 'time')
    AS steps,
  (SELECT json_group_array(json_object('class', k - 1, 'share', printf('%.3g', 100 * y / total))) FROM (
    SELECT k, y, total(y) OVER () AS total FROM positive AS p WHERE p.number = place AND kind = 'time')
    WHERE y > 0.002 * total) AS "bars:json",
  (SELECT group_concat(part || ' ' || figure_text(y, 'bytes'), ', ') FROM positive AS p
    WHERE p.number = place AND kind = 'memory') AS held,
  CASE WHEN "pipeline.bubble" >= 0 THEN printf('%.0f%% measured; the schedule gives %.0f%% for these passes, %.0f%% for equal stages; between the first and last '
    || 'pass of the longest stage %.0f%%, then %.0f%% until all stages have updated', 100 * "pipeline.bubble",
    100 * "pipeline.bubble_formula", 100 * "pipeline.bubble_equal", 100 * "pipeline.bubble_stage",
    100 * max(0, "pipeline.bubble_formula" - "pipeline.bubble_stage")) END AS idle,
  (SELECT json_group_array(escaped(value, 'line')) FROM bound, json_each(lines)
    WHERE bound.number = s.number AND value != '') AS "bound:json",
  "result.reason" AS reason, (SELECT machine.number FROM machine WHERE machine.name = origin) AS machine,
  "commit", id,
  CASE WHEN length(command) > most THEN substr(command, 1, most) || '…' ELSE command END AS command
FROM s JOIN named ON named.number = place, (SELECT min(1500, 250000 / count(*)) AS most FROM chosen) ORDER BY place;

-- cite
SELECT day, substr(day, 1, 4) AS year, "case.model" AS model, (SELECT count(*) FROM chosen) AS count,
  origin AS machine, whole_commit AS "commit", day || '-{{hash}}' AS key
FROM (SELECT *, CASE WHEN timestamp GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN substr(timestamp, 1, 10)
  ELSE '' END AS day FROM s) ORDER BY place DESC LIMIT 1;
