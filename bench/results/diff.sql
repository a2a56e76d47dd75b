-- The fields of two rows, :a and :b (JSON; NULL: none), with their values as JSON: in the order of :a, then those that
-- only :b has. A key names also the numbers of elements, where a list has objects: "memory.devices.0.peak". `brief`: it
-- tells something by itself: what is asked for, where it ran, what came out; not how that came about, nor what follows
-- from another key. An unknown key is a declared option, or of a newer program: it tells something.
WITH part(side, key, path, brief, place, type, value, whole) AS (
  SELECT column1, '', '', NULL, '', 'object', NULL, column2 FROM (VALUES ('a', :a), ('b', :b))
  UNION ALL
  SELECT side, ltrim(part.key || '.', iif(part.key = '', '.', '')) || child.key,
    iif(part.type = 'array', part.path, ltrim(part.path || '.' || child.key, '.')),
    iif(part.type = 'array', brief, ifnull(field_fact(ltrim(part.path || '.' || child.key, '.'), 'diff'), brief)),
    place || printf('%09d', child.id), child.type, child.value,
    CASE WHEN child.type IN ('object', 'array') THEN child.value END
  FROM part, json_each(whole) AS child
  WHERE part.type = 'object' OR json_type(whole, '$[0]') = 'object'),
fields AS (
  SELECT side, key, brief, place, iif(type IN ('true', 'false', 'null'), type, value) AS value,
    CASE type WHEN 'text' THEN json_quote(value) WHEN 'real' THEN number_text(value)
      WHEN 'integer' THEN value || '' WHEN 'array' THEN value ELSE type END AS text
  FROM part WHERE type != 'object' AND json_type(whole, '$[0]') IS NOT 'object')
SELECT key, ifnull(max(brief), 1) AS brief, count(*) = 1 OR min(value) IS NOT max(value) AS differs,
  max(text) FILTER (WHERE side = 'a') AS "a:json", max(text) FILTER (WHERE side = 'b') AS "b:json"
FROM fields GROUP BY key
ORDER BY min(place) FILTER (WHERE side = 'a') IS NULL, min(place) FILTER (WHERE side = 'a'), min(place);
