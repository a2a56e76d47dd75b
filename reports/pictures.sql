-- SPDX-License-Identifier: MIT
-- Pictures: each is a file reports/NAME.sql, with the template of gnuplot that it names. Its head
-- are comments, "-- name: text"; what follows is one query in SQL (results_db.h), whose rows are
-- points:
--     number   of the row that a point is of; NULL means of none, as of an ideal line
--     part     the name of the point's series; NULL means that of the row's case
--     x, y, low, high
-- The query reads `r`: rows in their order (place), with all that reports/rows.sql knows of them
-- (table `read`), as the fields of `v` that it names in double quotes, rate and pace with bounds,
-- is_candidate, and
--     trainers                      how many devices train
--     delay, bandwidth, latency     of the fault, ms; of the link, MB/s and us
--     of_mirrored                   list: memory, step, its low and high over the figures of the
--                                   row of mirrored next to it
-- first all rows, then each picture's: the rows with points (or for which `of` holds) that agree in
-- `by`.
-- The head:
--     title, y, x, unit, caption, wanted  (an option list that would make the picture)
--     template  lines; bars and ranges, whose x is `place`
--     by        columns: a picture each of the rows that agree in them; and in the machine
--     of        a condition that selects the rows, if a row's point depends on other rows
--     without   what is missing in rows without a point, or for which `of` does not hold
--     passed    what chosen rows without a point are
--     each      a column whose values make separate pictures: NAME-VALUE
--     at        the path of x, if it is an option
--     series    the column that names series; without it the case does
--     colours   "series": each series has its own; else its strategy does
--     log       x, y or xy: logarithmic if the numbers allow it
--     one       a series of one point is enough
--     median    of a case with several rows, the median one is shown
--     place     on the page
--
-- How pictures are made of the rows (rows.sql) and of the query of each (NAME.sql). Sections: `begin` once; `groups` for
-- each picture and, if it has groups, `cases`; `next` and `make` for each group; `end`; at last `figures`, `left_out`.
-- {{query}}, {{by}}, .. are what the picture's head says, {{bars}} that its x are cases, {{g}} the group.

-- begin
CREATE TEMP TABLE picked (place INTEGER PRIMARY KEY, number INTEGER);
CREATE TEMP VIEW r AS SELECT picked.place, picked.number, read.* FROM temp.picked JOIN temp.read ON at = number;
CREATE TEMP TABLE point (id INTEGER PRIMARY KEY, number INTEGER, series TEXT, x REAL, y REAL, low REAL, high REAL);
CREATE TEMP TABLE grouped (g, each, number);
CREATE TEMP TABLE about (g INTEGER PRIMARY KEY, each, name, size, sub, foot);
CREATE TEMP TABLE tried (g INTEGER PRIMARY KEY);
CREATE TEMP TABLE cased (g, number, name, i, k, n);
CREATE TEMP TABLE used (number INTEGER PRIMARY KEY);
CREATE TEMP TABLE mark (series, first, number, x, y, low, high);
CREATE TEMP TABLE curve (series, first, size, style, variant, ours, alone, rank);
CREATE TEMP TABLE made (name, before, size, highest, shown);
CREATE TEMP TABLE figure (id INTEGER PRIMARY KEY, kind, each, name, sub, foot, caption, log_x, log_y, title, template, x,
    y, unit, place, curves, categories, styles);
CREATE TEMP TABLE reason (id INTEGER PRIMARY KEY, missing, name, why);
CREATE TEMP VIEW shared AS
SELECT at AS number, column1 AS k, column2 AS before, CASE column1 WHEN 1 THEN "case.model" WHEN 2 THEN "case.data"
    WHEN 3 THEN "case.batch_global" WHEN 4 THEN "micro.op" WHEN 5 THEN "micro.shape" WHEN 6 THEN "micro.ranks"
    WHEN 7 THEN "micro.comm" WHEN 8 THEN "case.link" WHEN 9 THEN "prediction.platform"
    ELSE iif(trainers > 0, printf('%g device%s', trainers, iif(trainers > 1, 's', '')), NULL) END AS text
