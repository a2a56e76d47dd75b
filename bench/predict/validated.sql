-- What `predict --validate` prints of a document {rows [{line, strategy, devices}]}: a table, or JSON lines.
WITH rows AS (
  SELECT key AS number, value ->> 'strategy' AS strategy, value ->> 'devices' AS devices, value -> 'line' AS line
  FROM json_each(:document, '$.rows')),
summary AS (
  SELECT count(*) AS count, ifnull(median(abs(line ->> 'error')), 0.0) AS median,
    ifnull(max(abs(line ->> 'error')), 0.0) AS largest, ifnull(avg(line ->> 'held'), 0.0) AS held FROM rows),
texts (format, part, number, text) AS (
  SELECT 'table', 0, 0, 'strategy         devices predicted ms  measured ms     error         from           to  held'
  UNION ALL SELECT 'table', 1, number, printf('%-16s %7d %12s %12s %8s%% %12s %12s  %s', strategy, devices,
      decimals(line ->> 'predicted_ms', 4), decimals(line ->> 'measured_ms', 4),
      iif(line ->> 'error' < 0, '', '+') || decimals(100 * (line ->> 'error'), 2),
      decimals(line ->> '$.ci95[0]', 4), decimals(line ->> '$.ci95[1]', 4), iif(line ->> 'held', 'yes', 'no')) FROM rows
  UNION ALL SELECT 'table', 2, 0, printf(
      '%d rows validated: median error %s%%, largest %s%%; %s%% of the intervals held',
      count, decimals(100 * median, 2), decimals(100 * largest, 2), decimals(100 * held, 0)) FROM summary
  UNION ALL SELECT 'jsonl', 1, number, line FROM rows
  UNION ALL SELECT 'jsonl', 2, 0,
    printf('{"summary":{"rows":%d,"median_error":%s,"largest_error":%s,"held":%s}}', count,
      decimals(median, 6), decimals(largest, 6), decimals(held, 4)) FROM summary)
SELECT text || char(10) AS text FROM texts WHERE format = :format ORDER BY part, number;
