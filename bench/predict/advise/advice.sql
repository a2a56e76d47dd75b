-- An advice in words, of its JSON document and of `also`, which only the text has. Of a long ranking only the first
-- ten, the best one of each strategy, and those that other lines name; of what is refused a line for each reason of
-- the strategies that are not ranked. :format `estimates` is a ranking in which nothing was played yet.
WITH
also AS (SELECT value AS a FROM json_each(:document) WHERE key = 'also'),
ranking AS (
  SELECT key AS i, value AS r, value ->> '$.case.strategy' AS name,
    value ->> 'grade' IS NOT NULL AS unequal, value ->> 'samples_per_s' AS rate, value ->> 'played' AS played,
    value ->> 'options' AS options,
    100 - (value ->> '$.ci95[0]') / (value ->> 'samples_per_s') * 100 AS below,
    (value ->> '$.ci95[1]') / (value ->> 'samples_per_s') * 100 - 100 AS above
  FROM json_each(:document, '$.ranking')),
shown AS (
  SELECT *,
    i < 10 OR i IS a ->> 'usual'
      OR EXISTS (SELECT 1 FROM json_each(:document, '$.break_even') WHERE value ->> 'with' = i)
      OR NOT EXISTS (SELECT 1 FROM ranking AS other WHERE other.i < one.i AND other.name = one.name) AS named,
    -- of a guess, or a profile, the width is not known
    printf('%4d %-17s %11s %7s %11s  %3s/%3s/%3s%%' || char(10), i + 1, name || iif(unequal, '*', ''), digits(rate, 5),
      CASE WHEN NOT played THEN printf('~-%s+%s%%', decimals(below, 0), decimals(above, 0))
        WHEN (below + above) / 2 >= 0.05 THEN decimals((below + above) / 2, 1) || '%' ELSE '-' END,
      bytes_text(r ->> 'memory'), decimals(100 * (r ->> '$.shares.compute'), 0),
      decimals(100 * (r ->> '$.shares.network'), 0), decimals(100 * (r ->> '$.shares.idle'), 0))
    || iif(options = '', '', printf('%7s', '') || wrapped(options, 7, 7, 79)) AS line
  FROM ranking AS one, also),
one AS ( -- the first, the second that it is compared with, and what all lines share
  SELECT a, name, first.rate AS rate, (SELECT name FROM ranking WHERE i = second) AS other, second,
    (SELECT rate FROM ranking WHERE i = second) AS its, played,
    (SELECT played FROM ranking WHERE i = second) AS its_played,
    :document ->> 'cannot_tell' AS tied,
    iif(a ->> 'guess' IS NULL, 'is', 'would be') AS verb,
    :document ->> 'one_device_samples_per_s' AS alone, r ->> '$.shares.compute' AS compute
  FROM also, ranking AS first, (SELECT :document ->> 'break_even_with' AS second) WHERE first.i = 0),
-- Where the order changes; the table's digits do not tell near amounts of memory apart.
amounts AS (
  SELECT key, which, CASE iif(x IS NULL, '', axis) WHEN '' THEN NULL
    WHEN 'bandwidth' THEN printf('%s GB/s (%s Gb/s)', digits(x * 1e-9, 3), digits(x * 8e-9, 3))
    WHEN 'latency' THEN digits(x * 1e-3, 3) || ' us' WHEN 'devices' THEN decimals(x, 0)
    ELSE iif(x < 1073741824, digits(x / 1048576, 4) || ' MiB', digits(x / 1073741824, 4) || ' GiB') END AS text
  FROM (SELECT key, which, value ->> 'axis' AS axis, (value ->> place) + 0.0 AS x
    FROM json_each(:document, '$.break_even'), (SELECT 'value' AS which, '$.value' AS place
      UNION ALL SELECT 'low', '$.tried[0]' UNION ALL SELECT 'high', '$.tried[1]'))),
