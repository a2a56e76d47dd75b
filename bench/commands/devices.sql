-- What `lockstep devices` prints: of its JSON document, and of `also`, which only the text has.
WITH
machine AS (SELECT :document -> 'machine' AS m, :document -> 'also' AS also),
-- Lists of cores as "0-3,8"; the text where there are none.
device AS (
  SELECT one.value ->> 'name' AS name, one.fullkey AS at, one.value AS d,
    (SELECT group_concat(first || iif(last > first, '-' || last, ''), ',') FROM (
      SELECT min(value) AS first, max(value) AS last
      FROM json_each(one.value, '$.cores') GROUP BY value - key ORDER BY 1)) AS cores
  FROM json_tree(:document) AS one WHERE one.type = 'object' AND one.path GLOB '*devices'),
facts (place, name, text) AS (
  SELECT 0, 'host', printf('%s (%s, %s)', m ->> 'host', m ->> 'kernel', m ->> 'arch') FROM machine
  UNION ALL SELECT 1, 'cpu', printf('%s; vectors: %s', m ->> 'cpu', m ->> 'isa') FROM machine
  UNION ALL SELECT 2, 'uses', printf('loops %s, oneDNN %s', also ->> 'loops',
    ifnull(nullif(also ->> 'library', ''), 'what it finds')) FROM machine
  UNION ALL SELECT 3, 'cores', printf('%d, %d of them for this process', m ->> 'cores_total', m ->> 'cores_allowed')
    FROM machine
  UNION ALL SELECT 4, 'numa', printf('%d node%s', m ->> 'numa_nodes', iif(m ->> 'numa_nodes' = 1, '', 's')) FROM machine
  UNION ALL SELECT 5 + key / 100.0, 'cache', printf('L%d: %d of %s', value ->> 'level', value ->> 'count',
    bytes_text(value ->> 'bytes')) FROM machine, json_each(m, '$.caches')
  UNION ALL SELECT 6, 'memory', bytes_text(m ->> 'memory_total') FROM machine
  UNION ALL SELECT 7, 'gpu', m ->> 'gpu' || ifnull('; driver: ' || nullif(m ->> 'driver', ''), '') FROM machine
  UNION ALL SELECT 8, 'limits', ifnull(nullif(substr(
      ifnull('; CPU quota of ' || decimals(m ->> 'cpu_quota', 2) || ' cores', '')
      || iif(m ->> 'cores_allowed' < m ->> 'cores_total',
        printf('; %d of %d cores', m ->> 'cores_allowed', m ->> 'cores_total'), '')
      || iif(m ->> 'memory_limit' < m ->> 'memory_total', '; memory ' || bytes_text(m ->> 'memory_limit'), ''), 3), ''),
    'none') FROM machine),
lines (part, number, text) AS (
  SELECT 0, place, printf('%-9s %s', name, text) FROM facts
  UNION ALL SELECT 1, 0, printf('%s%-10s %12s  %s', char(10), 'device', 'capacity', 'cores')
  UNION ALL SELECT 2, key, printf('%-10s %12s  %s', name, bytes_text(ifnull(d ->> 'capacity',
      (d ->> 'memory') * 1.0 / (also ->> 'parts'))), ifnull(cores, printf('%s, %d multiprocessors, %s, pci %s%s',
      d ->> 'gpu', d ->> 'multiprocessors', also ->> ('$.sm[' || key || ']'), d ->> 'pci',
      iif(also ->> 'parts' > 1, ', shared', ''))))
    FROM machine, json_each(:document, '$.devices') JOIN device ON at = fullkey
  UNION ALL SELECT 3, 0, 'names: ' || (also ->> 'names') FROM machine
  UNION ALL SELECT 4, 0, 'oversubscribed: some of these devices share cores' FROM machine WHERE also ->> 'crowded'
  UNION ALL SELECT 5, key, printf('%s%s ->%s%s%s', iif(key, '', char(10)), value ->> 'spec',
      (SELECT ' ' || group_concat(name || ifnull(' (cores ' || cores || ')', ''), ' ') FROM device
       WHERE at GLOB '$.resolved[[]' || one.key || ']*'),
      ' ' || (value ->> 'error'), iif(value ->> 'oversubscribed', '; oversubscribed', ''))
    FROM json_each(:document, '$.resolved') AS one
  UNION ALL SELECT 6, 0, printf('%s%-6s %-20s %-16s %-6s %s', char(10), 'rank', 'host', 'cores', 'numa', 'gpus')
    WHERE json_array_length(:document, '$.ranks') > 0
  UNION ALL SELECT 7, key, printf('%-6d %-20s %-16s %-6s %s', key, value ->> 'host',
      ifnull(nullif(replace(list_text(value ->> 'cores'), '+', ','), ''), 'none'),
      ifnull(nullif(replace(list_text(value ->> 'numa'), '+', ','), ''), '?'),
      ifnull(nullif(replace(list_text(value ->> 'gpus'), '+', ','), ''), 'none'))
    FROM json_each(:document, '$.ranks'))
SELECT text || char(10) AS text FROM lines ORDER BY part, number;