FROM read, (VALUES (1, ''), (2, ''), (3, 'global batch '), (4, ''), (5, ''), (6, 'ranks '), (7, ''), (8, 'link '),
    (9, 'platform '), (10, ''));

-- groups: rows that have points (or hold `of`) and agree in `by` and the machine
DELETE FROM picked;
DELETE FROM grouped;
DELETE FROM tried;
INSERT INTO picked SELECT at, at FROM read WHERE ok;
INSERT INTO grouped
WITH
    q (number, part, x, y, low, high) AS ({{{query}}}),
    k AS (
        SELECT number, {{#each}}{{{each}}}{{/each}}{{^each}}''{{/each}} AS each,
            json_array(apart, "case.model_digest", {{{by}}}) AS key
        FROM r
        WHERE {{#of}}{{{of}}}{{/of}}{{^of}}number IN (
            SELECT number FROM q WHERE x BETWEEN 0 AND 1e100 AND y BETWEEN 0 AND 1e100){{/of}}
    )
SELECT g, each, number
FROM k JOIN (
    SELECT row_number() OVER (ORDER BY each, count(*) DESC, min(number)) AS g, each, key
    FROM k
    WHERE each IS NOT NULL
    GROUP BY each, key
) USING (each, key);

-- cases: what each group is, the names of its rows, and which repeat of a case each is
DELETE FROM about;
DELETE FROM asked;
DELETE FROM cased;
INSERT INTO about
SELECT g, each, '{{{name}}}' || iif(each = '', '', '-' || each), size, substr(coalesce(sub, '')
    || iif(each = '', '', iif(sub IS NULL, '', ', ') || each || ' scaling'
        || iif(each = 'weak', ' (the batch grows with the devices)', '')), 1, 500),
    coalesce(nullif(iif(machines > 1, 'several machines', origin), '') || ', ', '')
    || 'commit' || char(160) || iif(commits > 1, 'several', short_commit) || ', ' || substr(timestamp, 1, 10) || ', rows:'
    || char(160) || size
FROM
    (
        SELECT g, each, count(*) AS size, count(DISTINCT machine) AS machines, count(DISTINCT short_commit) AS commits,
            max(number) AS last
        FROM grouped JOIN read ON at = number
        GROUP BY g
    )
    JOIN read ON at = last
    LEFT JOIN (
        SELECT g, group_concat(before || text, ', ') AS sub
        FROM (
            SELECT g, k, before, substr(list_text(min(text)), 1, 95) AS text
            FROM grouped JOIN shared USING (number)
            GROUP BY g, k
            HAVING min(text) = max(text) AND count(text) = count(*) AND min(text) != ''
            ORDER BY g, k
        )
        GROUP BY g
    ) USING (g);
INSERT INTO asked SELECT g, number, {{#at}}"{{{at}}}"{{/at}}{{^at}}NULL{{/at}} FROM grouped JOIN read ON at = number;
{{^series}}INSERT INTO naming VALUES (nullif('{{{against}}}', 'case.strategy'));{{/series}}
INSERT INTO cased
WITH
    n AS (
        SELECT g, number, {{#series}}coalesce(list_text("{{{series}}}"), ''){{/series}}{{^series}}
            named.name || iif(
                '{{{x}}}' = 'devices'
                OR min(trainers) OVER (PARTITION BY g) = nullif(max(trainers) OVER (PARTITION BY g), 0),
                '',
                printf(' on %g', trainers)
            ) || against{{/series}} AS name
        FROM grouped JOIN read ON at = number {{^series}}JOIN named USING (number){{/series}}
    ),
    f AS (SELECT g, name, min(number) AS first, count(*) AS n FROM n GROUP BY g, name)
SELECT g, number, name, i, row_number() OVER (PARTITION BY g, name ORDER BY speed, number), n
FROM
    n
    JOIN (
        SELECT g, name, n, row_number() OVER (PARTITION BY g ORDER BY
            {{#bars}}{{^series}}is_peer, style, name COLLATE NUMBERED, {{/series}}{{/bars}}first) AS i
        FROM f JOIN read ON at = first
    ) USING (g, name)
    JOIN read ON at = number;

-- next
SELECT coalesce(min(g), 0) AS g
FROM grouped
WHERE g NOT IN (SELECT g FROM tried)
    AND (SELECT count(*) FROM figure WHERE kind = '{{{name}}}' AND figure.each = grouped.each) < 3;

-- make: the points of a group's rows (`median`: of one of each case), then its picture, if it shows anything
INSERT INTO tried VALUES ({{g}});
DELETE FROM picked;
INSERT INTO picked
SELECT {{#median}}i - 1{{/median}}{{^median}}number{{/median}}, number
FROM cased
WHERE g = {{g}} {{#median}}AND k = (n + 1) / 2{{/median}} {{#bars}}AND i <= 24{{/bars}};
INSERT OR IGNORE INTO used SELECT number FROM cased WHERE g = {{g}} {{#bars}}AND i <= 24{{/bars}};
DELETE FROM point;
WITH q (number, part, x, y, low, high) AS ({{{query}}})
INSERT INTO point (number, series, x, y, low, high)
SELECT q.number, coalesce(part, name, 'all'), x, y, iif(abs(low) <= 1e100, low, y), iif(abs(high) <= 1e100, high, y)
FROM q LEFT JOIN cased ON cased.g = {{g}} AND cased.number = q.number
WHERE x BETWEEN 0 AND 1e100 AND y BETWEEN 0 AND 1e100;
{{#no_ideal}}DELETE FROM point WHERE number IS NULL;{{/no_ideal}}
-- points of one series and x become one: their median, with their range
DELETE FROM mark;
INSERT INTO mark
SELECT series, first, max(number), x, avg(y) FILTER (WHERE k IN ((n + 1) / 2, (n + 2) / 2)),
    iif(n = 1, min(low), min(y)), iif(n = 1, max(high), max(y))
FROM (SELECT *, row_number() OVER (PARTITION BY series, x ORDER BY y) AS k, count(*) OVER (PARTITION BY series, x) AS n,
    min(id) OVER (PARTITION BY series) AS first FROM point)
GROUP BY first, x;
-- series: those of one colour have variants, what was predicted the one that was measured of the same; left out are
-- lines of one point, parts that are 0 everywhere, and the shortest of those beyond 14
DELETE FROM curve;
INSERT INTO curve
WITH
    c AS (
        SELECT series, first, count(*) AS size, total(y) AS total, max(number) AS number,
            max(number) IS NOT NULL AS ours, count(*) < 2 AND {{#alone}}0{{/alone}}{{^alone}}1{{/alone}} AS alone
        FROM mark
        GROUP BY first
    ),
    s AS (
        SELECT c.*, coalesce({{#bars}}row_number() OVER (ORDER BY c.first) - 1{{/bars}}{{^bars}}
                {{#colours}}row_number() OVER (ORDER BY c.first) * 3 % 9{{/colours}}{{^colours}}style{{/colours}}{{/bars}}, -2) AS style,
            min(first) OVER (PARTITION BY replace(series, ' (predicted)', '')) AS begin
        FROM c LEFT JOIN read ON at = c.number
    ),
    t AS (
        SELECT *, dense_rank() OVER (PARTITION BY min(style, 9) ORDER BY begin) - 1 AS variant,
            alone AND ({{#at}}1{{/at}}{{^at}}NOT ours{{/at}}) AS is_short
        FROM s
    )
SELECT series, first, size, style, {{#bars}}0{{/bars}}{{^bars}}variant{{/bars}}, ours, is_short,
    iif(is_short {{#bars}}OR NOT total > 0{{/bars}}, NULL, row_number() OVER (PARTITION BY ours, is_short
        ORDER BY size DESC, first))
FROM t;
DELETE FROM made;
INSERT INTO made
SELECT
    about.name || iif(before > 0, '-' || (before + 1), ''),
    before,
    size,
    (SELECT max(y) FROM mark JOIN curve USING (series) WHERE ours),
    (SELECT max(y) FROM mark JOIN curve USING (series) WHERE ours) > 0
    AND ({{#lines}}(SELECT max(size) FROM curve WHERE ours) > 1 OR {{/lines}}{{^lines}}1 OR {{/lines}}
        {{#one}}1{{/one}}{{^one}}0{{/one}})
FROM about, (SELECT count(*) AS before FROM about AS a JOIN figure ON kind = '{{{name}}}' AND figure.each = a.each WHERE a.g = {{g}})
WHERE g = {{g}};
INSERT INTO reason (name, why)
SELECT made.name, 'rows of ' || sub || CASE
    WHEN highest > 0 THEN ', with one place only (wanted: {{wanted}}): '
    {{#passed}}ELSE ', too few or too alike (wanted: {{wanted}}): '{{/passed}}
    {{^passed}}ELSE ', which have 0: '{{/passed}} END || made.size
FROM made, about
WHERE g = {{g}} AND shown IS NOT TRUE;
DELETE FROM same;
INSERT INTO same SELECT i, number FROM cased WHERE g = {{g}} {{#bars}}AND i <= 24{{/bars}};
WITH d AS MATERIALIZED (
    SELECT *
    FROM differing
    WHERE path NOT IN ({{^bars}}'case.devices', 'case.batch_per_device', 'case.ranks', 'case.hosts', 'case.batch_global',
        'provenance.cores_per_device', 'provenance.ranks.host', {{/bars}}
        '{{#at}}{{at}}{{/at}}{{^at}}{{#bars}}{{against}}{{/bars}}{{/at}}')
)
INSERT INTO reason (name, why)
SELECT made.name, why
FROM made, (
    SELECT 1 AS o, 'rows of cases whose median row is shown: ' || (count(*) - count(DISTINCT i)) AS why
    FROM cased
    WHERE g = {{g}} AND {{#median}}1{{/median}}{{^median}}0{{/median}} {{#bars}}AND i <= 24{{/bars}}
    HAVING count(*) > count(DISTINCT i)
    UNION ALL
    SELECT 2, 'rows beyond the 24 bars of a picture (--where chooses): ' || count(*)
    FROM cased
    WHERE g = {{g}} AND i > 24 AND {{#bars}}1{{/bars}}{{^bars}}0{{/bars}}
    HAVING count(*) > 0
    UNION ALL
    SELECT 3, 'rows of one {{#bars}}case{{/bars}}{{^bars}}line{{/bars}} that differ in '
        || (SELECT group_concat(path, ', ') FROM (SELECT path FROM d GROUP BY path ORDER BY min(rank), path)) || ': '
        || (SELECT sum(size) FROM (SELECT size FROM d GROUP BY g))
    FROM (SELECT 1)
    WHERE EXISTS (SELECT 1 FROM d)
    UNION ALL
    SELECT 4, 'ideal lines, as each value of {{{against}}} has its own'
    WHERE {{#no_ideal}}1{{/no_ideal}}{{^no_ideal}}0{{/no_ideal}}
    {{#passed}}
    UNION ALL
    SELECT 5, '{{passed}}: ' || count(*)
    FROM picked
    WHERE number NOT IN (SELECT number FROM point WHERE number IS NOT NULL)
    HAVING count(*) > 0
    {{/passed}}
    UNION ALL
    SELECT 6, 'series of one place (wanted: {{wanted}}): ' || count(*)
    FROM curve
    WHERE alone AND ours
    HAVING count(*) > 0
    UNION ALL
    SELECT 7, 'series beyond the 14 that a picture holds (--where chooses): ' || count(*)
    FROM curve
    WHERE ours AND rank > 14
    HAVING count(*) > 0
)
WHERE shown
ORDER BY o;
INSERT INTO figure
WITH
    kept AS (
        SELECT curve.*, x, y, low, high
        FROM curve JOIN mark USING (first)
        WHERE rank > 0 AND (rank <= 14 OR NOT ours)
        ORDER BY first, x
    ),
    c AS (
        SELECT first, json_object('name', series, 'style', style, 'variant', variant,
            'predicted', json(iif(instr(series, ' (predicted)'), 'true', 'false')),
            'points', json('[' || group_concat('[' || number_text(x) || ',' || number_text(y) || ',' || number_text(low)
                || ',' || number_text(high) || ']') || ']')) AS curve
        FROM kept
        GROUP BY first
        ORDER BY first
    ),
    n AS (SELECT name, style, min(at) FROM cased JOIN read ON at = number WHERE g = {{g}} AND i <= 24 GROUP BY i ORDER BY i)
SELECT
    NULL, '{{{name}}}', each, made.name, sub,
    foot || {{#bars}}''{{/bars}}{{^bars}}iif(ranged, ', bars: ci95 of a row or range of several', ''){{/bars}},
    '{{caption:999}}' {{^bars}}|| iif(ranged, ' Bars: ci95 of the row, or, where several rows are one point '
        || '(their median), the lowest and the highest.', ''){{/bars}},
    far > 32 AND '{{x}}' = 'devices' OR instr('{{log}}', 'x') > 0,
    far > 32 AND '{{x}}' = 'devices' AND '{{unit}}' != '%' OR instr('{{log}}', 'y') > 0,
    '{{title}}', '{{template}}', {{#bars}}'{{y}}', ''{{/bars}}{{^bars}}'{{x}}', '{{y}}'{{/bars}}, '{{unit}}', {{{place}}},
    (SELECT json_group_array(json(curve)) FROM c),
    {{#bars}}(SELECT json_group_array(name) FROM n), (SELECT json_group_array(style) FROM n){{/bars}}
    {{^bars}}NULL, NULL{{/bars}}
FROM made, about, (SELECT max(low < high) AS ranged, max(x) AS far FROM kept)
WHERE g = {{g}} AND shown;

-- end
INSERT INTO reason (missing, name, why)
SELECT missing, '{{{name}}}', why
FROM (
    SELECT 0 AS missing, 'rows without {{#without}}{{without}}{{/without}}{{^without}}its numbers{{/without}}: '
        || (all_ok - count(*)) AS why
    FROM grouped, (SELECT count(*) AS all_ok FROM read WHERE ok)
    HAVING count(*) BETWEEN 1 AND all_ok - 1
    UNION ALL
    SELECT 0, 'rows of ' || count(DISTINCT g) || ' smaller groups (model, batch, machine; --where chooses): ' || count(*)
    FROM grouped
    WHERE g NOT IN (SELECT g FROM tried)
    HAVING count(*) > 0
    UNION ALL
    SELECT 1, 'no rows for it; wanted: {{wanted}}'
    WHERE NOT EXISTS (SELECT 1 FROM grouped)
);

-- figures: those of one title are told apart by what their rows have in common or, where that is the same, by where they
-- come from; and their data, as far as the page has room for it
WITH
    part AS (
        SELECT f.id, title, column1 AS what, e.key AS at, e.value AS part
        FROM figure AS f, (VALUES ('sub'), ('foot')),
            json_each('[' || replace(json_quote(iif(column1 = 'sub', sub, foot)), ', ', '","') || ']') AS e
        WHERE e.value != ''
    ),
    own AS (
        SELECT id, what, group_concat(part, ', ') AS text
        FROM (
            SELECT *
            FROM part AS p
            WHERE
                (
                    SELECT count(DISTINCT id)
                    FROM part AS o
                    WHERE o.title = p.title AND o.what = p.what AND o.part = p.part
                ) < (SELECT count(*) FROM figure AS f WHERE f.title = p.title)
            ORDER BY id, what, at
        )
        GROUP BY id, what
    ),
    origin AS (
        SELECT f.id, o.text
        FROM figure AS f JOIN own AS o ON o.id = f.id AND o.what = 'foot'
        WHERE (SELECT count(*) FROM figure AS b WHERE b.title = f.title AND b.sub = f.sub) > 1
    ),
    datum AS (
        SELECT f.id, c.id AS c, p.id AS p, c.value ->> 'name' AS series,
            categories ->> CAST(p.value ->> 0 AS INTEGER) AS of_case, p.value ->> 0 AS x, p.value ->> 1 AS y,
            p.value ->> 2 AS low, p.value ->> 3 AS high,
            row_number() OVER (PARTITION BY f.id ORDER BY c.id, p.id) AS i
        FROM figure AS f, json_each(curves) AS c, json_each(c.value, '$.points') AS p
        ORDER BY f.id, c.id, p.id
    ),
    table_of AS (
        SELECT
            id,
            json_group_array(json_array(series, coalesce(of_case, digits(x, 6)), digits(y, 6), digits(low, 6),
                digits(high, 6))) FILTER (WHERE i <= 120) AS points,
            max(i) AS size,
            json_group_array(json_object('first', iif(i = 1, 'yes', ''), 'series', series, 'case', coalesce(of_case, ''),
                'numbers', json(iif(of_case IS NULL, json_array(digits(x, 17), digits(y, 17), digits(low, 17), digits(high, 17)),
                    json_array(digits(y, 17), digits(low, 17), digits(high, 17)))))) AS data
        FROM datum
        GROUP BY id
    )
SELECT
    name, title, sub, foot, caption, template AS kind, x, y, unit, log_x, log_y,
    title || coalesce(': ' || nullif(coalesce(own.text, '') || iif(own.text IS NULL OR origin.text IS NULL, '', ', ')
        || coalesce(origin.text, ''), ''), '') AS heading,
    title || ' (' || sub || coalesce(', ' || origin.text, '') || '), ' || json_array_length(curves) || ' series' AS alt,
    curves AS "series:json", categories AS "categories:json", styles AS "styles:json",
    json_array('series', iif(categories IS NULL, x, 'case'), iif(categories IS NULL, y, x)
        || iif(unit = 'bytes', ', bytes', ''), 'low', 'high') AS "heads:json",
    points AS "points:json", data AS "data:json", nullif(max(size - 120, 0), 0) AS more
FROM figure LEFT JOIN own ON own.id = figure.id AND own.what = 'sub' LEFT JOIN origin USING (id)
    LEFT JOIN table_of USING (id)
ORDER BY place, figure.id;

-- left_out
SELECT text
FROM (
    SELECT 0 AS o, 0 AS id, 'rows that failed a check, could not run or were interrupted: ' || count(*)
        || '; they are in the table' AS text
    FROM read
    WHERE NOT ok
    HAVING count(*) > 0
    UNION ALL
    SELECT 1 + coalesce(missing, 0), min(id), group_concat(name, ', ') || ': ' || why
    FROM (SELECT min(id) AS id, missing, name, why FROM reason GROUP BY missing, why, name ORDER BY 1)
    GROUP BY missing, why
    UNION ALL
    SELECT 3, 0, 'rows that fit no picture: ' || count(*) || '; they are in the table'
    FROM read
    WHERE ok AND at NOT IN (SELECT number FROM used)
    HAVING count(*) > 0
)
ORDER BY o, id;
