-- Rows in the formats of other programs: a view for each, whose rows become JSON objects (results_list.c). A column
-- "name:json" has JSON text, which keeps all digits of reals; NULL leaves the member out.

-- Rows with timed steps. A name is the case as one word, "mlp:784-128-10/synthetic/mirrored/cpu:0+cpu:1/ranks:1/..".
-- Other programs keep the names, so they have the same parts for ever; and no label, so rows before and after a
-- change have the same name.
DROP TABLE IF EXISTS temp.rates;
CREATE TEMP TABLE rates AS
SELECT place, number, id, label, timestamp, pace, pace_low, pace_high, rate, "time.step_ms.n" AS steps,
  "provenance.host" AS host, "provenance.build_type" AS build_type, "provenance.cores_allowed" AS cores,
  "provenance.commit" AS commit_id, "provenance.cpu" AS cpu,
  ifnull("case.model", '') || ifnull('/' || "case.data", '') || ifnull('/' || list_text("case.strategy"), '')
    || ifnull('/' || list_text("case.devices"), '') || ifnull('/ranks:' || "case.ranks", '')
    || ifnull('/batch:' || "case.batch_global", '') || ifnull('/' || list_text("case.optimizer"), '')
    || ifnull('/' || "case.reduce", '') || ifnull('/' || "case.allreduce", '')
    || ifnull('/bucket:' || "case.bucket_bytes", '') || ifnull('/' || "case.comm", '')
    || ifnull('/link:' || "case.link", '') AS name,
  -- the case (but blocks: 1) and what the row says of its machine (112; LS_BUT_ and LS_OF_ in bench/rows/fields.h)
  case_key(row, 1, 112) AS identity
FROM s WHERE "time.step_ms.median" + 0.0 > 0;

-- Rows that get the same name, though they differ, other programs take for repeats of one case.
DELETE FROM keyed;
INSERT INTO keyed SELECT name, identity FROM rates;

-- first: the place of the first row of the name.
CREATE TEMP VIEW IF NOT EXISTS named AS SELECT *, min(place) OVER (PARTITION BY name) AS first FROM rates;

-- What `--benchmark_out` of google-benchmark writes, for its tools/compare.py: an entry per row, whose time is the
-- median step (the mean one if steps are not alike); rows of one case are repetitions of one name. A row has no
-- processor time.
CREATE TEMP VIEW IF NOT EXISTS "google-benchmark" AS
SELECT name, name AS run_name, 'iteration' AS run_type, CAST(ifnull(steps, 0) AS INTEGER) AS iterations,
  1e6 * ifnull(pace, 0) AS real_time, 1e6 * ifnull(pace, 0) AS cpu_time, 'ns' AS time_unit, 1 AS threads,
  rate AS items_per_second, id, label, dense_rank() OVER (ORDER BY first) - 1 AS family_index,
  0 AS per_family_instance_index, row_number() OVER (PARTITION BY name ORDER BY place) - 1 AS repetition_index,
  count(*) OVER (PARTITION BY name) AS repetitions
FROM named ORDER BY place;

-- In what rows of one name differ; google-benchmark's `context`.
CREATE TEMP VIEW IF NOT EXISTS about AS
SELECT (SELECT group_concat(path, ', ') FROM (SELECT DISTINCT path FROM differences ORDER BY field_fact(path, 'order')))
    AS differ,
  ifnull((SELECT json_patch('{}', json_object('date', timestamp, 'host_name', host, 'executable', 'lockstep', 'num_cpus',
      cores, 'cpu_scaling_enabled', json('false'), 'caches', json('[]'), 'load_avg', json('[]'), 'library_build_type',
      iif(ifnull(lower(build_type), 'debug') = 'debug', 'debug', 'release'), 'commit', commit_id, 'cpu', cpu))
    FROM rates ORDER BY place LIMIT 1), '{}') AS "context:json";

-- `customSmallerIsBetter` of github-action-benchmark.
CREATE TEMP VIEW IF NOT EXISTS "benchmark-action" AS
SELECT name, 'ms/step' AS unit, ifnull(pace, 0.0) AS value,
  printf('id: %s%scommit: %s', ifnull(id, 'unknown'), char(10), ifnull(nullif(commit_id, ''), 'unknown'))
    || ifnull(char(10) || 'label: ' || label, '') AS extra,
  CASE WHEN pace_low IS NOT NULL THEN printf('± %.4g', max(pace_high - pace, pace - pace_low)) END AS range
FROM named ORDER BY place;

-- Lines of MLPerf's logging library (mllog), with the keys that a row can provide. Times are the end of the row and
-- the training time that it counts. Leaves out what only a submitter knows (submission_org and the like).
CREATE TEMP VIEW IF NOT EXISTS mlperf AS
SELECT 'lockstep' AS namespace, end_ms - iif(event.key <= 6, trained_ms, 0) AS time_ms, value->>0 AS event_type,
  value->>1 AS "key", value->2 AS "value:json", value->3 AS "metadata:json"
FROM (SELECT place, row, rate, "case.model" AS model, "case.optimizer" AS optimizer, "result.status" AS status,
    ifnull(1000 * strftime('%s', timestamp), 0) AS end_ms,
    CAST(ifnull("case.steps", 0) + ifnull("case.warmup", 0) AS INTEGER) AS steps,
    CAST((ifnull("case.steps", 0) + ifnull("case.warmup", 0)) * ifnull("time.step_ms.mean", 0) AS INTEGER)
      AS trained_ms,
    json_object('file', 'lockstep', 'lineno', 0) AS place_in_file
  FROM s WHERE json_type(row, '$.case') IS NOT NULL),
  json_each(json_array(
    json_array('POINT_IN_TIME', 'submission_benchmark', nullif(substr(model, 1, instr(model || ':', ':') - 1), ''),
      json(place_in_file)),
    json_array('POINT_IN_TIME', 'submission_platform', row->'$.provenance.cpu', json(place_in_file)),
    json_array('POINT_IN_TIME', 'global_batch_size', row->'$.case.batch_global', json(place_in_file)),
    json_array('POINT_IN_TIME', 'seed', row->'$.case.seed', json(place_in_file)),
    json_array('POINT_IN_TIME', 'opt_name', nullif(substr(optimizer, 1, instr(optimizer || ':', ':') - 1), ''),
      json(place_in_file)),
    json_array('POINT_IN_TIME', 'opt_base_learning_rate', row->'$.case.lr', json(place_in_file)),
    json_array('INTERVAL_START', 'run_start', NULL, json_patch('{}', json_object('id', row->'$.id',
      'label', row->'$.label', 'strategy', row->'$.case.strategy', 'devices', row->'$.case.devices',
      'file', 'lockstep', 'lineno', 0))),
    json_array('POINT_IN_TIME', 'tracked_stats', json('{"throughput":' || number_text(rate) || '}'),
      json_object('step', steps, 'file', 'lockstep', 'lineno', 0)),
    json_array('POINT_IN_TIME', 'eval_accuracy', row->'$.train.accuracy',
      json_object('step_num', steps, 'file', 'lockstep', 'lineno', 0)),
    json_array('INTERVAL_END', 'run_stop', NULL,
      json_object('status', iif(status IS 'ok', 'success', 'aborted'), 'file', 'lockstep', 'lineno', 0)))) AS event
WHERE value->>0 != 'POINT_IN_TIME' OR value->2 != 'null'
ORDER BY place, event.key;
