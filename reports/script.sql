-- SPDX-License-Identifier: MIT
-- Pictures as scripts of gnuplot for :format svg, png or pdf. :document has the `figures` (bench/report/pictures.h) and the
-- texts of the templates `frame`, `lines` and `bars`, before which what a figure shows is set (frame.gp lists it).
--   Text of rows stands in single quotes, in which gnuplot's only escape is a doubled quote, though not at the beginning:
-- hence a first character, which [2:*] takes away. Other kinds than SVG have letters that this machine's fonts have:
-- gnuplot draws a box over the picture in place of a missing one. The larger the letters, the fewer fit a line.
WITH RECURSIVE
figures AS MATERIALIZED (
  SELECT key AS f, json_remove(value, '$.svg', '$.data', '$.points') AS figure, iif(value ->> 'letters' > 0, (value ->> 'letters') / 6.2, 1.0) AS letters,
    ifnull(json_array_length(value, '$.series'), 0) AS series, ifnull(json_array_length(value, '$.categories'), 0) AS cases,
    json_type(value, '$.categories') IS NOT NULL AS has_cases
  FROM json_each(:document, '$.figures')),
-- Texts in at most `most` lines of `width` characters: a line ends at a blank, if one comes late enough.
lines (f, text, width, most, k, line, rest) AS (
  SELECT f, column1, CAST(column2 / letters AS INTEGER), column3, 0, NULL,
    iif(figure -> 'bare' = 'true' AND column1 IN ('TITLE', 'SUB', 'FOOT'), '', ifnull(figure ->> lower(column1), ''))
  FROM figures, (VALUES ('TITLE', 50, 2), ('SUB', 74, 2), ('FOOT', 76, 3), ('X', 60, 1), ('Y', 60, 1), ('UNIT', 60, 1))
  UNION ALL
  SELECT f, text, width, most, k + 1, substr(rest, 1, size.value),
    substr(rest, size.value + 1 + (substr(rest, size.value + 1, 1) = ' '))
  FROM lines, json_each(json_array(CASE WHEN k + 1 = most OR length(rest) <= width THEN length(rest)
    WHEN length(rtrim(substr(rest, 1, width + 1), replace(substr(rest, 1, width + 1), ' ', ''))) - 1 > width / 4
      THEN length(rtrim(substr(rest, 1, width + 1), replace(substr(rest, 1, width + 1), ' ', ''))) - 1
    ELSE width END)) AS size
  WHERE k < most AND rest != ''),
-- Names of many series are cut for a legend of two columns, if the cut ones still distinguish the series.
room AS (
  SELECT f, iif(series > 6 AND series = (SELECT count(DISTINCT squeezed(ifnull(value ->> 'name', ''),
    CAST(28 / letters AS INTEGER))) FROM json_each(figure, '$.series')), 28, 60) AS most FROM figures),
names AS (
  SELECT f, 'NAMES' AS list, key + 1 AS i, ifnull(value ->> 'name', '') AS name, CAST(most / letters AS INTEGER) AS width
  FROM figures JOIN room USING (f), json_each(figure, '$.series')
  UNION ALL SELECT f, 'CASES', key + 1, value, CAST(40 / letters AS INTEGER) FROM figures, json_each(figure, '$.categories')),
shown AS (
  SELECT f, list, i, '''|' || escaped(iif(length(text) > width, substr(text, 1, width) || '…', text), 'gnuplot')
    || '''[2:*]' AS text
  FROM (SELECT f, list, i, width, iif(:format = 'svg', text, escaped(text, 'font')) AS text FROM (
    SELECT f, text AS list, k AS i, width, line AS text FROM lines WHERE k > 0
    UNION ALL SELECT f, list, i, width, squeezed(name, width) FROM names))),
-- A number without a point, "1e+30", is not a number in gnuplot's texts.
points AS (
  SELECT f, one.key AS s, point.key AS p, (SELECT group_concat(iif(number GLOB '*e*' AND number NOT GLOB '*.*',
      replace(number, 'e', '.0e'), number), ' ') FROM (
    SELECT number_text(ifnull(point.value ->> column1, 0.0)) AS number FROM (VALUES (0), (1), (2), (3)))) AS text
  FROM figures, json_each(figure, '$.series') AS one, json_each(one.value, '$.points') AS point),
script (f, part, i, k, text) AS (
  SELECT f, 0, 0, 0, printf('KIND = ''%s''' || char(10) || 'NAME = ''%s''' || char(10) || 'LETTERS = %.4f' || char(10)
    || 'STACKED = %d' || char(10) || 'LOG_X = %d' || char(10) || 'LOG_Y = %d' || char(10) || 'C = %d' || char(10)
    || 'array CASES[C + 1]' || char(10) || 'array CASE_STYLES[C + 1]' || char(10) || 'S = %d' || char(10)
    || 'array NAMES[S]' || char(10) || 'array STYLES[S]' || char(10) || 'array VARIANTS[S]' || char(10)
    || 'array PREDICTED[S]' || char(10) || 'array LENGTHS[S]' || char(10) || 'LONGEST = %d', :format, figure ->> 'name',
    letters, figure ->> 'kind' = 'bars', figure ->> 'log_x', figure ->> 'log_y', cases, max(series, 1),
    (SELECT max(min(length(name), most)) FROM names JOIN room USING (f) WHERE f = figures.f AND list = 'NAMES'))
  FROM figures
  UNION ALL SELECT f, 1, 0, 0, printf('%s = ''''%s' || char(10) || '%s_LINES = %d', text, ifnull('.' || (
      SELECT group_concat(text, '."\n".') FROM (SELECT text FROM shown WHERE shown.f = lines.f AND list = lines.text
      ORDER BY i)), ''), text,
    max(k)) FROM lines GROUP BY f, text
  UNION ALL SELECT f, 2, i, 0, printf('%s[%d] = %s', list, i, text) FROM shown WHERE list IN ('NAMES', 'CASES')
  UNION ALL SELECT f, 2, key, 0, printf('CASE_STYLES[%d] = %d', key + 1, value) FROM figures, json_each(figure, '$.styles')
  UNION ALL SELECT f, 2, key, 0, printf('STYLES[%d] = %d' || char(10) || 'VARIANTS[%d] = %d' || char(10)
      || 'PREDICTED[%d] = %d' || char(10) || 'LENGTHS[%d] = %d', key + 1, ifnull(value ->> 'style', 1000), key + 1,
    value ->> 'variant', key + 1, value ->> 'predicted', key + 1, json_array_length(value, '$.points'))
    FROM figures, json_each(figure, '$.series')
  UNION ALL SELECT f, 3, 0, 0, '$points << EOD' FROM figures
  UNION ALL SELECT f, 4, s, p, (s + 1) || ' ' || text FROM points
  UNION ALL SELECT f, 4, key, 1e9, char(10) FROM figures, json_each(figure, '$.series')
  UNION ALL SELECT f, 5, 0, 0, 'EOD' || char(10) || (:document ->> 'frame')
    || (:document ->> iif(has_cases, 'bars', 'lines')) FROM figures)
SELECT text || char(10) AS text FROM script ORDER BY f, part, i, k;
