-- What `results show` prints of the row :number, whose JSON text is :row: why it is not ok, and what is odd (noise comes
-- before what is made of it); what limits its step (bound.sql); and, unless :all, a sheet of figures: a name, which
-- stands left of the text.
INSERT INTO wanted VALUES (:number);
WITH
one AS MATERIALIZED (
  SELECT row, escaped(command, 'line') AS command, "equivalence.grade" AS grade, "micro.size_bytes" AS size,
    "prediction.durations" AS durations, "pipeline.bubble" AS idle, ifnull("pipeline.bubble_equal", 0) AS equal,
    ifnull("pipeline.bubble_formula", 0) AS formula, ifnull("pipeline.slowest_stage", 0) AS slowest,
    "pipeline.bubble_stage" AS own
  FROM v WHERE number = :number),
-- What accumulation and recomputation save and cost: next to the last row of the same case without them, of this host.
plain AS MATERIALIZED (
  SELECT row, json_remove(row -> '$.case', '$.recompute', '$.gradient_accumulation_steps',
    '$.gradient_accumulation_exchange', '$.zero_accumulation') AS "case" FROM one
  WHERE row ->> '$.case.recompute' != '' OR row ->> '$.case.gradient_accumulation_steps' > 1),
twin AS MATERIALIZED (
  SELECT plain.row AS own, v.row AS other FROM plain JOIN v
  WHERE v."case.model" = plain.row ->> '$.case.model' AND v.row -> '$.case' = plain."case"
    AND v.row ->> '$.provenance.host' IS plain.row ->> '$.provenance.host' AND v.row ->> '$.result.status' = 'ok'
  ORDER BY v.number DESC LIMIT 1),
saved AS MATERIALIZED (
  SELECT other ->> '$.id' AS id, (other ->> '$.time.step_ms.median') + 0.0 AS before,
    (own ->> '$.time.step_ms.median') + 0.0 AS step,
    (SELECT max(value ->> '$.peak') + 0 FROM json_each(own, '$.memory.devices')) AS held,
    (SELECT max(value ->> '$.peak') + 0 FROM json_each(other, '$.memory.devices')) AS whole FROM twin),
-- Whether fewer bytes pay: when the mean loss of ten steps is that of the last ten of the fastest row of mirrored that
-- trains the same on the same link.
rival AS MATERIALIZED (
  SELECT one.row AS own, v.row AS other FROM one JOIN v
  WHERE one.row ->> '$.case.local_sgd_every' > 0 AND json_array_length(one.row, '$.train.losses') >= 10
    AND v."case.strategy" = 'mirrored' AND v."case.model" = one.row ->> '$.case.model'
    AND NOT EXISTS (SELECT 1 FROM json_each('["data","batch_global","devices","ranks","link","optimizer","lr","seed"]')
      WHERE json_extract(v.row, '$.case.' || value) IS NOT json_extract(one.row, '$.case.' || value))
    AND v.row ->> '$.provenance.host' IS one.row ->> '$.provenance.host' AND v.row ->> '$.result.status' = 'ok'
    AND json_array_length(v.row, '$.train.losses') >= 10 AND v.row ->> '$.traffic.bytes_sent' > 0
  ORDER BY v.row ->> '$.time.step_ms.mean' + 0 LIMIT 1),
rivals AS MATERIALIZED (
  SELECT other ->> '$.id' AS id, json_array_length(own, '$.train.losses') AS steps,
    (own ->> '$.time.step_ms.mean') / (other ->> '$.time.step_ms.mean')
      / json_array_length(other, '$.train.losses') AS pace, -- of a step, in the other's whole time
    (own ->> '$.traffic.bytes_sent' + 0.0) / (other ->> '$.traffic.bytes_sent')
      / json_array_length(other, '$.train.losses') AS sent,
    (SELECT avg(value) FROM json_each(other, '$.train.losses')
      WHERE key >= json_array_length(other, '$.train.losses') - 10) AS goal FROM rival),
reached AS MATERIALIZED (
  SELECT min(step) FILTER (WHERE step >= 10 AND loss <= goal) AS step, max(loss) FILTER (WHERE step = steps) AS last
  FROM rivals, (SELECT key + 1 AS step, avg(value) OVER (ORDER BY key ROWS 9 PRECEDING) AS loss
    FROM rival, json_each(own, '$.train.losses'))),
-- What shares of state save and cost: next to the last row of `mirrored` with the same case otherwise, preferably one
-- with a step, then one of the same buckets.
sharing AS MATERIALIZED (
  SELECT row AS own, "case.model" AS model, "case.bucket_bytes" AS bucket, pace AS mine, pace_low AS low,
    pace_high AS high, "memory.devices.peak" AS held, "traffic.bytes_sent" AS sent FROM v
  WHERE number = :number AND "case.zero_stage" IS NOT NULL AND "case.hybrid_outer" IS NULL AND "memory.devices.peak" > 0),
