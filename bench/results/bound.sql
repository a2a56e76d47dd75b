-- What limits a step, in lines: the cause, the evidence, the option most worth trying. Each rule says how many ms of
-- the mean step its cause explains. The cause that explains most is reported (the first among equals) if it is at
-- least a fourth of the step; otherwise the largest part of the step. Parts of the waterfall are means over the
-- devices. So if one device works while the n - 1 others wait for it, that explains n times its part, at most the
-- waiting time. Less than a fifth of a device's peak is low utilization; 32 samples are few, since products gain
-- little from more, and so are 64 KiB of a message.
--   `bounds` has a list of lines, some of which may be null, of each row in `wanted`; none where it has no waterfall.
CREATE TEMP TABLE IF NOT EXISTS wanted (number INTEGER PRIMARY KEY);
CREATE TEMP VIEW IF NOT EXISTS bounds AS
WITH
-- The row's fields; 0 where it lacks them. Times in ms of the mean step.
fields AS (
  SELECT number, row,
    ifnull("waterfall.compute_ms", 0) + 0.0 AS compute,
    ifnull("waterfall.comm_exposed_ms", 0) + 0.0 AS exposed,
    ifnull("waterfall.wait_ms", 0) + 0.0 AS wait,
    ifnull("waterfall.copy_ms", 0) + 0.0 AS copied, -- with the gathering of batches, which devices do not exchange
    ifnull("waterfall.optimizer_ms", 0) + 0.0 AS optimizer,
    ifnull("waterfall.harness_ms", 0) + 0.0 AS harness,
    ifnull("time.step_ms.median", 0) + 0.0 AS median,
    ifnull("time.mfu", 0) + 0.0 AS mfu,
    ifnull("time.exact_cost", 0) + 0.0 AS exact_cost, -- exact mode over fast mode
    ifnull("traffic.bytes_sent", 0) + 0.0 AS sent,
    ifnull("traffic.messages_sent", 0) + 0.0 AS messages,
    ifnull("pipeline.bubble", 0) + 0.0 AS bubble, -- share of the step
    ifnull("pipeline.bubble_equal", 0) + 0.0 AS equal, -- .. were the stages equal
    ifnull("pipeline.bubble_formula", 0) + 0.0 AS formula, -- .. as the schedule has it for the stages' own times
    ifnull("pipeline.slowest_stage", 0) + 0.0 AS slowest_stage,
    ifnull("provenance.cores_allowed", 0) + 0.0 AS cores,
    (SELECT total(value) FROM json_each("provenance.cores_per_device")) AS wanted,
    "provenance.oversubscribed" IS 'true' AS crowded,
    ifnull(devices, 0) + 0.0 AS devices,
    ifnull("case.batch_global", 0) + 0.0 AS batch,
    (SELECT ifnull(max(value + 0.0), 0) FROM json_each("case.batch_per_device")) AS samples, -- of one device
    (SELECT count(*) FROM json_each("case.batch_per_device") WHERE strategy_fact("case.strategy", 'replicated') AND value + 0.0 > 0) AS replicas,
    ifnull("case.pipeline_microbatches", 0) + 0.0 AS pieces,
    ifnull("case.bucket_bytes", 0) + 0.0 AS bucket,
    ifnull("case.ranks", 0) AS ranks,
    ifnull("case.link", '') AS link,
    -- the longest that links of --link can take, messages in sequence; NULL: no such link
    nullif(link_fact("case.link", 'us') * ifnull("traffic.messages_sent", 0) / 1e3
      + ifnull(1e-3 * ifnull("traffic.bytes_sent", 0) / link_fact("case.link", 'MB/s'), 0), 0.0) AS link_ms,
    strategy_fact("case.strategy", 'holder') AS holder, -- one device has the variables
    -- steps from one average of the parameters to the next, and the option that sets them
    ifnull("case.period", row ->> ('$.case.' || replace(strategy_fact("case.strategy", 'period'), '-', '_'))) + 0.0
      AS period,
    strategy_fact("case.strategy", 'period') AS period_option,
    ifnull("case.link", '') != '' OR ifnull("case.hosts", 0) > 1 AS linked,
    CASE WHEN "case.inject" LIKE 'delay%' THEN printf('; --inject %.120s is one', "case.inject") END AS planted,
    substr("case.optimizer", 1, 160) AS optimizer_name,
    "case.model_parallel_place" IS NOT NULL AS divided, -- a model's parts lie apart
    "case.colocate_gradients" IS 'false' AS apart, -- backward runs on the variables' device, too
    "case.capture" IS 'false' AS uncaptured,
    "case.towers_staged" IS 'true' AS staged,
    "case.augment" IS 'true' AS augmented,
    "device_load.device" AS device_names, "device_load.rank" AS device_ranks,
    (SELECT key FROM json_each("device_load.waiting_ms") ORDER BY value + 0.0, key LIMIT 1) AS slowest,
    (SELECT min(value + 0.0) FROM json_each("device_load.waiting_ms")) AS least_wait,
    (SELECT ifnull(avg(value + 0.0), 0) FROM json_each("device_load.gathering_ms")) AS gathered,
    ifnull(json_array_length("server_load.device"), 0) AS servers,
    (SELECT ifnull(max(value + 0.0), 0) FROM json_each("server_load.busy")) AS busy, -- the busiest server, 0..1
    -- bytes of parameters, gradients, optimizer of the device that has most of these
    (SELECT ifnull(max(ifnull(value->>'parameters', 0) + ifnull(value->>'gradients', 0)
      + ifnull(value->>'optimizer', 0)), 0) + 0.0
     FROM json_each(row, '$.memory.devices') WHERE type = 'object') AS state,
    -- what others took while the row was timed
    (SELECT substr(value, 8, instr(value || ';', ';') - 8) FROM json_each(row, '$.result.notes')
     WHERE value LIKE 'noisy: %' ORDER BY key LIMIT 1) AS noise
  FROM v WHERE number IN (SELECT number FROM wanted)),
