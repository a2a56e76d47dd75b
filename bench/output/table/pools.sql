-- Which rows may be compared, and by what. Cases of equal model, data, batch, link and devices (an environment) are; of
-- these, cases of a command's several groups (time.group), which were timed one after the other, only by the speed-up
-- over each group's own `single`. Table and report use it, so that both name the same fastest case. The view `pooled`
-- has the rows: columns of `s` (results_db.h). `way`: 0 the rate of the median step; 1 samples trained over the time,
-- where the steps of one are not alike (no speed-up compares these: its interval is not theirs); 2 the speed-up.
-- `apart`: other groups have rows of this environment, which no speed-up compares. `nth`: of one case's rows, which all
-- groups may have as their baseline.
CREATE TEMP VIEW IF NOT EXISTS pool_members AS
WITH one AS (
  SELECT place, row, is_noisy, is_candidate, uneven,
    json_array(is_predicted, "case.model", "case.model_digest", "case.data", "case.batch_global", "case.link",
      "case.devices") AS environment,
    ifnull("time.group", 0) AS number, ifnull(NOT is_bad AND "time.samples_per_s" + 0.0 > 0, 0) AS timed,
    ifnull("time.samples_per_s" + 0.0, 0) AS median, "time.step_ms.median" + 0.0 AS step,
    ("time.step_ms.ci95" ->> 0) + 0.0 AS step_low, ("time.step_ms.ci95" ->> 1) + 0.0 AS step_high,
    ifnull("time.samples_per_s_mean" + 0.0, 0) AS mean, ("time.samples_per_s_mean_ci95" ->> 0) + 0.0 AS mean_low,
    ("time.samples_per_s_mean_ci95" ->> 1) + 0.0 AS mean_high, ifnull("time.speedup" + 0.0, 0) AS over,
    ifnull(("time.speedup_ci95" ->> 0) + 0.0, 0) AS over_low, ("time.speedup_ci95" ->> 1) + 0.0 AS over_high
  FROM pooled),
marked AS (
  SELECT *, max(timed AND uneven) OVER () AS by_mean, min(place) OVER e AS begin,
    ifnull(min(iif(timed, number, NULL)) OVER e != max(iif(timed, number, NULL)) OVER e, 0) AS several,
    ifnull(min(iif(timed, over_low > 0, NULL)) OVER e, 1) AS bridged
  FROM one WINDOW e AS (PARTITION BY environment)),
ruled AS (
  SELECT *, several AND (by_mean OR NOT bridged) AS apart, iif(several AND bridged AND NOT by_mean, 2, by_mean) AS way
  FROM marked),
divided AS (
  SELECT *, iif(apart, number, 0) AS "group", min(place) OVER (PARTITION BY environment, iif(apart, number, 0)) AS first
  FROM ruled),
numbered AS (SELECT *, dense_rank() OVER (ORDER BY begin, first) - 1 AS pool FROM divided),
figured AS (
  SELECT *, CASE way WHEN 0 THEN median WHEN 1 THEN mean ELSE over END AS rate,
    CASE way WHEN 0 THEN median > 0 AND step > 0 AND step_low > 0 AND step_low < step_high
      WHEN 1 THEN mean > 0 AND mean_low > 0 AND mean_low < mean_high ELSE over_low > 0 END IS TRUE AS known,
    row_number() OVER (PARTITION BY pool, iif(way = 2, case_key(row, 8192), place) ORDER BY place) AS nth -- LS_BUT_TRAINED
  FROM numbered)
SELECT pool, place, way, apart, "group", timed, nth, rate, known, is_noisy AS noisy, is_candidate AS equal,
  iif(known, CASE way WHEN 0 THEN median * step / step_high WHEN 1 THEN mean_low ELSE over_low END, 0.0) AS low,
  iif(known, CASE way WHEN 0 THEN median * step / step_low WHEN 1 THEN mean_high ELSE over_high END, 0.0) AS high
FROM figured;