beside AS MATERIALIZED (
  SELECT sharing.*, id, pace, pace_low, pace_high, "memory.devices.peak" AS whole, "traffic.bytes_sent" AS whole_sent,
    mine / pace AS over
  FROM sharing JOIN v ON "case.strategy" = 'mirrored' AND "case.model" = model
  WHERE "memory.devices.peak" > 0 AND same_but(own, row, 1, 'strategy', 'allreduce', 'bucket_bytes', 'overlap')
  ORDER BY 2 * ifnull(pace > 0, 0) + ("case.bucket_bytes" IS bucket) DESC, timestamp DESC, number DESC LIMIT 1),
options AS (
  SELECT 'case.' || key AS path FROM one, json_each(row, '$.case') WHERE NOT field_fact('case.' || key, 'derived')
  ORDER BY field_fact('case.' || key, 'place'), id),
part (line, before, text, after) AS (VALUES
  ('row', '', cell(:row, 'id'), ''), ('row', 'of ', cell(:row, 'timestamp'), ''),
  ('label', '', cell(:row, 'label'), ''),
  ('command', '', (SELECT iif(length(command) > 204, substr(command, 1, 202) || '..', command) FROM one), ''),
  ('case', '', (SELECT group_concat(heading(path) || ' ' || cell(:row, path), ', ') FROM options WHERE cell(:row, path) != ''), ''),
  ('status', '', cell(:row, 'result.status'), ''),
  ('step', 'median ', cell(:row, 'time.step_ms.median'), ' ms'), ('step', '± ', cell(:row, 'time.step_ms.ci95'), ''),
  ('step', 'mean ', cell(:row, 'time.step_ms.mean'), ' ms'), ('step', 'p90 ', cell(:row, 'time.step_ms.p90'), ' ms'),
  ('step', 'p99 ', cell(:row, 'time.step_ms.p99'), ' ms'), ('step', '', cell(:row, 'time.step_ms.n'), ' steps'),
  ('step', '', cell(:row, 'time.blocks'), ' blocks'),
  ('rate', '', cell(:row, 'time.samples_per_s'), ' samples/s'),
  ('rate', 'all trained / time ', cell(:row, 'time.samples_per_s_mean'), ''), ('rate', 'speed-up ', cell(:row, 'time.speedup'), ''),
  ('rate', 'efficiency ', cell(:row, 'time.efficiency'), ''), ('rate', 'of the roof ', cell(:row, 'time.mfu'), ''),
  ('mean step', 'compute ', cell(:row, 'waterfall.compute_ms'), ' ms'),
  ('mean step', 'communication ', cell(:row, 'waterfall.comm_exposed_ms'), ' ms'),
  ('mean step', 'copies ', cell(:row, 'waterfall.copy_ms'), ' ms'), ('mean step', 'waiting ', cell(:row, 'waterfall.wait_ms'), ' ms'),
  ('mean step', 'optimizer ', cell(:row, 'waterfall.optimizer_ms'), ' ms'),
  ('mean step', 'harness ', cell(:row, 'waterfall.harness_ms'), ' ms'),
  -- the idle share, and what it comes from
  ('pipeline', 'idle ', (SELECT iif(equal > 0, decimals(100 * idle, 0) || '%: ' || decimals(100 * equal, 0)
    || '% with equal stages', NULL) FROM one), ''),
  ('pipeline', '', (SELECT iif(slowest > 0 AND formula - equal >= 0.005, decimals(100 * (formula - equal), 0)
    || '% since the slowest works ' || decimals(slowest, 2) || ' times the mean', NULL) FROM one), ''),
  ('pipeline', '', (SELECT iif(formula > 0 AND idle - formula >= 0.005, decimals(100 * (idle - formula), 0)
    || '% waiting for cores and messages', NULL) FROM one), ''),
  ('pipeline', '', (SELECT decimals(100 * own, 0) || '% between the first and last pass of the longest stage' FROM one), ''),
  ('pipeline', '', (SELECT iif(formula - own >= 0.005, decimals(100 * (formula - own), 0)
    || '% more until all stages have updated', NULL) FROM one), ''),
  ('lead', 'most ', cell(:row, 'lead.max'), ' steps'), ('lead', 'staleness ', cell(:row, 'staleness.mean'), ' updates'),
  ('training', 'first loss ', cell(:row, 'train.loss_first'), ''), ('training', 'last loss ', cell(:row, 'train.loss_last'), ''),
  ('training', 'accuracy ', cell(:row, 'train.accuracy'), ''), ('training', 'of ', cell(:row, 'train.evaluated'), ' test samples'),
  ('saved', 'after ', cell(:row, 'checkpoint.step'), ' steps'), ('saved', '', cell(:row, 'checkpoint.bytes'), ''),
  ('saved', '', cell(:row, 'checkpoint.count'), ' in all'), ('saved', 'training stood ', cell(:row, 'checkpoint.blocked_ms'), ' ms'),
  ('saved', 'went on after step ', cell(:row, 'checkpoint.resumed_step'), ''),
  ('elastic', 'moved ', cell(:row, 'elastic.moved_bytes'), ''),
  ('elastic', 'training stood ', cell(:row, 'elastic.paused_ms'), ' ms'), ('elastic', 'void steps ', cell(:row, 'elastic.void_steps'), ''),
  ('equal', '', (SELECT escaped(grade, 'line') FROM one), ''), ('equal', '', cell(:row, 'equivalence.oracle'), ''),
  ('equal', 'digest ', cell(:row, 'equivalence.digest'), ''),
  ('traffic', '', cell(:row, 'traffic.bytes_sent'), ' sent a step'), ('traffic', '', cell(:row, 'traffic.messages_sent'), ' messages'),
  ('traffic', 'averages every ', cell(:row, 'case.period'), ' steps'),
  ('memory', 'fullest device ', cell(:row, 'memory.devices.peak'), ''), ('memory', 'process ', cell(:row, 'memory.rss_peak'), ''),
  ('of which', 'parameters ', cell(:row, 'memory.devices.parameters'), ''),
  ('of which', 'gradients ', cell(:row, 'memory.devices.gradients'), ''),
  ('of which', 'optimizer ', cell(:row, 'memory.devices.optimizer'), ''),
  ('of which', 'activations ', cell(:row, 'memory.devices.activations'), ''),
  ('of which', 'communication ', cell(:row, 'memory.devices.communication'), ''),
  ('of which', 'workspace ', cell(:row, 'memory.devices.workspace'), ''),
  ('', '', (SELECT iif(durations = 'profile', 'not counted: what a layer needs inside, which a profile does not say', NULL)
    FROM one), ''),
  ('saves', '', (SELECT iif(whole > held, bytes_text(whole - held), 'nothing') || ' of the fullest device''s '
    || bytes_text(whole) FROM saved), ''),
  ('saves', 'for ', (SELECT iif(before > 0, decimals(step / before, 2), NULL) FROM saved), ' times the step'),
  ('saves', 'next to row ', (SELECT escaped(id, 'line') FROM saved WHERE whole > 0), ''),
  ('pays', '', (SELECT CASE WHEN step IS NULL THEN 'not within ' || steps || ' steps: loss ' || decimals(last, 4)
      || ' after ' || decimals(steps * pace, 2) || ' of the time, and mirrored ends at ' || decimals(goal, 4)
    ELSE iif(step * pace < 1, 'yes', 'no') || ': mirrored''s last loss ' || decimals(goal, 4) || ' in '
      || decimals(step * pace, 2) || ' of its time and ' || decimals(step * sent, 4) || ' of its bytes' END
    FROM reached JOIN rivals), ''),
  ('pays', 'next to row ', (SELECT escaped(id, 'line') FROM rivals), ''),
  ('operation', '', cell(:row, 'micro.op'), ''), ('operation', '', cell(:row, 'micro.shape'), ''),
  ('operation', '', (SELECT iif(size IS NULL, NULL, bytes_text(size)) FROM one), ''),
  ('operation', '', cell(:row, 'micro.time_us'), ' us'), ('operation', 'bus ', cell(:row, 'micro.busbw_gbs'), ' GB/s'),
  ('operation', '', cell(:row, 'micro.gflops'), ' GFLOP/s'), ('operation', '', cell(:row, 'micro.kernel'), ''),
  ('machine', '', cell(:row, 'provenance.host'), ''), ('machine', '', cell(:row, 'provenance.cpu'), ''),
  ('machine', '', cell(:row, 'provenance.gpu'), ''), ('machine', '', cell(:row, 'provenance.loops_isa'), ''),
  ('machine', '', cell(:row, 'provenance.cores_per_device'), ' cores a device'),
  ('machine', 'others used ', cell(:row, 'noise.others'), ' cores'),
  ('source', 'commit ', cell(:row, 'provenance.commit'), ''), ('source', 'changed ', cell(:row, 'provenance.dirty'), ''),
  ('source', '', cell(:row, 'provenance.compiler'), ''),
  ('shares', '', (SELECT iif(id IS NULL, 'no row of mirrored beside it; --strategy mirrored,zero runs both',
    printf('fullest device %s, of mirrored %s: %s%% %s%s%s%s; row %s', bytes_text(sharing.held), bytes_text(whole),
      decimals(abs(100 - 100.0 * sharing.held / whole), 0), iif(sharing.held > whole, 'more', 'less'),
      ifnull('; its step ' || decimals(over, 2) || ' times', ''),
      ifnull(printf(' (%s to %s)', decimals(over * exp(-sqrt(pow(ln(beside.mine / beside.low), 2) + pow(ln(pace_high / pace), 2))), 2),
        decimals(over * exp(sqrt(pow(ln(beside.high / beside.mine), 2) + pow(ln(pace / pace_low), 2))), 2)), ''),
      iif(whole_sent > 0, '; bytes sent ' || decimals(ifnull(sharing.sent, 0) * 1.0 / whole_sent, 2) || ' times', ''),
      escaped(id, 'line'))) FROM sharing LEFT JOIN beside), '')),
