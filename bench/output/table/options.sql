-- Which options cases have, and in which they differ. The table `cases` has the group `case` of each case, in sets `g`;
-- only those with an equal `among` are compared. Cases differ in an option if two have different values, or if of two
-- with the same model, data, strategy and reduce only one has it (that another strategy lacks it is no difference). Of
-- a model's digest only two of one file are a difference. The most telling options come first.
CREATE TEMP TABLE IF NOT EXISTS cases (g, nth, among, "case");
CREATE TEMP VIEW IF NOT EXISTS options AS
WITH
one AS (
  SELECT g, nth, among, "case", among || char(10) || ifnull("case" ->> 'model', '') AS file,
    json_array(among, "case" ->> 'model', "case" ->> 'data', "case" ->> 'strategy', "case" ->> 'reduce') AS kind
  FROM cases),
member AS MATERIALIZED (
  SELECT g, nth, kind, m.key AS name, m.id AS id, iif(m.key = 'model_digest', file, among) AS among,
    iif(m.type IN ('true', 'false', 'null'), m.type, m.value) AS value
  FROM one, json_each("case") AS m),
size AS (SELECT g, kind, count(*) AS n FROM one GROUP BY g, kind),
differing AS (
  SELECT g, name FROM member GROUP BY g, name, among HAVING count(DISTINCT value) > 1
  UNION SELECT g, name FROM member JOIN size USING (g, kind) WHERE name != 'model_digest'
  GROUP BY g, name, kind HAVING count(*) < n)
SELECT g, name, 'case.' || name AS path, (g, name) IN differing AS differs, field_fact('case.' || name, 'follows') AS follows,
  field_fact('case.' || name, 'kept') AS telling, row_number() OVER (ORDER BY field_fact('case.' || name, 'place'), first) AS nth
FROM (SELECT g, name, min(nth * 1000 + id) AS first FROM member GROUP BY g, name)
WHERE NOT field_fact('case.' || name, 'derived');
