-- A comparison in words: of the JSON document that `regress --format json` prints the text of each other format. A
-- case's `verdict` concerns its time; without a verdict, `error` or `worse` says why. :format `exit` is the exit
-- status and the verdict on all cases.
WITH
-- How a case can come out.
outcomes (outcome, words, tag, kind) AS (VALUES
  (0, 'pass', 'system-out', 'notice'),
  (1, 'worse', 'failure', 'error'),
  (2, 'not to be compared', 'error', 'error'),
  (3, 'not to be told', 'skipped', 'warning')),
-- "traffic.bytes_sent 100 -> 200, ..", of what makes the comparison fail, and of what is only reported.
changes AS (
  SELECT key AS number, list, (
    SELECT group_concat(printf('%s %s -> %s%s', value ->> 'key',
      ifnull(nullif(value_text(value -> 'base'), ''), 'none'),
      ifnull(nullif(value_text(value -> 'new'), ''), 'none'), ': ' || nullif(value ->> 'reason', '')), ', ')
    FROM json_each(one.value, '$.' || list)) AS text
  FROM json_each(:document, '$.cases') AS one, (SELECT 'worse' AS list UNION ALL SELECT 'differences')),
cases AS (
  SELECT key AS number, value AS document, value ->> 'name' AS name, value ->> 'verdict' AS verdict,
    value ->> 'blocks' AS blocks, ifnull(value ->> 'ratio', 9e999) AS ratio, value ->> 'paired' AS paired,
    value ->> '$.ci95[0]' AS low, value ->> '$.ci95[1]' AS high, value ->> 'more_blocks' AS more,
    value ->> 'more_minutes' AS minutes, value ->> 'error' AS error,
    (SELECT text FROM changes WHERE number = key AND list = 'worse') AS worse,
    (SELECT text FROM changes WHERE number = key AND list = 'differences') AS differences
  FROM json_each(:document, '$.cases')),
judged AS (
  SELECT *,
    CASE WHEN verdict = 'slower' OR worse IS NOT NULL THEN 1 WHEN error IS NOT NULL THEN 2
      WHEN verdict = 'cannot tell' THEN 3 ELSE 0 END AS outcome,
    -- what would tell
    iif(more, ifnull(document ->> 'noise' || ': ', ''), '') || CASE
      WHEN minutes > 60 THEN 'an hour more would not tell; --instructions counts without noise'
      WHEN minutes > 0 THEN printf('about %s more minutes would tell (--max-time), and --instructions counts without '
        || 'noise', digits(minutes, 2))
      WHEN more THEN printf('about %d more runs of each side would tell', more)
      WHEN blocks < 2 AND low IS NULL THEN 'a row of one step has no interval, more --steps would tell'
      WHEN blocks < 2 AND NOT paired THEN 'one run of a side is too few, give eight of each'
      ELSE 'too near to the threshold for any number of blocks' END AS remedy
  FROM cases),
told AS (
  SELECT *,
    substr(iif(blocks, printf('; %s: %s times the base (%s%s%d %s%s, medians %s to %s ms a step)%s', verdict,
        digits(ratio, 4), '95% interval ' || digits(low, 4) || ' to ' || digits(high, 4) || ', ',
        iif(paired, 'by the ratios of ', ''), blocks, iif(paired, 'pair', 'run'), iif(blocks > 1, 's', ''),
        digits(document ->> 'base_ms', 4), digits(document ->> 'new_ms', 4),
        iif(verdict = 'cannot tell', '; ' || remedy, '')), '')
      || ifnull('; ' || error, '') || ifnull('; worse: ' || worse, ''), 3) AS sentence
  FROM judged JOIN outcomes USING (outcome)),
counts AS (SELECT outcome, words, count(*) AS n FROM told GROUP BY outcome ORDER BY outcome),
overall AS (
  SELECT CASE WHEN max(outcome = 1) THEN iif(max(verdict = 'slower'), 'slower', 'worse')
      WHEN ifnull(max(outcome = 2), 1) THEN 'error' WHEN max(outcome = 3) THEN 'cannot tell'
      WHEN max(verdict = 'faster') THEN 'faster' ELSE 'same' END AS verdict,
    CASE WHEN max(outcome = 1) THEN 1 WHEN ifnull(max(outcome = 2), 1) THEN 3 WHEN max(outcome = 3) THEN 4
      ELSE 0 END AS status,
    -- "2 cases: 1 pass, 1 worse; threshold 3%, 20 s"
    printf('%d case%s%s; threshold %s%%, %s s', count(*), iif(count(*) = 1, '', 's'),
      ': ' || (SELECT group_concat(printf('%d %s', n, words), ', ') FROM counts),
      digits(100 * (:document ->> 'threshold'), 6), decimals(:document ->> 'seconds', 0)) AS summary,
    count(*) AS cases
  FROM told),
