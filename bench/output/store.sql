-- SPDX-License-Identifier: MIT
-- Statements on the rows of a connection (results_db.h): a section begins after an empty line with its name. Each
-- connection, to a results file or to rows in memory, has, besides the functions of functions.sql:
--   the view `v`: `number` (the rowid), `row` (its JSON text), a column for each field, named by its path
--     ("time.step_ms.median"; functions.sql says of which type), and what follows from several fields:
--       devices                      how many
--       pace, pace_low, pace_high    ms, as ls_row_pace; bounds are NULL where there is no interval
--       rate, rate_low, rate_high    samples per second of the same
--       mean, mean_low, mean_high    all samples over the time
--       uneven, is_bad, is_predicted, is_noisy, is_candidate   0 or 1
--     A column that a statement does not use costs nothing.
--   the table `chosen` (place, number), empty at first: rows in an order; and the view `s`: their `place`, and all columns
--     of `v`
--   the table `keyed` (g, key), empty at first: case_key of rows in groups; and the view `differences` (g, path): the
--     fields in which a group's rows differ

-- fields: the table of fields (bench/rows/fields.h), with the options that are declared, which have no type, and groups,
-- which have no place. The transaction ends when they are in it.
BEGIN;
CREATE TEMP TABLE field_table (path PRIMARY KEY, heading, list, nth, type, identifies, shown, less, fullest, how, number)
  WITHOUT ROWID;

-- derived: columns of the connection's view `v` that follow from several fields
json_array_length(row, '$.case.devices') AS devices, row_figure(row, 'pace') AS pace, row_figure(row, 'pace_low') AS pace_low,
row_figure(row, 'pace_high') AS pace_high, row_figure(row, 'rate') AS rate, row_figure(row, 'rate_low') AS rate_low,
row_figure(row, 'rate_high') AS rate_high, row_figure(row, 'mean') AS mean, row_figure(row, 'mean_low') AS mean_low,
row_figure(row, 'mean_high') AS mean_high, row_figure(row, 'uneven') AS uneven,
coalesce(json_type(row, '$.result.status') = 'text' AND row ->> '$.result.status' NOT IN ('ok', ''), 0) AS is_bad,
EXISTS (SELECT 1 FROM json_each(row, '$.result.warnings') WHERE value = 'predicted') AS is_predicted,
EXISTS (SELECT 1 FROM json_each(row, '$.result.warnings') WHERE value = 'noisy') AS is_noisy,
coalesce(json_type(row, '$.peer'), 'null') = 'null' AND NOT coalesce(strategy_fact(row ->> '$.case.strategy', 'alone'), 0)
  AS is_candidate

-- views: what else a connection has. `differences`: the paths in which the rows of a group `g` of `keyed` differ, found in
-- their case_key. A field of the case that only some rows have differs, too.
CREATE TEMP TABLE chosen (place INTEGER PRIMARY KEY, number INTEGER);
CREATE TEMP VIEW s AS SELECT chosen.place, v.* FROM temp.chosen JOIN temp.v USING (number);
CREATE TEMP TABLE keyed (g, key);
CREATE INDEX temp.keyed_g ON keyed (g);
CREATE TEMP VIEW differences AS SELECT g, field.key AS path
FROM keyed, json_each(keyed.key) AS part, json_each(part.value) AS field
GROUP BY g, part.key, field.key
HAVING count(DISTINCT field.type || coalesce(number_text(field.value), '')) > 1
  OR (part.key = 0 AND count(*) < (SELECT count(*) FROM keyed AS k WHERE k.g = keyed.g))
ORDER BY g, field_fact(field.key, 'order');

-- put: adds a row; :skips: unless its id is known
INSERT INTO rows
SELECT json_extract(row, '$.id'), json_extract(row, '$.timestamp'), json_extract(row, '$.result.status'),
  json_extract(row, '$.case.model'), json_extract(row, '$.case.strategy'), json_extract(row, '$.label'), row
FROM (SELECT :row AS row)
WHERE NOT :skips OR NOT EXISTS (SELECT 1 FROM rows WHERE id = json_extract(:row, '$.id'));

-- label: sets it, in one row
UPDATE main.rows SET label = nullif(:label, ''),
  row = iif(:label = '', json_remove(row, '$.label'), json_set(row, '$.label', :label))
WHERE rowid = :number;

-- put_all: rows of a list, all chosen
INSERT INTO main.rows (id, row) SELECT key, value FROM json_each(:rows);
INSERT INTO chosen SELECT rowid, rowid FROM main.rows;

-- by_time: the row :before so many
SELECT rowid AS number, row AS "row:json", 1 AS whole FROM main.rows ORDER BY timestamp DESC, rowid DESC LIMIT 1 OFFSET :before;

-- by_id: rows whose id begins like this, first the one that has it
SELECT rowid AS number, row AS "row:json", id = :name AS whole FROM main.rows WHERE substr(id, 1, length(:name)) = :name
ORDER BY whole DESC LIMIT 2;

-- unmix: leaves predicted rows out of `chosen`
CREATE TEMP TABLE kept AS SELECT number FROM s WHERE NOT is_predicted ORDER BY place;
DELETE FROM chosen;
INSERT INTO chosen (number) SELECT number FROM kept ORDER BY rowid;
DROP TABLE temp.kept;

-- usual: what the usual columns of a list show of the chosen rows
SELECT row -> '$.id' AS "id:json", row -> '$.timestamp' AS "timestamp:json", row -> '$.label' AS "label:json",
  row -> '$.case' AS "case:json", row -> '$.micro' AS "micro:json", row -> '$.time' AS "time:json",
  row -> '$.result' AS "result:json", row -> '$.peer' AS "peer:json"
FROM chosen JOIN main.rows ON rows.rowid = number ORDER BY place;

-- one_command: whether the rows were measured by one command on one host, each case once (8192: LS_BUT_TRAINED)
SELECT count(DISTINCT command) = 1 AND count(command) = count(*) AND count(DISTINCT "provenance.host") = 1
  AND count("provenance.host") = count(*) AND count(DISTINCT case_key(row, 8192)) = count(*) AS "is" FROM s;