breaks AS (
  SELECT one.key AS key, value ->> 'axis' AS axis, (value ->> 'with') + 1 AS number, text AS amount,
    value ->> 'second_leads' = 'below' AS below, (SELECT name FROM ranking WHERE i = value ->> 'with') AS other,
    -- no limit that is read off this line lets its case lead if the next one has the same digits
    value ->> 'axis' = 'memory' AND lead(value ->> 'axis') OVER (ORDER BY one.key) = 'memory'
      AND lead(text) OVER (ORDER BY one.key) = text AS is_same
  FROM json_each(:document, '$.break_even') AS one JOIN amounts ON amounts.key = one.key AND which = 'value'),
-- Which refusal of a strategy says most: that by memory that needs least, else the first.
refused AS (
  SELECT key AS i, value ->> 'strategy' AS name, value ->> 'options' AS options,
    :document ->> ('$.refused[' || key || '].reason') AS reason,
    row_number() OVER (PARTITION BY value ->> 'strategy' ORDER BY nullif(value ->> 'memory', 0) IS NULL,
      value ->> 'memory', key) = 1 AND NOT EXISTS (SELECT 1 FROM ranking WHERE name = value ->> 'strategy') AS said
  FROM also, json_each(a, '$.refused')),
lines (part, number, text) AS (
  SELECT 0, 0, printf('%s, batch %d%s, devices %s, %s: %s', a ->> 'model', :document ->> 'batch',
      iif(a ->> 'weak', ' per device (of each replica: --scaling weak)', ' in all'), a ->> 'devices',
      ifnull(a ->> 'platform', 'no network'), iif(a ->> 'guess' IS NULL, 'predicted', 'guessed')) FROM also
  UNION ALL SELECT 1, 0, CASE :document ->> 'status'
      WHEN 'interrupted'
      THEN printf('Interrupted: this is the ranking so far, of %d combinations.', :document ->> 'searched')
      WHEN 'out of time' THEN printf('Of %d combinations: the search ended after %d s of processor time, and others '
        || 'were not tried. Another run may end elsewhere; fewer strategies (--strategy), or options that are given, '
        || 'leave time for the rest.', :document ->> 'searched', a ->> 'search_s')
      ELSE printf('Of %d combinations that were searched.', :document ->> 'searched') END FROM also
  UNION ALL SELECT 4, 0, '~: estimated, not played: the rate may be so much lower or higher'
    FROM ranking WHERE NOT played GROUP BY 1
  UNION ALL SELECT 4, 1, '*: its grade is none: it does not compute what single computes'
    FROM ranking WHERE unequal GROUP BY 1
  UNION ALL SELECT 4, 2, 'memory >=: of parameters, gradients, optimizer, and what layers hand to each other; a '
      || 'profile does not say what a layer needs inside' FROM one WHERE a ->> 'profile'
  UNION ALL SELECT 4, 3, printf('%d more, which no line names: --format json', n)
    FROM (SELECT count(*) AS n FROM shown WHERE NOT named) WHERE n > 0
  -- who leads, and by which factor: only of what was played
  UNION ALL SELECT 6, 0, printf('Numbers 1 to %d are within the noise: their intervals overlap.', tied) FROM one
    WHERE tied > 1
  UNION ALL SELECT 6, 1, iif(played AND its_played, printf('Number 1 (%s) %s %s times as fast as number %d (%s).', name,
      verb, digits(rate / its, 4), second + 1, other), printf('Number 1 (%s) leads number %d (%s); by how much is not '
      || 'known: %s was not played.', name, second + 1, other, iif(played, 'the latter', 'number 1'))) FROM one
    WHERE second >= tied
  UNION ALL SELECT 6, 2, printf('One device alone: %s samples/s; number 1 %s %s times as fast.', digits(alone, 5), verb,
      digits(rate / alone, 3)) FROM one WHERE alone > 0
  UNION ALL SELECT 7, key, CASE
      WHEN number IS NULL THEN printf('memory below %s a device: none of these fits', amount)
      WHEN amount IS NOT NULL THEN printf('%s %s %s%s: number %d (%s) leads', axis, CASE WHEN axis = 'devices' THEN
        iif(below, 'down to', 'from') ELSE iif(below, 'below', 'above') END, amount,
        iif(axis = 'memory', ' a device', ''), number, breaks.other)
      WHEN number > tied THEN printf('%s from %s to %s: number 1 stays before number %d (%s)', axis,
        (SELECT text FROM amounts WHERE amounts.key = breaks.key AND which = 'low'),
        (SELECT text FROM amounts WHERE amounts.key = breaks.key AND which = 'high'), number, breaks.other) END
    FROM breaks, one WHERE is_same IS NOT 1
  UNION ALL SELECT 8, 0, (:document ->> 'usual') || '.'
  UNION ALL SELECT 9, place, printf('Such choices, checked on %d sets of %s: the one predicted fastest took %s%% more '
      || 'time than the fastest, at worst %s%%.', value ->> 'sets', words, decimals(100 * (value ->> 'mean'), 1),
      decimals(100 * (value ->> 'worst'), 1))
    FROM one, json_each(:document), (SELECT 0 AS place, 'regret' AS name, 'rows measured here' AS words
      UNION ALL SELECT 1, 'regret_published', 'published rows') AS kind WHERE key = kind.name
  UNION ALL SELECT 9, 2, 'Not checked on this machine: no set of its measured rows has been predicted (predict '
      || '--validate).' FROM one WHERE :document -> 'regret' IS NULL
  UNION ALL SELECT 9, 3, nullif(a ->> 'noise', '') || '.' FROM one
  UNION ALL SELECT 9, 4, printf('All this is a guess: durations are FLOPs over a rate (--durations %s); leave that '
      || 'out, and they are measured.', a ->> 'guess') FROM one WHERE a ->> 'guess' IS NOT NULL
  -- the line that runs number 1, and what that cannot tell here
  UNION ALL SELECT 11, 0, 'That command measures another network than the one predicted: ' || (:document ->> 'check_differs') || '.' FROM one
  UNION ALL SELECT 11, 1, printf('Not on this machine: its %d cores are fewer than %d devices, which would compute in '
      || 'turns.', a ->> 'cores', a ->> 'device_count') FROM one
    WHERE :document -> 'check' IS NOT NULL AND a ->> 'cores' < a ->> 'device_count' AND compute >= 0.5
  UNION ALL SELECT 12, i, printf('refused: %s%s: %s', name, iif(options = '', '', ' ' || options), reason) FROM refused
    WHERE said
  UNION ALL SELECT 13, 0, printf('refused: %d more, other options of these strategies: --format json', n)
    FROM (SELECT count(*) AS n FROM refused WHERE NOT said) WHERE n > 0),
