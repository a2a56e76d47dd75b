-- An option that `results show` would try next (:said, "--batch 1024") for the row :number: a text where the last row of
-- the same case but for the field :path, which has the :value, took longer a sample.
WITH one AS MATERIALIZED (
  SELECT row AS own, "case.model" AS model, pace AS mine, pace_low AS low, pace_high AS high,
    "case.batch_global" + 0.0 AS batch FROM v WHERE number = :number),
others AS (
  SELECT id, timestamp, number, pace / mine AS ratio, "case.batch_global" / batch AS batches,
    pace / mine * exp(-sqrt(pow(ln(pace / pace_low), 2) + pow(ln(high / mine), 2))) AS least
  FROM one JOIN v ON "case.model" IS model
  WHERE mine > 0 AND pace > 0 AND "case.batch_global" / batch > 0 AND row_text(row, :path) = :value
    AND same_but(own, row, 0, substr(:path, 6), iif(:path = 'case.batch_global', 'batch_per_device', 'none')))
SELECT printf('Not %s, which was the next to try: it took %s times as long a sample in row %s.', :said,
  decimals(ratio / batches, 2), escaped(id, 'line')) AS text
FROM (SELECT * FROM others ORDER BY timestamp DESC, number DESC LIMIT 1) WHERE ifnull(least, ratio) > batches;
