-- What `results trend` says besides its table. A `note` for each series whose rows differ in more than the commit; and,
-- if it :draws, the picture of the only series (bench/report/pictures.h): a line per level, named by the commit with
-- which it begins and its change. :path of the figure.
WITH lines AS (
  SELECT level, json_object('name', substr(escaped(name, 'line'), 1, 7) || ifnull(' ' || max(by), ''), 'style',
      level % 9, 'variant', 0, 'points', json('[' || group_concat('[' || (nth + 1) || ',' || number_text(median) || ','
      || number_text(low) || ',' || number_text(high) || ']') || ']')) AS line
  FROM (SELECT * FROM commits ORDER BY nth) GROUP BY level)
SELECT iif(name = '', '', ': ') || name || ': rows differ in ' || differ AS note, NULL AS "figure:json"
FROM series WHERE differ IS NOT NULL
UNION ALL SELECT NULL, json_object('kind', 'lines', 'title',
  printf('%s moves %d time%s in %d commits', :path, max(level), iif(max(level) = 1, '', 's'),
    (SELECT count(*) FROM commits)),
  'sub', (SELECT iif(json_type(row, '$.micro') = 'object', row ->> '$.micro.op' || ' ' || (row ->> '$.micro.shape'),
    row ->> '$.case.model' || ' ' || (row ->> '$.case.strategy')) FROM facts JOIN main.rows ON rows.rowid = first
    ORDER BY place LIMIT 1),
  'x', 'commits, by their first rows', 'y', :path || ', median of a commit', 'unit', '',
  'caption', :path || ' by commit; a bar is the range of its rows, a colour a level',
  'alt', printf('%s by commit, %d levels', :path, max(level) + 1), 'series', json_group_array(json(line)))
FROM (SELECT * FROM lines ORDER BY level) WHERE :draws HAVING count(*) > 0;
