-- What `predict --validate` prints of a document {rows [{line, strategy, devices}], summary}: a table, or JSON lines.
WITH rows AS (
  SELECT key AS number, value ->> 'strategy' AS strategy, value ->> 'devices' AS devices, value -> 'line' AS line
  FROM json_each(:document, '$.rows')),
texts (format, part, number, text) AS (
  SELECT 'table', 0, 0, 'strategy         devices predicted ms  measured ms     error         from           to  held'
  UNION ALL SELECT 'table', 1, number, printf('%-16s %7d %12s %12s %8s%% %12s %12s  %s', strategy, devices,
      decimals(line ->> 'predicted_ms', 4), decimals(line ->> 'measured_ms', 4),
      iif(line ->> 'error' < 0, '', '+') || decimals(100 * (line ->> 'error'), 2),
      decimals(line ->> '$.ci95[0]', 4), decimals(line ->> '$.ci95[1]', 4), iif(line ->> 'held', 'yes', 'no')) FROM rows
  UNION ALL SELECT 'table', 2, 0, printf(
      '%d rows validated: median error %s%%, largest %s%%; %s%% of the intervals held',
      :document ->> '$.summary.rows', decimals(100 * (:document ->> '$.summary.median_error'), 2),
      decimals(100 * (:document ->> '$.summary.largest_error'), 2), decimals(100 * (:document ->> '$.summary.held'), 0))
  UNION ALL SELECT 'jsonl', 1, number, line FROM rows
  UNION ALL SELECT 'jsonl', 2, 0,
    printf('{"summary":{"rows":%d,"median_error":%s,"largest_error":%s,"held":%s}}', :document ->> '$.summary.rows',
      decimals(:document ->> '$.summary.median_error', 6), decimals(:document ->> '$.summary.largest_error', 6),
      decimals(:document ->> '$.summary.held', 4)))
SELECT text || char(10) AS text FROM texts WHERE format = :format ORDER BY part, number;
