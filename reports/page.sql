-- SPDX-License-Identifier: MIT
-- What the page shows of the rows chosen (view s, see bench/output/results_query.h): a query for each list of
-- page.html, page.markdown and report.bib. A column NAME[] is JSON. Functions of bench/report/page.c: row_text(place,
-- what), figure_text(value, unit).

-- machine
CREATE TEMP TABLE machine AS SELECT row_number() OVER (ORDER BY first) AS number, * FROM (
  SELECT row_text(place, 'machine') AS name, min(place) AS first, max(place) AS newest FROM s
  WHERE json_type(row, '$.provenance') = 'object' GROUP BY 1);

-- part
CREATE TEMP TABLE part AS SELECT column1 AS class, column2 AS name, column3 AS key FROM (VALUES
  (0, 'compute', 'compute_ms'), (1, 'optimizer', 'optimizer_ms'), (2, 'communication', 'comm_exposed_ms'),
  (3, 'wait', 'wait_ms'), (4, 'copy', 'copy_ms'), (5, 'harness', 'harness_ms'));

-- machines
SELECT machine.number, coalesce(nullif(name, ''), 'not named') AS name, (
  SELECT json_group_array(json_object('name', key, 'value', CASE WHEN type IN ('array', 'object') THEN list_text(value)
    WHEN type IN ('true', 'false') THEN type ELSE number_text(value) END)) FROM json_each(row, '$.provenance')) AS "facts[]"
FROM machine JOIN s ON place = newest ORDER BY machine.number;

-- models
SELECT "case.model" AS name, "case.model_digest" AS digest, '[' || replace(replace(json_quote("case.model_text"),
  '\\', '\u005c'), '\n', '","') || ']' AS "lines[]"
FROM s WHERE length("case.model_text") > 0 GROUP BY "case.model_digest" ORDER BY min(place);

-- predicted
SELECT count(*) AS count, (SELECT count(*) FROM chosen) AS total,
  nullif(sum("prediction.extrapolated" = 'true'), 0) AS extrapolated,
  CASE WHEN max("prediction.error") > 0 THEN printf('%.1f%% to %.1f%%', 100 * min(nullif("prediction.error", 0.0)),
    100 * max("prediction.error")) END AS error,
  (SELECT group_concat(x, ', ') FROM (SELECT DISTINCT "prediction.engine" AS x FROM s)) AS engines,
  (SELECT group_concat(x, ', ') FROM (SELECT DISTINCT "prediction.platform" AS x FROM s)) AS platforms
FROM s WHERE is_predicted HAVING count(*) > 0;