texts (format, part, number, text) AS (
  SELECT 'table', part, number, substr(text, 1, 1) || wrapped(substr(text, 2), 1, 2, 79) FROM lines
  UNION ALL SELECT 'table', 1.5, 0, char(10)
  UNION ALL SELECT 'table', 3, i, line FROM shown WHERE named
  UNION ALL SELECT 'table', 5, 0, char(10) FROM one
  UNION ALL SELECT 'table', 10, 0, printf('To check number 1 on such devices:%s  %s%s', char(10), :document ->> 'check',
      char(10)) FROM one WHERE :document -> 'check' IS NOT NULL
  UNION ALL SELECT 'estimates', 0, 0, 'By estimates, before the first ones are played:' || char(10) FROM one
  UNION ALL SELECT column1, 2, 0, printf('%4s %-17s %11s %8s %11s  %s%s', '', 'strategy', 'samples/s', ' ±',
      iif(a ->> 'profile', 'memory >=', 'memory'), 'compute/network/idle', char(10))
    FROM one, (VALUES ('table'), ('estimates'))
  UNION ALL SELECT 'estimates', 3, i, line FROM shown WHERE i < 10
  UNION ALL SELECT 'estimates', 5, 0, char(10) FROM one)
SELECT text FROM texts WHERE format = :format AND text IS NOT NULL ORDER BY part, number;
