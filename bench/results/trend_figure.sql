-- The picture of `trend --out` (bench/report/pictures.h), as JSON: a line per level, named by the commit with which it
-- begins and its change. :commits: [{commit, median, low, high, by}] of one series; :path of the figure; :what the rows
-- are of.
WITH points AS (
  SELECT key + 1 AS place, value AS one, sum(key = 0 OR value->>'by' IS NOT NULL) OVER (ORDER BY key) - 1 AS level
  FROM json_each(:commits)),
lines AS (
  SELECT level, min(place) AS place, json_object('name',
      substr(escaped(one->>'commit', 'line'), 1, 7) || ifnull(' ' || (one->>'by'), ''), 'style', level % 9, 'variant', 0,
      'points', json('[' || group_concat('[' || place || ',' || (one->'median') || ',' || (one->'low') || ','
      || (one->'high') || ']') || ']')) AS line
  FROM (SELECT * FROM points ORDER BY place) GROUP BY level)
SELECT json_object('kind', 'lines', 'title',
  printf('%s moves %d time%s in %d commits', :path, max(level), iif(max(level) = 1, '', 's'),
    (SELECT count(*) FROM points)),
  'sub', :what, 'x', 'commits, by their first rows', 'y', :path || ', median of a commit', 'unit', '',
  'caption', :path || ' by commit; a bar is the range of its rows, a colour a level',
  'alt', printf('%s by commit, %d levels', :path, max(level) + 1), 'series', json_group_array(json(line))) AS "figure:json"
FROM (SELECT * FROM lines ORDER BY level);
