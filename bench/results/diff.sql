-- The fields of two rows, :a and :b (JSON; NULL: none), with their values as JSON: in the order of :a, then those that
-- only :b has. A key names also the numbers of elements, where a list has objects: "memory.devices.0.peak".
WITH part(side, key, place, type, value, whole) AS (
  SELECT column1, '', '', 'object', NULL, column2 FROM (VALUES ('a', :a), ('b', :b))
  UNION ALL
  SELECT side, ltrim(part.key || '.', iif(part.key = '', '.', '')) || child.key,
    place || printf('%09d', child.id), child.type, child.value,
    CASE WHEN child.type IN ('object', 'array') THEN child.value END
  FROM part, json_each(whole) AS child
  WHERE part.type = 'object' OR json_type(whole, '$[0]') = 'object'),
fields AS (
  SELECT side, key, place,
    CASE type WHEN 'text' THEN json_quote(value) WHEN 'real' THEN number_text(value)
      WHEN 'integer' THEN value || '' WHEN 'array' THEN value ELSE type END AS text
  FROM part WHERE type != 'object' AND json_type(whole, '$[0]') IS NOT 'object')
SELECT key, max(text) FILTER (WHERE side = 'a') AS "a:json", max(text) FILTER (WHERE side = 'b') AS "b:json"
FROM fields GROUP BY key
ORDER BY min(place) FILTER (WHERE side = 'a') IS NULL, min(place) FILTER (WHERE side = 'a'), min(place);