sheet AS (
  SELECT line, group_concat(before || text || after, ', ') AS text, min(place) AS nth
  FROM (SELECT * FROM (SELECT *, row_number() OVER () AS place FROM part WHERE NOT :all) WHERE text != '' ORDER BY line, place)
  GROUP BY line),
notes AS (
  SELECT 'reason' AS line, escaped(value_text(:row -> '$.result.reason'), 'line') AS text, -1 AS nth
  UNION ALL SELECT iif(key, '', 'note'), value, key FROM json_each(:row, '$.result.notes')
    WHERE json_type(:row, '$.result.notes') = 'array' AND key < 3 AND type = 'text'),
-- "Try --batch 1024: ..": where the last row of the same case but for that took longer a sample, it is said instead.
limits AS MATERIALIZED (
  SELECT key AS nth, escaped(value, 'line') AS text FROM bounds, json_each(lines) WHERE value != ''),
tries AS MATERIALIZED (
  SELECT nth, key_path(option) AS path, substr(said, 1, min(instr(said || ':', ':'), instr(said || '.', '.')) - 1) AS said,
    rtrim(substr(rest, 1, min(instr(rest || ' ', ' '), instr(rest || ':', ':'), instr(rest || ',', ',')) - 1), '.') AS value
  FROM (SELECT nth, said, substr(said, 3, instr(said || ' ', ' ') - 3) AS option, substr(said, instr(said || ' ', ' ') + 1) AS rest
    FROM (SELECT nth, substr(text, 5) AS said FROM limits WHERE text GLOB 'Try --[a-z]*'))
  WHERE option NOT GLOB '*[^a-z-]*'),