seen AS (
  SELECT *,
    compute + exposed + wait + copied + optimizer + harness AS step,
    min(gathered, copied) AS gather,
    copied - min(gathered, copied) AS copy,
    ifnull(least_wait, wait) AS least,
    max(wanted / max(devices, 1), 1.0) AS each, -- cores of a device
    CASE WHEN bubble > 0 THEN ifnull(samples / pieces, 0) ELSE 0 END AS piece, -- samples of a micro-batch
    -- bytes a second of a pass forward and backward over the variables, and of the update
    ifnull(2 * state / (compute + optimizer) * 1e3, 0) AS streamed,
    samples > 0 AND samples <= 32 AND mfu < 0.2 AND devices > 0 AS is_small,
    printf('--batch %.0f', max(8 * batch, 1)) AS larger,
    CASE WHEN period > 0 THEN ifnull('--' || period_option || printf(' %.0f', 4 * period), 'a longer period')
      || ': parameters are averaged less often' END AS longer
  FROM fields),
-- How long others wait while one device works on its part: towers wait for the device with the variables if that has
-- much work, otherwise for a slow tower.
waits AS (
  SELECT *,
    min(wait, copy * max(devices - 1, 0)) AS for_copy,
    min(wait, gather * max(devices - 1, 0)) AS for_gather,
    CASE WHEN copy + optimizer >= 0.08 * step THEN wait * copy / (copy + optimizer)
      ELSE min(wait, copy * max(devices - 1, 0)) END AS holder_copy,
    CASE WHEN copy + optimizer >= 0.08 * step THEN wait * optimizer / (copy + optimizer)
      ELSE min(wait, optimizer * max(devices - 1, 0)) END AS holder_update,
    CASE WHEN copy + optimizer >= 0.08 * step THEN wait
      ELSE min(wait, (copy + optimizer) * max(devices - 1, 0)) END AS holder_both,
    ifnull(link_ms, step) AS most_of_link
  FROM seen WHERE step > 0),
links AS (
  SELECT *,
    -- Ranks that communicate over links also wait for others' messages: explains all waiting.
    exposed + copy + CASE WHEN servers > 0 THEN wait WHEN holder THEN holder_copy WHEN divided THEN for_copy
      ELSE min(least, max(most_of_link - exposed, 0)) END AS all_of_link,
    -- How much longer devices wait than the one that waits least; other rules cover other waiting of towers.
    CASE WHEN replicas < 2 OR bubble > 0 THEN 0 WHEN holder THEN min(wait - least, wait - holder_both)
      ELSE wait - least END AS by_rank,
    printf('a step sends %s in %.0f messages%s; communication and copies that nothing hides are %.0f%% of the mean '
      || 'step{waiting}', bytes_text(sent), messages,
      CASE WHEN link != '' THEN printf(' over links of %.120s', link) END, 100 * (exposed + copy) / step) AS sends
  FROM waits),
known AS (
  SELECT *,
    CASE WHEN NOT linked OR sent <= 0 THEN 0 WHEN most_of_link >= 0.25 * all_of_link THEN all_of_link
      ELSE most_of_link END AS by_link, -- otherwise links are too fast to be the cause
    CASE WHEN bubble <= 2 * equal THEN bubble * step ELSE 0 END AS by_bubble -- more than twice has another cause
  FROM links),
