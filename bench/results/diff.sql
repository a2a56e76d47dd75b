-- What `results diff` prints of the rows with the numbers :a and :b: a table of the keys in which they differ, then what
-- people are told. :people: the form is for people, who get the keys that tell something by themselves, rounded, unless
-- :all; other programs get all keys, and the ratio as one more. And what `results show --all` prints of :a (:show).
DELETE FROM keyed;
INSERT INTO keyed SELECT parts, case_key(row, 1, parts) FROM (SELECT 0 AS parts UNION ALL SELECT 112),
  main.rows WHERE rows.rowid IN (:a, :b);
WITH
-- The fields of both rows, with their values as JSON. A key names also the numbers of elements, where a list has
-- objects: "memory.devices.0.peak". `brief`: it tells something by itself: what is asked for, where it ran, what came
-- out; not how that came about, nor what follows from another key. An unknown key is a declared option, or of a newer
-- program: it tells something.
part(side, key, path, brief, place, type, value, whole) AS (
  SELECT column1, '', '', NULL, '', 'object', NULL, row FROM (VALUES ('a', :a), ('b', :b)) JOIN main.rows ON rows.rowid = column2
  UNION ALL
  SELECT side, ltrim(part.key || '.', iif(part.key = '', '.', '')) || child.key,
    iif(part.type = 'array', part.path, ltrim(part.path || '.' || child.key, '.')),
    iif(part.type = 'array', brief, ifnull(field_fact(ltrim(part.path || '.' || child.key, '.'), 'diff'), brief)),
    place || printf('%09d', child.id), child.type, child.value,
    CASE WHEN child.type IN ('object', 'array') THEN child.value END
  FROM part, json_each(whole) AS child
  WHERE part.type = 'object' OR json_type(whole, '$[0]') = 'object'),
fields AS (
  SELECT side, key, brief, place, type, iif(type IN ('true', 'false', 'null'), type, value) AS value,
    CASE type WHEN 'text' THEN json_quote(value) WHEN 'real' THEN number_text(value)
      WHEN 'integer' THEN value || '' WHEN 'array' THEN value ELSE type END AS text
  FROM part WHERE type != 'object' AND json_type(whole, '$[0]') IS NOT 'object'),
-- Figures for people are rounded; options keep their given form. In the order of :a, then those that only :b has.
keys AS MATERIALIZED (
  SELECT key, ifnull(max(brief), 1) OR :all OR NOT :people AS told, max(text) FILTER (WHERE side = 'a') AS a,
    max(iif(type = 'real' AND :people AND NOT :all AND key NOT GLOB 'case.*', json_quote(digits(value, 4)), text))
      FILTER (WHERE side = 'a') AS shown_a,
    max(iif(type = 'real' AND :people AND NOT :all AND key NOT GLOB 'case.*', json_quote(digits(value, 4)), text))
      FILTER (WHERE side = 'b') AS shown_b,
    count(*) = 1 OR min(value) IS NOT max(value) AS differs,
    row_number() OVER (ORDER BY min(place) FILTER (WHERE side = 'a') IS NULL, min(place) FILTER (WHERE side = 'a'),
      min(place)) AS nth
  FROM fields GROUP BY key),
-- The times of the median step or, if the steps of one row are not alike, of a sample; in ms.
times AS (
  SELECT a.uneven OR b.uneven AS by_sample,
    iif(a.uneven OR b.uneven, 1e3 / a.mean, a.pace) AS a, iif(a.uneven OR b.uneven, 1e3 / a.mean_high, a.pace_low) AS a_low,
    iif(a.uneven OR b.uneven, 1e3 / a.mean_low, a.pace_high) AS a_high,
    iif(a.uneven OR b.uneven, 1e3 / b.mean, b.pace) AS b, iif(a.uneven OR b.uneven, 1e3 / b.mean_high, b.pace_low) AS b_low,
    iif(a.uneven OR b.uneven, 1e3 / b.mean_low, b.pace_high) AS b_high
  FROM v AS a JOIN v AS b ON b.number = :b WHERE a.number = :a),
pair AS MATERIALIZED (
  SELECT *, b / a AS over, a_low + b_low IS NOT NULL AS known, ratio(b, b_low, b_high, a, a_low, a_high) AS ratio FROM times),
others AS (
  SELECT 'not one case: ' || group_concat(path, ', ') AS text FROM differences WHERE g = 0
  UNION ALL SELECT 'not one machine: ' || group_concat(path, ', ') FROM differences
  WHERE g = 112 AND path NOT IN (SELECT path FROM differences WHERE g = 0)),
grouped AS (
  SELECT nth, a, iif(instr(name, '.'), substr(name, 1, instr(name, '.') - 1), '') AS part,
    substr(name, instr(name, '.') + 1) AS name
  FROM (SELECT nth, a, escaped(key, 'line') AS name FROM keys) WHERE :show),
lines (part, nth, text, row) AS (
  SELECT 0, nth, NULL, '{"key":' || json_quote(key) || ifnull(',"a":' || shown_a, '') || ifnull(',"b":' || shown_b, '')
    || '}' FROM keys WHERE NOT :show AND differs AND told
  UNION ALL SELECT 1, 0, NULL, '{"key":"ratio","a":' || number_text(a) || ',"b":' || number_text(b) || ',"ratio":'
      || number_text(over) || iif(by_sample, ',"of":"sample"', '')
      || iif(known, ',"ci95":' || json_array(ratio -> 'low', ratio -> 'high'), '') || '}'
    FROM pair WHERE NOT :people AND over > 0
  UNION ALL SELECT 2, 0, count(*) || ' more keys differ; --all shows them' || char(10), NULL FROM keys
    WHERE differs AND NOT told HAVING count(*) > 0
  UNION ALL SELECT 3, 0, char(10) || ifnull('B / A, ' || iif(by_sample, 'time of a sample, for steps are not alike',
      'median step') || ': ' || digits(b, 4) || ' / ' || digits(a, 4) || ' ms = ' || digits(over, 4)
      || iif(known, ', 95% interval ' || digits(ratio ->> 'low', 4) || ' to ' || digits(ratio ->> 'high', 4) || ': '
        || iif(ratio ->> 'verdict' IN ('faster', 'slower'), 'B is ', '') || (ratio ->> 'verdict'),
        ' (no interval: not both rows have one)'), 'no ratio of times: not both rows have timed steps') || char(10), NULL
    FROM pair WHERE :people
  UNION ALL SELECT 4, 0, wrapped(group_concat(text, '; '), 0, 0, 80), NULL FROM others WHERE :people
  UNION ALL SELECT 5, nth, iif(part != '' AND part IS NOT lag(part) OVER (ORDER BY nth), char(10) || part || char(10), '')
      || iif(part = '', printf('%-26s', name), printf('  %-24s', name)) || ' ' || escaped(value_text(a), 'line') || char(10),
      NULL FROM grouped)
SELECT text, row AS "row:json" FROM lines WHERE text IS NOT NULL OR row IS NOT NULL ORDER BY part, nth;