mine AS MATERIALIZED (
  SELECT row AS own, "case.model" AS model, pace AS mine, pace_low AS low, pace_high AS high,
    "case.batch_global" + 0.0 AS batch FROM v WHERE number = :number),
slower AS (
  SELECT nth, said, id, ratio, batches, row_number() OVER (PARTITION BY nth ORDER BY timestamp DESC, number DESC) AS back,
    ifnull(least, ratio) > batches AS worse
  FROM (
    SELECT nth, said, id, timestamp, number, pace / mine AS ratio, "case.batch_global" / batch AS batches,
      ratio(pace, pace_low, pace_high, mine, low, high) ->> 'low' AS least
    FROM tries CROSS JOIN mine CROSS JOIN v ON "case.model" IS model
    WHERE path GLOB 'case.*' AND mine > 0 AND pace > 0 AND "case.batch_global" / batch > 0 AND row_text(row, path) = value
      AND same_but(own, row, 0, substr(path, 6), iif(path = 'case.batch_global', 'batch_per_device', 'none')))),
told AS (
  SELECT nth, ifnull('Not ' || (SELECT said || ', which was the next to try: it took ' || decimals(ratio / batches, 2)
      || ' times as long a sample in row ' || escaped(id, 'line') || '.' FROM slower
      WHERE slower.nth = limits.nth AND back = 1 AND worse), text) AS text
  FROM limits),
lines (part, nth, text) AS (
  SELECT 0, nth, printf('%-10s', line) || wrapped(text, 10, 10, 80) FROM notes WHERE text != ''
  UNION ALL SELECT 1, nth, substr(text, 1, 1) || wrapped(substr(text, 2), 1, 4, 80) FROM told
  UNION ALL SELECT 2, 0, char(10) WHERE EXISTS (SELECT 1 FROM limits)
  UNION ALL SELECT 3, nth, printf('%-10s', line) || wrapped(text, 10, 10, 80) FROM sheet
  UNION ALL SELECT 4, 0, '--all shows every field.' || char(10) WHERE NOT :all)
SELECT text FROM lines ORDER BY part, nth;