-- Whether it is a part of the step and no cause, its name, ms that it explains, how many of these are work and not
-- waiting for it, evidence, what to try.
rules AS (
  SELECT number, key AS place, value->>0 AS is_part, value->>1 AS cause, value->>2 AS ms, value->>3 AS own,
    value->>4 AS evidence, value->>5 AS option, step, median, noise,
    max(value->>2) FILTER (WHERE NOT value->>0) OVER (PARTITION BY number) AS most
  FROM known, json_each(json_array(
    json_array(0, 'a slow link', by_link, exposed + copy, sends,
      CASE WHEN longer IS NOT NULL THEN longer
        WHEN NOT holder AND NOT divided
        THEN printf('--batch %.0f: as many bytes a step, for four times the samples', 4 * batch)
        WHEN holder THEN '--strategy mirrored: gradients alone travel, and while backward still runs'
        ELSE '--strategy mirrored: gradients travel once a step, whatever the batch' END),
    json_array(0, 'one server',
      CASE WHEN servers = 1 AND replicas >= 2 AND busy >= 0.5 AND bubble <= 0
        THEN exposed + wait + copy - by_link - by_rank END, NULL,
      printf('the one server is busy %.0f%% of the time, while %d workers wait for it', 100 * min(busy, 1), replicas),
      printf('--ps-servers 2%s: each has half of the variables', iif(ranks <= 1, ' --ranks 4', ''))),
    json_array(0, 'oversubscription',
      CASE WHEN crowded AND cores > 0 AND wanted > cores THEN step * (1 - cores / wanted)
        WHEN crowded THEN wait END, NULL,
      printf('%.0f devices share %.0f cores, so that one works while others wait for a core', wanted, cores),
      printf('--devices %d: each has its cores for itself', max(cores / each, 1))),
    json_array(0, 'small micro-batches',
      CASE WHEN piece > 0 AND piece <= 8 AND mfu < 0.2
        THEN min(step, compute + max(bubble - equal, 0) * step) END, NULL,
      printf('a micro-batch has %.0f samples, stages hand %.0f of them on in a step, and products reach %.0f%% of '
        || 'the roof', piece, pieces, 100 * mfu),
      printf('--pipeline-microbatches %d', max(min(2 * devices, pieces), samples / 32))),
    json_array(0, 'unequal stages', CASE WHEN by_bubble <= 0 THEN (formula - equal) * step END, NULL,
      printf('stages are idle %.0f%% of the time: the schedule gives %.0f%% for their work, of which the slowest has '
        || '%.4g times the mean, and would give %.0f%% if it were equal', 100 * bubble, 100 * formula, slowest_stage,
        100 * equal),
      '--strategy mirrored: replicas have equal work'),
    -- In a divided model without micro-batches or branches, one part works at a time.
    json_array(0, 'parts of the model in turns',
      CASE WHEN divided AND piece <= 0 AND devices > 1 THEN wait - by_rank END, NULL,
      printf('%.0f devices have a part of the model each, and wait %.0f%% of the step for the others'' parts', devices,
        100 * wait / step),
      '--strategy pipeline: micro-batches keep all parts at work'),
    json_array(0, 'exact mode', CASE WHEN exact_cost > 1 THEN step * (1 - 1 / exact_cost) END, NULL,
      printf('a step takes %.4g times as long as in fast mode, timed alternately with it', exact_cost),
      '--reduce fast: equal within a bound, not bitwise'),
    json_array(0, 'backward on one device', CASE WHEN apart AND devices > 1 THEN wait END, NULL,
      printf('the variable device alone goes backward, for %.0f towers, and the other devices wait', devices),
      '--colocate-gradients yes: each device computes its own backward pass'),
    json_array(0, 'the pipeline''s bubble', by_bubble, NULL,
      printf('stages are idle %.0f%% of the time, with %.0f micro-batches for %.0f stages (equal stages: %.0f%%)',
        100 * bubble, pieces, devices, 100 * equal),
      printf('--pipeline-microbatches %.0f', min(4 * max(pieces, 1), samples))),
    json_array(0, 'the optimizer on one device',
      CASE WHEN holder AND devices > 1 THEN optimizer + holder_update END, optimizer,
      printf('the variable device alone updates (%.4g ms a step, %s): in the mean over devices %.0f%% of the '
        || 'step{waiting}',
        optimizer * devices, optimizer_name, 100 * optimizer / step),
      '--strategy mirrored: each device updates its own copy'),
    json_array(0, 'copies of towers', CASE WHEN holder AND devices > 1 THEN copy + holder_copy END, copy,
      printf('%.0f towers fetch the variables and bring gradients, %s a step; copies are %.0f%% of the mean '
        || 'step{waiting}',
        devices, bytes_text(sent), 100 * copy / step),
      iif(staged, '--strategy mirrored: each device has the variables',
        '--towers-staged yes: variables are fetched as soon as they are updated')),
    -- In a divided model the first part gathers, and the others wait for it.
    json_array(0, 'the loader', gather + iif(divided, for_gather, 0), NULL,
      printf('gathering the samples of a batch takes %.4g ms of a step, computation %.4g ms', gather, compute),
      iif(augmented, '--augment no: samples as they are',
        '--shuffle no: samples that lie one after the other')),
    json_array(0, 'a slow rank', by_rank, NULL,
      printf('rank %d (%s) waits %.4g ms of a step for others, and a device in the mean %.4g ms%s',
        device_ranks->>slowest, device_names->>slowest, least, wait, planted),
      '--strategy ps --ps-backup-workers 1: no device waits for the slowest'),
    json_array(0, 'memory bandwidth',
      CASE WHEN is_small AND state >= 16777216 AND streamed >= 5e8 THEN compute + iif(holder, 0, optimizer) END, NULL,
      printf('a step reads and writes %s of parameters, gradients and optimizer state (%s/s at least) for %.0f '
        || 'samples; products reach %.0f%% of the roof', bytes_text(state), bytes_text(streamed), samples, 100 * mfu),
      larger || ': more samples share the fixed cost of a step'),
    -- All that does not grow with the batch, including barriers between devices.
    json_array(0, 'a small batch',
      CASE WHEN is_small AND state < 16777216
        THEN compute + harness + optimizer + iif(linked OR crowded OR servers > 0 OR bubble > 0, 0, exposed) END, NULL,
      printf('a device has %.0f of the batch, a step takes %.4g ms, and products reach %.0f%% of the roof', samples,
        step, 100 * mfu),
      larger || ': more samples share the fixed cost of a step'),
    -- Where no cause is known: the largest part.
    json_array(1, 'computation', compute, NULL,
      printf('%.4g ms of a step''s %.4g ms%s', compute, step,
        CASE WHEN mfu > 0 THEN printf('; products reach %.0f%% of the roof', 100 * mfu) END),
      iif(crowded OR cores <= wanted, printf('--cores-per-device %.0f, where there are more cores', max(2 * each, 2)),
        printf('--strategy mirrored --devices %d', cores / each))),
    json_array(1, 'communication', exposed, exposed + copy, sends,
      CASE WHEN longer IS NOT NULL THEN longer
        WHEN servers > 0 THEN '--ps-servers 2: each sends and receives half'
        WHEN sent < 65536 * messages AND bucket < 65536 THEN '--bucket-bytes auto: fewer messages, which are larger'
        ELSE '--allreduce all: which exchange suits these sizes' END),
    -- For towers and stages, the waiting that no other rule covers, nor the schedule explains.
    json_array(1, 'waiting for other devices',
      wait - iif(holder, holder_both, 0) - by_rank - formula * step, NULL,
      printf('devices wait %.4g ms of a step for each other, and work %.4g ms', wait, compute + optimizer),
      larger || ': more samples share the fixed cost of a step'),
    json_array(1, 'copies between devices', copy, exposed + copy, sends,
      larger || ': more samples share the fixed cost of a step'),
    json_array(1, 'the optimizer', optimizer, NULL,
      printf('%s takes %.4g ms of a step, computation %.4g ms', optimizer_name, optimizer, compute),
      larger || ': more samples share the fixed cost of a step'),
    json_array(1, 'the harness', harness, NULL,
      printf('%.4g ms of a step''s %.4g ms are no operation''s', harness, step),
      iif(uncaptured, '--capture yes: a step is put by one call, and not task by task',
        larger || ': what is between operations is shared by more')))) AS rule)
SELECT number, json_array(
  'Noise first: ' || noise || '.',
  iif(noise IS NULL, NULL, 'Measure again while nothing else runs; if it stays so:'),
  printf('Bound by %s: %.0f%% of the mean step (%.4g of %.4g ms%s).', cause, 100 * ms / step, ms, step,
    CASE WHEN median > 0 THEN printf('; median step %.4g ms', median) END),
  'Evidence: ' || replace(evidence, '{waiting}', CASE WHEN ms - own > 0.005 * step
    THEN printf(', and waiting for that %.0f%%', 100 * (ms - own) / step) ELSE '' END) || '.',
  'Try ' || option || '.') AS lines
FROM (SELECT *, row_number() OVER (PARTITION BY number ORDER BY ms DESC, place) AS nth FROM rules
  WHERE ms > 0 AND (NOT is_part OR ifnull(most, 0) < 0.25 * step))
WHERE nth = 1;