texts (format, part, number, text, row) AS (
  SELECT 'exit', 0, 0, printf('%d %s', status, verdict), NULL FROM overall
  -- one line for all cases that cannot be compared
  UNION ALL SELECT 'error', 0, 0, printf('%s: %s%s', name, error, iif(n > 1,
      printf('; %d more case%s cannot be compared', n - 1, iif(n > 2, 's', '')), '')), NULL
    FROM (SELECT name, error, min(number), count(*) AS n FROM told WHERE error IS NOT NULL) WHERE n
  UNION ALL SELECT 'md', 0, 0, printf('**Performance: %s**: %s' || char(10, 10), verdict, summary), NULL FROM overall
  UNION ALL SELECT format, 1, number, NULL, json_object('name', name,
      'verdict', CASE WHEN outcome = 1 AND verdict != 'slower' THEN 'worse' WHEN error IS NOT NULL THEN 'error'
        ELSE verdict END,
      'ratio', iif(blocks, decimals(ratio, 3), ''), 'interval', decimals(low, 3) || ' to ' || decimals(high, 3),
      'blocks', blocks, 'base_ms', document -> 'base_ms', 'new_ms', document -> 'new_ms',
      'result', iif(outcome, json_object('reason', sentence), NULL))
    FROM told, (SELECT 'table' AS format UNION ALL SELECT 'md')
  -- below the cases: what differs besides, and instructions
  UNION ALL SELECT column1, 2, 0, char(10), NULL FROM (VALUES ('table'), ('md'))
  UNION ALL SELECT 'table', 3, number, escaped(name || ', besides: ' || differences, 'line') || char(10), NULL FROM told
  UNION ALL SELECT 'md', 3, number, '- ' || escaped(name || ', besides: ' || differences, 'markdown') || char(10), NULL
    FROM told
  UNION ALL SELECT column1, 4, 0, printf(char(10) || 'instructions%s' || char(10),
      ': ' || (:document ->> 'instructions')), NULL FROM (VALUES ('table'), ('md'))
    WHERE json_type(:document, '$.instructions') = 'text'
  UNION ALL SELECT column1, 4, 0, printf(char(10) || 'instructions by callgrind: %s, base %s: %s times' || char(10),
      decimals(:document ->> '$.instructions.new', 0), decimals(:document ->> '$.instructions.base', 0),
      decimals(:document ->> '$.instructions.ratio', 4)), NULL FROM (VALUES ('table'), ('md'))
    WHERE json_type(:document, '$.instructions') = 'object'
  UNION ALL SELECT 'table', 5, 0, verdict || ': ' || summary || char(10), NULL FROM overall
  UNION ALL SELECT 'junit', 0, 0, printf('<?xml version="1.0" encoding="UTF-8"?>' || char(10) || '<testsuites>'
      || char(10) || '  <testsuite name="lockstep regress" tests="%d" failures="%d" errors="%d" skipped="%d" time="%s">'
      || char(10), cases, (SELECT n FROM counts WHERE outcome = 1), (SELECT n FROM counts WHERE outcome = 2),
      (SELECT n FROM counts WHERE outcome = 3), decimals(:document ->> 'seconds', 1)), NULL FROM overall
  UNION ALL SELECT 'junit', 1, number, printf('    <testcase classname="lockstep.regress" name="%s">' || char(10)
      || iif(outcome, '      <%s message="%s"/>', '      <%s>%s</system-out>') || char(10) || '    </testcase>'
      || char(10), escaped(name, 'markup'), tag, escaped(sentence, 'markup')), NULL FROM told
  UNION ALL SELECT 'junit', 2, 0, '  </testsuite>' || char(10) || '</testsuites>' || char(10), NULL
  UNION ALL SELECT 'github', 1, number, printf('::%s title=lockstep regress::%s: %s' || char(10), kind,
      escaped(name, 'github'), escaped(sentence, 'github')), NULL FROM told)
SELECT text, row AS "row:json" FROM texts WHERE format = :format AND (text IS NOT NULL OR row IS NOT NULL) ORDER BY part, number;
