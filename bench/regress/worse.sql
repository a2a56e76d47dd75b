-- What came of the case :kase besides its time (cases.sql), in this order: an `error` why it cannot be compared; a row of
-- NEW that `failed`; or what is `worse` in the new rows than in all base rows, and `differences` that are only reported:
-- {key, base, new}. And which keys of :fail_on, [{key, tolerance}], are `known`, for a row has them ("": a row is ok).
-- :base and :new are paths. Only rows that are ok count; of a side's numbers, or lists of them, the worst counts, of other
-- values each.
DELETE FROM found WHERE kase = :kase;
INSERT INTO found
WITH
states AS (
  SELECT column1 AS side, column2 AS path, row,
    EXISTS (SELECT 1 FROM held WHERE held.kase = :kase AND held.side = column3 AND pace > 0) AS timed,
    ifnull(row ->> '$.result.status', 'unknown') AS status, ifnull(row ->> '$.result.reason', 'no reason is given') AS reason,
    ifnull(json_type(row, '$.equivalence.pass') = 'false', 0) OR row ->> '$.result.status' IS 'failed' AS failed
  FROM (VALUES ('base', :base, 0), ('new', :new, 1)) LEFT JOIN represents ON kase = :kase AND side = column3),
stop AS MATERIALIZED (
  SELECT list, text, change FROM (
    SELECT 0 AS nth, side, 'error' AS list, 'is missing in ' || path AS text, NULL AS change FROM states WHERE row IS NULL
    UNION ALL SELECT 1, '', 'failed', '', json_object('key', 'result.status', 'base', base.status, 'new', new.status,
        'reason', new.reason) FROM states AS base JOIN states AS new ON new.side = 'new' AND new.failed
      WHERE base.side = 'base' AND NOT base.failed
    UNION ALL SELECT 2, side, 'error', iif(status = 'ok', 'has no time in ' || path || ': nothing was measured',
        'is ' || status || ' in ' || path || ': ' || reason), NULL FROM states WHERE status != 'ok' OR NOT timed)
  ORDER BY nth, side LIMIT 1),
-- The keys of a label "intended KEY, KEY: reason".
intended AS (
  SELECT ifnull(key_path(value), value) AS key
  FROM (SELECT substr(row ->> '$.label', 9) AS label FROM states WHERE side = 'base' AND row ->> '$.label' GLOB 'intended[ ,]*'),
    json_each('[' || replace(json_quote(replace(substr(label, 1, instr(label || ':', ':') - 1), ',', ' ')), ' ', '","') || ']')
  WHERE value != ''),
keys AS (
  SELECT row_number() OVER (ORDER BY part, k) AS k, part, field,
    part < 3 AND field NOT IN (SELECT key FROM intended) AS fails, tolerance,
    field_fact(field, 'less') AS less, field_fact(field, 'list') AS list
  FROM (
    SELECT 1 AS part, key AS k, value AS field, 0.0 AS tolerance
    FROM json_each('["traffic.bytes_sent","traffic.messages_sent","memory.formula"]')
    UNION ALL SELECT 2, key, value ->> 'key', value ->> 'tolerance' FROM json_each(:fail_on)
    UNION ALL SELECT 3, key, value, 0.0
    FROM json_each('["program.nodes","program.bytes","memory.devices.peak","train.accuracy","train.evaluated",'
      || '"equivalence.grade","train.loss_last"]'))),
sides AS (
  SELECT iif(side, 'new', 'base') AS side, number AS r, row FROM held JOIN main.rows ON rows.rowid = number
  WHERE kase = :kase AND row ->> '$.result.status' = 'ok'),
-- Values as JSON: null where a row has none. memory.formula: the sum of what formulas say of the devices' memory.
found AS (
  SELECT k, side, r, ifnull(CASE
    WHEN field = 'memory.formula' THEN (SELECT iif(count(*), printf('%.0f', total(value)), NULL)
      FROM json_tree(row, '$.memory.devices')
      WHERE path GLOB '*.formula' AND key != 'peak' AND type = 'integer')
    WHEN list IS NULL THEN row -> ('$.' || field)
    ELSE (SELECT nullif(json_group_array(row -> (fullkey || substr(field, length(list) + 1))), '[]')
      FROM json_each(row, '$.' || list) WHERE row ->> (fullkey || substr(field, length(list) + 1)) IS NOT NULL)
    END, 'null') AS value
  FROM keys, sides),
leaves AS (
  SELECT k, side, r, tree.fullkey AS at, tree.type IN ('integer', 'real') AS number, tree.type AS kind, tree.atom AS atom
  FROM found, json_tree('[' || found.value || ']') AS tree WHERE tree.fullkey != '$'),
-- Values of one shape differ in numbers alone.
shapes AS (
  SELECT k, side, r, group_concat(at || iif(number, '', ' ' || kind || ' ' || ifnull(atom, '')), char(31)) AS shape,
    max(kind IN ('object', 'text', 'true', 'false', 'null') OR at GLOB '$[[]0][[]*][[]*') AS mixed
  FROM (SELECT * FROM leaves ORDER BY k, side, r, at) GROUP BY k, side, r),
