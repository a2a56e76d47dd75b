-- Warnings of the row :document, after those that it has; and its notes, the first of which is on noise, if there is any.
-- Words of notes are warnings, too. From 2% of the timed time on a disturbance is worth a warning: `regress` looks for
-- slow-downs of 5%, and what takes less than half of that does not decide such a comparison alone. Shorter runs than
-- 0.1 s say little about the clock. A comparison says little beyond a width of 10%; where the median and the mean rate
-- are that far apart, one of them does not describe the speed; and a run shows its noise in 20 blocks (LS_STATISTICS_BLOCKS), and in a second.
WITH
one AS (
  SELECT :document AS row, ifnull(:document ->> '$.noise.others', 0) AS others,
    ifnull(:document ->> '$.noise.stolen', 0) AS stolen, ifnull(:document ->> '$.noise.throttled', 0) AS throttled,
    ifnull(:document ->> '$.noise.mhz_first', 0) AS mhz_first, ifnull(:document ->> '$.noise.mhz_last', 0) AS mhz_last,
    ifnull(:document ->> '$.time.timed_s', 0) AS timed, ifnull(list_text(:document -> '$.noise.cores'), '') AS list,
    ifnull(' of rank ' || (:document ->> '$.noise.of_rank'), '') AS of_rank,
    ifnull(:document ->> '$.time.samples_per_s', 0) AS median, ifnull(:document ->> '$.time.samples_per_s_mean', 0) AS mean,
    row_figure(:document, 'pace') AS pace, row_figure(:document, 'pace_low') AS low,
    row_figure(:document, 'pace_high') AS high),
noise AS MATERIALIZED (
  SELECT 'noisy: ' || CASE
    WHEN others > 0.02 AND others >= stolen AND others >= throttled THEN 'other programs used '
      || iif(json_array_length(row, '$.noise.cores') = 1, 'core ' || list || of_rank || ' for ' || decimals(100 * others, 0)
        || '% of the time', decimals(others, 2) || ' of cores '
        || iif(length(list) > 32, rtrim(substr(list, 1, 32), '0123456789') || '..', list) || of_rank)
      || ' while this case waited; taskset, or the launcher''s binding, gives it separate cores'
    WHEN stolen > 0.02 AND stolen >= throttled THEN 'a hypervisor took ' || decimals(100 * stolen, 0) || '% of a core''s time'
    WHEN throttled > 0.02 THEN 'a control group''s quota held it back ' || decimals(100 * throttled, 0)
      || '% of the time; fewer devices or cores, or a larger quota, works'
    WHEN row ->> '$.noise.heat' > 0 THEN 'its first core was slowed down for heat'
    WHEN timed >= 0.1 AND mhz_last > 0 AND mhz_last < 0.95 * mhz_first THEN 'its first core went from '
      || decimals(mhz_first, 0) || ' to ' || decimals(mhz_last, 0) || ' MHz' END AS note FROM one),
notes (nth, note) AS (
  SELECT -1, note FROM noise WHERE note IS NOT NULL
  UNION ALL SELECT key, value FROM json_each(:document, '$.result.notes')),
warnings (nth, word) AS (
  SELECT key - 1000, value FROM json_each(:document, '$.result.warnings')
  UNION ALL SELECT -4, 'oversubscribed' WHERE :document ->> '$.provenance.oversubscribed'
  UNION ALL SELECT -3, 'noisy' FROM one, noise WHERE note IS NULL AND high - low > 0.1 * pace
  UNION ALL SELECT -2, 'short' FROM one WHERE row -> '$.time' IS NOT NULL
    AND (ifnull(row ->> '$.time.blocks', 0) < 20 OR timed < 1)
  UNION ALL SELECT -1.5, 'skewed' FROM one WHERE median > 1.1 * mean OR mean > 1.1 * median
  UNION ALL SELECT nth, substr(note, 1, instr(note || ':', ':') - 1) FROM notes)
SELECT 'result.warnings' AS path, json_group_array(word) AS "value:json" FROM (SELECT word FROM warnings ORDER BY nth)
HAVING count(*) > 0
UNION ALL SELECT 'result.notes', json_group_array(note) FROM (SELECT note FROM notes ORDER BY nth) HAVING count(*) > 0;