-- rows
SELECT CASE WHEN "micro.op" IS NULL THEN row_text(place, 'label') ELSE "micro.op" || coalesce(' ' ||
    CASE WHEN "micro.comm" IS NULL THEN "micro.shape" ELSE "micro.kernel" END, '') ||
    coalesce(' ' || figure_text(nullif("micro.size_bytes", 0), 'bytes'), '') END AS label,
  "case.model" AS model, row_text(place, 'devices') AS devices, "case.batch_global" AS batch,
  figure_text(coalesce("micro.time_us" / 1e3, pace), 'plain') AS step,
  CASE WHEN pace_low > 0 THEN printf('%.1f%%', 50 * (pace_high - pace_low) / pace) END AS half,
  figure_text(rate, 'plain') AS rate, CASE WHEN "time.speedup" >= 0 THEN printf('%.2f', "time.speedup") END AS speedup,
  figure_text("time.efficiency", '%') AS efficiency,
  CASE WHEN "micro.op" IS NULL THEN row_text(place, 'gate') END AS gate, "equivalence.pass" = 'false' OR NULL AS failed,
  "result.status" || coalesce(': ' || nullif(replace(list_text("result.warnings"), '+', ', '), ''), '') AS status,
  is_bad OR NULL AS bad, label AS tag, substr(timestamp, 1, 10) AS day,
  (SELECT group_concat(name || ' ' || figure_text(value, ''), ', ')
    FROM part JOIN json_each(row, '$.waterfall') USING (key) WHERE value > 0 AND type IN ('integer', 'real')) AS steps,
  (SELECT json_group_array(json_object('class', class, 'share', printf('%.3g', 100 * value / total))) FROM (
    SELECT class, value, sum(value) OVER () AS total FROM part JOIN json_each(row, '$.waterfall') USING (key)
    WHERE value > 0 AND type IN ('integer', 'real')) WHERE value > 0.002 * total) AS "bars[]",
  (SELECT group_concat(name || ' ' || figure_text(value, 'bytes'), ', ') FROM (
    SELECT 'parameters' AS name, "memory.devices.parameters" AS value
    UNION ALL SELECT 'gradients', "memory.devices.gradients" UNION ALL SELECT 'optimizer', "memory.devices.optimizer"
    UNION ALL SELECT 'activations', "memory.devices.activations"
    UNION ALL SELECT 'communication', "memory.devices.communication"
    UNION ALL SELECT 'workspace', "memory.devices.workspace") WHERE value > 0) AS held,
  (SELECT '[' || replace(replace(json_quote(said), '\\', '\u005c'), '\n', '","') || ']'
    FROM (SELECT rtrim(row_text(place, 'bound'), char(10)) AS said) WHERE said != '') AS "bound[]",
  "result.reason" AS reason, (SELECT number FROM machine WHERE name = row_text(place, 'machine')) AS machine,
  row_text(place, 'commit') AS "commit", id,
  CASE WHEN length(command) > most THEN substr(command, 1, most) || '…' ELSE command END AS command
FROM s, (SELECT min(1500, 250000 / count(*)) AS most FROM chosen) ORDER BY place;

-- cite
SELECT day, substr(day, 1, 4) AS year, "case.model" AS model, (SELECT count(*) FROM chosen) AS count,
  row_text(place, 'machine') AS machine, row_text(place, 'whole commit') AS "commit",
  day || '-' || row_text(place, 'hash') AS key, row_text(place, 'version') AS version
FROM (SELECT *, CASE WHEN timestamp GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN substr(timestamp, 1, 10)
  ELSE '' END AS day FROM s) ORDER BY place DESC LIMIT 1;

-- plan_row: processes that a launcher started; --baseline adds rows of single that differ from others in no setting
CREATE TEMP TABLE plan_row AS SELECT place, "case.strategy" AS strategy, "case.blocks" AS blocks,
  "case.batch_global" AS batch, "case.batch_per_device" AS split, json_array("case.model", "case.data", "case.optimizer",
  "case.seed", "case.steps") AS same, row_text(place, 'ours') = 'yes' AS ours,
  CASE WHEN coalesce("case.comm", '') IN ('', 'thread', 'device') THEN 1 ELSE max(coalesce("case.ranks", 1), 1) END AS processes
FROM s;

-- plan
CREATE TEMP TABLE plan AS SELECT *, CASE WHEN NOT ours THEN 'other' WHEN most > 1 AND strategy = 'single' AND EXISTS (
    SELECT 1 FROM plan_row AS o WHERE o.processes = most AND o.same IS r.same AND (o.batch IS r.batch OR o.split IS r.split))
  THEN 'baseline' WHEN processes < most THEN 'alone' ELSE 'case' END AS kind
FROM plan_row AS r, (SELECT coalesce(max(processes), 1) AS most FROM plan_row WHERE ours);

-- repeated
SELECT place FROM plan WHERE kind = 'case' ORDER BY place;

-- repeat
SELECT sum(kind = 'other') AS others, nullif(sum(kind = 'alone'), 0) AS alone, sum(kind = 'baseline') > 0 OR NULL AS baseline,
  CASE WHEN most > 1 THEN 'mpirun -n ' || most || ' ' END AS launcher,
  (SELECT coalesce((SELECT blocks FROM plan WHERE kind = 'case' AND blocks > 0 ORDER BY place DESC LIMIT 1), 5)) AS blocks
FROM plan;