worst AS (
  SELECT k, side, shape, at, iif(less, min(atom), max(atom)) AS x
  FROM leaves JOIN shapes USING (k, side, r) JOIN keys USING (k) WHERE number GROUP BY k, side, shape, at),
figures AS (
  SELECT k, side, shape, r AS first, nullif(CASE WHEN mixed THEN value
      WHEN value GLOB '[[]*' THEN '[' || (SELECT ifnull(group_concat(number_text(x)), '') FROM (SELECT x FROM worst AS w
        WHERE w.k = one.k AND w.side = one.side AND w.shape = one.shape ORDER BY length(at), at)) || ']'
      ELSE (SELECT number_text(x) FROM worst AS w WHERE w.k = one.k AND w.side = one.side AND w.shape = one.shape)
      END, 'null') AS value
  FROM (SELECT k, side, shape, mixed, min(r) AS r FROM shapes GROUP BY k, side, shape) AS one JOIN found USING (k, side, r)),
-- Each new figure and each base figure.
pairs AS (
  SELECT n.k AS k, n.first AS n, b.first AS b,
    n.shape != b.shape OR EXISTS (SELECT 1 FROM worst AS y JOIN worst AS x USING (k, shape, at)
      WHERE k = n.k AND shape = n.shape AND y.side = 'new' AND x.side = 'base' AND CASE
        WHEN tolerance > 0 THEN iif(less, x.x - y.x, y.x - x.x) > (tolerance + 1e-12) * abs(x.x + 0.0)
        WHEN less THEN y.x < x.x ELSE y.x > x.x END) AS worse,
    n.shape != b.shape OR EXISTS (SELECT 1 FROM worst AS y JOIN worst AS x USING (k, shape, at)
      WHERE k = n.k AND shape = n.shape AND y.side = 'new' AND x.side = 'base' AND y.x != x.x) AS other
  FROM figures AS n JOIN figures AS b ON b.k = n.k AND n.side = 'new' AND b.side = 'base' JOIN keys ON keys.k = n.k),
-- The first figure that is worse than, or differs from, all of the other side; else the first ones.
places AS (
  SELECT k, field, fails,
    (SELECT min(first) FROM figures AS f WHERE f.k = keys.k AND side = 'new'
      AND NOT EXISTS (SELECT 1 FROM pairs WHERE pairs.k = keys.k AND n = first AND NOT worse)) AS worse,
    (SELECT min(first) FROM figures AS f WHERE f.k = keys.k AND side = 'new'
      AND NOT EXISTS (SELECT 1 FROM pairs WHERE pairs.k = keys.k AND n = first AND NOT other)) AS other,
    (SELECT min(first) FROM figures AS f WHERE f.k = keys.k AND side = 'base'
      AND NOT EXISTS (SELECT 1 FROM pairs WHERE pairs.k = keys.k AND b = first AND NOT other)) AS lost,
    (SELECT min(first) FROM figures AS f WHERE f.k = keys.k AND side = 'new') AS new,
    (SELECT min(first) FROM figures AS f WHERE f.k = keys.k AND side = 'base' AND value IS NOT NULL) AS base
  FROM keys),
changes AS (
  SELECT k, field, fails, worse IS NOT NULL AS worse,
    (SELECT value FROM figures AS f WHERE f.k = one.k AND side = 'base'
      AND first = iif(worse IS NULL AND other IS NULL, lost, base)) AS base,
    (SELECT value FROM figures AS f WHERE f.k = one.k AND side = 'new' AND first = coalesce(worse, other, new)) AS new
  FROM places AS one),
-- An older program may not have a field yet: that is not worse, unless it is a text.
judged AS (
  SELECT *, fails AND worse AND (base IS NOT NULL OR ifnull(new GLOB '"*', 0)) AS fail
  FROM changes WHERE worse OR (base IS NOT NULL AND new IS NOT NULL))
SELECT :kase, list, text, change FROM (
  SELECT 0 AS part, 0 AS k, list, text, change FROM stop
  UNION ALL SELECT 1, k, iif(fail, 'worse', 'differences'), '', '{"key":' || json_quote(field)
      || ifnull(',"base":' || base, '') || ifnull(',"new":' || new, '') || '}' FROM judged AS one
    WHERE NOT EXISTS (SELECT 1 FROM stop)
      AND NOT EXISTS (SELECT 1 FROM judged WHERE judged.field = one.field AND judged.k < one.k AND judged.fail >= one.fail)
  UNION ALL SELECT 2, k, 'known', field, NULL FROM keys
    WHERE part = 2 AND EXISTS (SELECT 1 FROM found WHERE found.k = keys.k AND value != 'null')
  UNION ALL SELECT 2, 0, 'known', '', NULL WHERE EXISTS (SELECT 1 FROM sides))
ORDER BY part, k;
