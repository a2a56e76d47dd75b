-- Joins the rows of several ranks: a row of the result is a path, and the value that the first row gets there (NULL: none).
-- :document has `rows`, whose values are joined by ls_join of bench/rows/fields.h, and the `hosts` of the rows, without
-- which nothing is said of what ranks share.
WITH
ranks AS (
  SELECT key AS r, value AS row, json_extract(:document, '$.hosts[' || key || ']') AS host
  FROM json_each(:document, '$.rows')),
found AS MATERIALIZED (
  SELECT path, CASE how WHEN 1 THEN 'concat' WHEN 2 THEN 'max' WHEN 3 THEN 'sum' ELSE 'named' END AS how, r,
    nullif(row -> ('$.' || path), 'null') AS value
  FROM field_table, ranks WHERE field_table.how > 0),
-- Texts that should be the same, of fields and, by name, of maps; NULL for a rank without one.
named AS (
  SELECT path, NULL AS name, 0 AS nth FROM found WHERE how = 'named' AND json_type(value) = 'text' GROUP BY path
  UNION ALL SELECT found.path, one.key, min(1000 * r + one.id) FROM found, json_each(found.value) AS one
  WHERE how = 'named' AND json_type(found.value) = 'object' GROUP BY found.path, one.key),
texts AS (
  SELECT path, name, nth, r, iif(name IS NULL, value ->> '$', value ->> name) AS text FROM named JOIN found USING (path)),
-- "1 (ranks 0-2+4), unset (ranks 3)"
runs AS (
  SELECT path, name, nth, text, min(r) AS first, min(r) || iif(min(r) < max(r), '-' || max(r), '') AS ranks
  FROM (SELECT *, r - row_number() OVER (PARTITION BY path, name, text ORDER BY r) AS run FROM texts)
  GROUP BY path, name, text, run),
said AS (
  SELECT path, name, nth, text, min(first) AS first,
    ifnull(text, 'unset') || ' (ranks ' || group_concat(ranks, '+') || ')' AS words
  FROM (SELECT * FROM runs ORDER BY first) GROUP BY path, name, text),
told AS (
  SELECT path, name, nth, iif(count(*) = 1, max(text), group_concat(words, ', ')) AS text
  FROM (SELECT * FROM said ORDER BY first) GROUP BY path, name),
-- What ranks of one host share.
things AS (
  SELECT r, host, 'core' AS kind, atom AS id FROM ranks, json_tree(row, '$.provenance.cores') WHERE atom IS NOT NULL
  UNION ALL SELECT r, host, 'gpu', value ->> 'pci' FROM ranks, json_each(row, '$.provenance.gpus')
  WHERE value ->> 'pci' IS NOT NULL),
shared AS MATERIALIZED (
  SELECT kind FROM things WHERE host IS NOT NULL GROUP BY host, kind, id HAVING count(DISTINCT r) > 1),
-- Noise is that of the device that lost most to others. Where ranks share cores, time taken by other programs cannot be
-- distinguished from time that ranks took from each other.
lost AS (
  SELECT r, row FROM ranks WHERE row -> '$.noise.others' IS NOT NULL AND :document -> '$.rows[0].noise' IS NOT NULL
  ORDER BY row ->> '$.noise.others' DESC, r LIMIT 1)
SELECT found.path AS path, '[' || group_concat(found.value -> one.fullkey) || ']' AS "value:json"
FROM found, json_each(found.value) AS one WHERE how = 'concat' GROUP BY found.path
UNION ALL SELECT path, value FROM (
  SELECT path, value, row_number() OVER (PARTITION BY path ORDER BY value ->> '$' DESC, r) AS nth FROM found
  WHERE how = 'max' AND value IS NOT NULL) WHERE nth = 1
UNION ALL SELECT path, number_text(total(value ->> '$')) FROM found WHERE how = 'sum' GROUP BY path
  HAVING max(r = 0 AND value IS NOT NULL)
UNION ALL SELECT path, iif(name IS NULL, json_quote(text), json_group_object(name, text))
  FROM (SELECT * FROM told ORDER BY nth) GROUP BY path
UNION ALL SELECT column1, iif('core' IN shared, NULL, iif(column1 = 'noise.of_rank', r, row -> ('$.' || column1)))
  FROM lost, (VALUES ('noise.others'), ('noise.cores'), ('noise.of_rank'))
UNION ALL SELECT 'provenance.ranks', '[' || group_concat(json_patch('{}', json_object('host',
    row ->> '$.provenance.host', 'cores', row -> '$.provenance.cores'))) || ']' FROM ranks HAVING max(host IS NOT NULL)
UNION ALL SELECT 'provenance.oversubscribed', iif(EXISTS (SELECT 1 FROM shared)
    OR max(row ->> '$.provenance.oversubscribed'), 'true', 'false') FROM ranks HAVING max(host IS NOT NULL);
