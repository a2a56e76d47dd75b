-- SPDX-License-Identifier: MIT
-- What a report knows of its rows, made once, for its pictures and its page. A section begins after an empty line with
-- its name; {{..}} are places (bench/report/template.h).

-- read: a column for each field that some query names, and what follows from them; each row's text is read here only
CREATE TEMP TABLE read AS
WITH
    named AS MATERIALIZED (
        SELECT
            place AS at, number AS of, rate, rate_low, rate_high, pace, pace_low, pace_high, uneven, is_bad,
            is_predicted, is_noisy, is_candidate, id, timestamp,
            json_type(row, '$.case') IS 'object' AS is_ours, json_type(row, '$.micro') IS 'object' AS is_micro,
            json_type(row, '$.peer') IS 'object' AS is_peer, json_type(row, '$.provenance') IS 'object' AS has_origin,
            {{#against}}coalesce(list_text("{{{against}}}"), ''){{/against}}{{^against}}''{{/against}} AS raw,
            {{#fields}}"{{{.}}}", {{/fields}}
            substr(label, 1, 1000) AS label, command
        FROM s
        ORDER BY place
    ),
    counted AS (
        SELECT
            at,
            coalesce(
                nullif(
                    (
                        SELECT count(*)
                        FROM json_each("case.batch_per_device")
                        WHERE value > 0 AND type IN ('integer', 'real')
                    ),
                    0
                ),
                json_array_length("case.devices"),
                0
            ) AS devices,
            (
                SELECT total(value)
                FROM json_each("provenance.cores_per_device")
                WHERE type IN ('integer', 'real')
            ) AS cores,
            nullif("provenance.isa", '') AS isa,
            substr(coalesce(nullif("provenance.commit", ''), 'unknown'), 1, 40) AS whole,
            iif("provenance.dirty" = 'true', '+changes', '') AS changes,
            coalesce(nullif("case.link", ''), "prediction.platform") AS wire,
            substr(
                CASE
                    WHEN '{{{against}}}' = 'provenance.commit'
                        THEN substr(coalesce(nullif(raw, ''), 'unknown'), 1, 7) || iif("provenance.dirty" = 'true', '+changes', '')
                    WHEN raw IN ('true', 'false') THEN iif(raw = 'true', 'yes', 'no')
                    ELSE raw
                END,
                1,
                290
            ) AS value
        FROM named
    )
SELECT
    at,
    coalesce("micro.wrong", 0) <= 0
    AND ("result.status" = 'ok' OR (is_micro AND coalesce("result.status", '') = '')) IS TRUE AS ok,
    coalesce(iif(is_peer, "peer.what", "case.strategy"), '') AS strategy,
    -- two threads of a peer's device use two cores
    iif(is_peer AND cores > devices, cores, devices) AS trainers,
    rate_low / rate AS below,
    rate_high / rate AS above,
    NOT is_peer AND devices > 1 AS lone,
    dense_rank() OVER (ORDER BY "case.model", "case.data", "case.strategy", "case.reduce") AS class,
    iif(is_peer, -1, iif(is_micro, 1000, strategy_fact("case.strategy", 'place'))) AS style,
    NULL AS of_mirrored,
    delay_ms("case.inject") AS delay,
    link_fact(wire, 'MB/s') AS bandwidth,
    link_fact(wire, 'us') AS latency,
    coalesce(iif("micro.time_us" > 0, 1 / "micro.time_us", rate), 0) AS speed,
    CASE
        WHEN coalesce("equivalence.grade", '') = '' THEN 'not compared'
        WHEN "equivalence.pass" = 'false' THEN 'FAILED'
        WHEN "equivalence.grade" != 'none' THEN "equivalence.grade"
        WHEN is_candidate THEN 'not compared'
        ELSE 'not equivalent'
    END AS gate,
    substr(whole, 1, 7) || changes AS short_commit,
    substr(whole, 1, 12) || changes AS "commit",
    whole || changes AS whole_commit,
    substr(
        coalesce("provenance.cpu", '')
        || coalesce(
            ' (' || isa || coalesce(', loops ' || nullif("provenance.loops_isa", ''), '')
            || coalesce(', library ' || nullif("provenance.library_isa", ''), '') || ')',
            ''
        )
        || coalesce(', ' || nullif("provenance.gpu", ''), '')
        || coalesce(', host ' || nullif("provenance.host", ''), '')
        || coalesce(
            (
                SELECT group_concat(', ' || key || '=' || iif(type = 'text', value, ''), '')
                FROM json_each("provenance.environment")
            ),
            ''
        ),
        1,
        1000
    ) AS origin,
    0 AS machine,
    0 AS apart,
    value,
    -- every name begins with the strategy
    iif('{{{against}}}' IN ('', 'case.strategy'), '', ', ' || substr(value, 1, 127)) AS against,
    named.*
FROM named JOIN counted USING (at)
ORDER BY at;
CREATE UNIQUE INDEX temp.read_at ON read (at);
DROP VIEW temp.s;
CREATE TEMP VIEW s AS SELECT at AS place, of AS number, read.*, (SELECT row FROM main.rows WHERE rowid = of) AS row
FROM temp.read;
UPDATE read SET machine = machine_of('', (SELECT row FROM main.rows WHERE rowid = of), 80) WHERE ok; -- LS_OF_CLASS, LS_OF_HOST
UPDATE read SET apart = machine
WHERE NOT field_fact('{{{against}}}', 'machine or label')
    OR EXISTS (SELECT 1 FROM read WHERE ok GROUP BY value HAVING count(DISTINCT machine) > 1);
-- What shares of state save and cost: memory and step, with bounds, over those of the row of `mirrored` beside it.
UPDATE read SET of_mirrored = (
    SELECT
        '[' || number_text(read."memory.devices.peak" * 1.0 / m."memory.devices.peak") || ','
        || number_text(coalesce(read.pace / m.pace, 0.0)) || ','
        || number_text(coalesce(
            read.pace / m.pace * exp(-sqrt(pow(ln(read.pace / read.pace_low), 2) + pow(ln(m.pace_high / m.pace), 2))), 0.0
        )) || ','
        || number_text(coalesce(
            read.pace / m.pace * exp(sqrt(pow(ln(read.pace_high / read.pace), 2) + pow(ln(m.pace / m.pace_low), 2))), 0.0
        )) || ']'
    FROM (SELECT *, 2 * coalesce(pace > 0, 0) + ("case.bucket_bytes" IS read."case.bucket_bytes") AS fit FROM read AS x) AS m
    WHERE m."case.strategy" = 'mirrored' AND m."case.model" = read."case.model" AND m."memory.devices.peak" > 0
        AND same_but(
            (SELECT row FROM main.rows WHERE rowid = read.of), (SELECT row FROM main.rows WHERE rowid = m.of),
            1, 'strategy', 'allreduce', 'bucket_bytes', 'overlap'
        )
    ORDER BY m.fit DESC, m.at DESC
    LIMIT 1
)
WHERE "case.zero_stage" IS NOT NULL AND "case.hybrid_outer" IS NULL AND "memory.devices.peak" > 0;

-- parts: of a step's time, and of the memory of the fullest device; each begins at `low` above those before it
CREATE TEMP TABLE parts AS
SELECT number, kind, k, part, y, coalesce(y, 0) AS size,
    total(y) OVER (PARTITION BY number, kind ORDER BY k ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) AS low,
    first_value(y) OVER (PARTITION BY number, kind ORDER BY k) >= 0 AS known
FROM (
    SELECT at AS number, column1 AS kind, column2 AS k, column3 AS part, CASE column1 || column2
        WHEN 'time1' THEN "waterfall.compute_ms" WHEN 'time2' THEN "waterfall.optimizer_ms"
        WHEN 'time3' THEN "waterfall.comm_exposed_ms" WHEN 'time4' THEN "waterfall.wait_ms"
        WHEN 'time5' THEN "waterfall.copy_ms" WHEN 'time6' THEN "waterfall.harness_ms"
        WHEN 'memory1' THEN "memory.devices.parameters" WHEN 'memory2' THEN "memory.devices.gradients"
        WHEN 'memory3' THEN "memory.devices.optimizer" WHEN 'memory4' THEN "memory.devices.activations"
        WHEN 'memory5' THEN "memory.devices.communication" ELSE "memory.devices.workspace" END AS y
    FROM read, (VALUES ('time', 1, 'compute'), ('time', 2, 'optimizer'), ('time', 3, 'communication'),
        ('time', 4, 'wait'), ('time', 5, 'copy'), ('time', 6, 'harness'), ('memory', 1, 'parameters'),
        ('memory', 2, 'gradients'), ('memory', 3, 'optimizer'), ('memory', 4, 'activations'),
        ('memory', 5, 'communication'), ('memory', 6, 'workspace'))
);
CREATE INDEX temp.parts_number ON parts (number, kind);
CREATE TEMP VIEW positive AS SELECT * FROM parts WHERE y > 0 AND typeof(y) IN ('integer', 'real');

-- losses: of some 50 batches of each row; not of steps whose numbers an axis cannot tell apart
CREATE TEMP TABLE losses AS
SELECT number, e.key + before AS step, e.value AS loss
FROM (SELECT at AS number, coalesce("case.warmup", 0) AS before, "train.losses" AS list, json_array_length("train.losses") AS size FROM read),
    json_each(list) AS e
WHERE e.type IN ('real', 'integer') AND (e.key % (size / 50 + 1) = 0 OR e.key + 1 = size)
    AND e.key + before <= 9007199254740992;
CREATE INDEX temp.losses_number ON losses (number);

-- lateness: the share of a row's gradients that were late by so many updates, or steps ahead of the slowest worker
CREATE TEMP TABLE lateness AS
SELECT number, kind, e.key AS late, e.value / total(e.value) OVER (PARTITION BY number, kind) AS share
FROM (SELECT at AS number, 'staleness' AS kind, "staleness.histogram" AS list FROM read
        UNION ALL SELECT at, 'lead', "lead.histogram" FROM read),
    json_each(list) AS e;

-- members: what identifies the case and the machine of each row (row_same.h), without what all rows have alike; and
-- the cores of a device where these are alike
CREATE TEMP TABLE member (number INTEGER, path TEXT, value, PRIMARY KEY (number, path)) WITHOUT ROWID;
INSERT INTO member
SELECT read.at, m.key, CASE m.type WHEN 'true' THEN 'yes' WHEN 'false' THEN 'no' ELSE m.value END
FROM read, json_each(case_key((SELECT row FROM main.rows WHERE rowid = read.of), 0, 112)) AS both, json_each(both.value) AS m
UNION ALL
SELECT
    at,
    'cores_per_device',
    iif((SELECT count(DISTINCT value) FROM json_each("provenance.cores_per_device")) > 1,
        "provenance.cores_per_device",
        json_extract("provenance.cores_per_device", '$[0]'))
FROM read
WHERE NOT is_peer AND json_array_length("provenance.cores_per_device") > 0;
DELETE FROM member
WHERE path IN (
    SELECT path
    FROM member
    GROUP BY path
    HAVING min(value) IS max(value) AND count(value) = (SELECT count(*) FROM read)
);

-- options: `told` are those that names may have, `divided` those of them that say how work is divided
CREATE TEMP TABLE option AS
SELECT
    path,
    iif(path LIKE 'case.%', substr(path, 6), path) AS name,
    field_fact(path, 'case') AND path != 'cores_per_device' AS is_case,
    field_fact(path, 'case') AND NOT field_fact(path, 'blocks') OR field_fact(path, 'share') AS is_merged,
    field_fact(path, 'case') AND NOT field_fact(path, 'repeats') OR field_fact(path, 'machine') AS is_set_apart,
    field_fact(path, 'follows') AS follows,
    CASE path WHEN 'cores_per_device' THEN 1000 WHEN 'case.hosts' THEN 999 ELSE field_fact(path, 'place') END * 1000
        + field_fact(path, 'order') AS place,
    field_fact(path, 'order') AS rank,
    path = 'cores_per_device'
    OR (path LIKE 'case.%' AND (path = 'case.hosts' OR NOT field_fact(path, 'derived'))
        AND NOT field_fact(path, 'repeats') AND path NOT IN ('case.strategy', 'case.devices')) AS told,
    path IN ('case.model', 'case.ranks', 'case.hosts', 'case.scaling', 'case.batch_global', 'case.reduce',
        'case.micro_shards', 'case.micro_splits', 'case.allreduce', 'case.bucket_bytes', 'case.model_parallel_place',
        'case.variable_device', 'case.comm', 'case.memory') AS divided
FROM (SELECT DISTINCT path FROM member);
CREATE TEMP TABLE word (number INTEGER, path TEXT, value, PRIMARY KEY (number, path)) WITHOUT ROWID;
INSERT INTO word SELECT number, path, value FROM member JOIN option USING (path) WHERE told AND value IS NOT NULL;
-- rows that nothing tells apart but what was measured have one name: that of the first of them
CREATE TEMP TABLE twin AS
SELECT
    at AS number,
    min(at) OVER (PARTITION BY strategy, class, trainers, "case.reduce", is_peer, is_predicted, (
        SELECT group_concat(path || char(31) || value, char(30)) FROM word WHERE number = at
    )) AS first
FROM read;
CREATE UNIQUE INDEX temp.twin_number ON twin (number);

-- differing: in which fields the rows of one group in `same` differ
CREATE TEMP TABLE same (g, number);
CREATE TEMP VIEW differing AS
SELECT g, path, size, rank
FROM
    (
        SELECT g, path, count(*) AS has, count(value) AS known, min(value) AS least, max(value) AS most
        FROM same JOIN member USING (number)
        GROUP BY g, path
    )
    JOIN option USING (path)
    JOIN (SELECT g, count(*) AS size FROM same GROUP BY g) USING (g)
WHERE is_merged AND (least IS NOT most OR known BETWEEN 1 AND has - 1 OR (is_case AND has < size));

-- naming: `INSERT INTO naming VALUES (PATH)` names the rows in `asked`, which stand beside each other in lists, so that
-- their cases are told apart, but for the option at the path: "ps async staleness=2" (case.strategy: "async .."). Options of how work is divided are
-- compared between rows of one strategy with as many devices (and the same x), others between any rows. If `reduce`
-- differs, the rest follows. What most rows have is not said, unless saying nothing would mean that there is none.
CREATE TEMP TABLE asked (list, number, x);
CREATE TEMP VIEW pooled AS SELECT * FROM s WHERE place IN (SELECT number FROM asked);
CREATE TEMP TABLE named (number, list, name);
CREATE TEMP TABLE beside (kind, part, list, number, strategy, class, lone, twins);
CREATE INDEX temp.beside_list ON beside (list, kind, strategy);
CREATE TEMP TABLE varied (kind, part, list, strategy, path);
CREATE TEMP TABLE said (list, strategy, path, everywhere, common);
CREATE TEMP TABLE naming (but);
CREATE TEMP TRIGGER name_rows AFTER INSERT ON naming BEGIN
DELETE FROM beside;
DELETE FROM varied;
DELETE FROM said;
DELETE FROM named;
INSERT INTO beside
SELECT
    column1,
    CASE column1
        WHEN 1 THEN json_array(1, list, strategy, trainers, x)
        WHEN 2 THEN json_array(2, list, strategy, trainers, x, "case.reduce")
        ELSE json_array(3, list, x)
    END,
    list, first, strategy, class, lone, twins
FROM (SELECT list, first, x, count(*) AS twins FROM asked JOIN twin USING (number) GROUP BY list, first, x)
    JOIN read ON at = first, (VALUES (1), (2), (3));
INSERT INTO varied
SELECT kind, part, list, strategy, path
FROM
    (
        SELECT
            kind, part, list, strategy, path, min(least) AS least, max(most) AS most, max(has < n) AS lacking,
            sum(lonely) AS lonely
        FROM
            (
                SELECT
                    kind, part, class, min(list) AS list, min(strategy) AS strategy, path, count(*) AS has,
                    min(value) AS least, max(value) AS most, sum(lone) AS lonely
                FROM beside JOIN word USING (number) JOIN option USING (path)
                WHERE kind < 3 OR NOT divided
                GROUP BY part, class, path
            )
            JOIN (SELECT part, class, count(*) AS n FROM beside GROUP BY part, class) USING (part, class)
        GROUP BY part, path
    )
    JOIN (SELECT part, sum(lone) AS lone FROM beside GROUP BY part) USING (part)
WHERE
    path IS NOT new.but
    AND (
        least != most
        OR (lacking AND path != 'cores_per_device')
        OR (path IN ('case.link', 'case.inject') AND lonely < lone)
    );
DELETE FROM varied
WHERE
    kind = 1 AND path NOT IN ('case.reduce', 'cores_per_device')
    AND part IN (SELECT part FROM varied WHERE kind = 1 AND path = 'case.reduce');
-- An option that by default follows from others says something only where these do not tell it.
DELETE FROM varied
WHERE
    kind < 3 AND path IN (SELECT path FROM option WHERE follows)
    AND (part, path) NOT IN (
        SELECT part, path
        FROM (
            SELECT f.part, f.path, coalesce(w.value, '') AS value, (
                SELECT json_group_array(json_array(o.path, v.value))
                FROM varied AS o JOIN option AS p USING (path) JOIN word AS v USING (path)
                WHERE o.part = f.part AND v.number = b.number
                    AND (NOT p.follows OR p.place < mine.place)
            ) AS others
            FROM varied AS f JOIN option AS mine USING (path) JOIN beside AS b ON b.part = f.part
                LEFT JOIN word AS w ON w.number = b.number AND w.path = f.path
            WHERE f.kind < 3 AND mine.follows
        )
        GROUP BY part, path, others
        HAVING min(value) != max(value)
    );
INSERT INTO said
SELECT list, strategy, path, max(everywhere), NULL
FROM (
    SELECT list, strategy, path, 0 AS everywhere FROM varied WHERE kind < 3
    UNION ALL
    SELECT f.list, b.strategy, path, 1
    FROM varied AS f JOIN (SELECT DISTINCT list, strategy FROM beside) AS b USING (list)
    WHERE kind = 3
)
GROUP BY list, strategy, path;
UPDATE said SET common = (
    SELECT value
    FROM (
        SELECT
            w.value, sum(twins) AS c, sum(sum(twins * NOT is_peer)) OVER () AS ours,
            (
                SELECT json_array(total(twins), total(twins * NOT is_peer))
                FROM beside AS b JOIN read ON at = b.number
                WHERE b.list = said.list AND b.kind = 3 AND (everywhere OR b.strategy = said.strategy)
            ) AS sizes
        FROM beside AS b JOIN word AS w USING (number) JOIN read ON at = b.number
        WHERE b.list = said.list AND b.kind = 3 AND (everywhere OR b.strategy = said.strategy) AND w.path = said.path
        GROUP BY w.value
    )
    WHERE
        2 * c > sizes ->> 0
        AND (ours >= sizes ->> 1 OR NOT (everywhere OR path IN ('case.link', 'case.inject')))
);
INSERT INTO named
WITH first_of AS (SELECT DISTINCT list, first FROM asked JOIN twin USING (number)),
told AS MATERIALIZED (SELECT list, first, substr(
    iif(new.but IS 'case.strategy', '', strategy) || iif(is_predicted, ' (predicted)', '') || coalesce(
        (
            SELECT group_concat(' ' || iif(alone, text, substr(name, own + 1) || '=' || text), '')
            FROM (
                SELECT *, is_word OR name IN ('inject', 'link') AS alone
                FROM (
                    SELECT
                        *, text GLOB '*[^0-9.-]*' AND ((own AND text NOT IN ('yes', 'no')) OR name = 'reduce') AS is_word
                    FROM (
                        SELECT
                            option.name, place, path, value, common, list_text(value) AS text,
                            iif(substr(option.name, 1, length(strategy) + 1) = replace(strategy, '-', '_') || '_',
                                length(strategy) + 1,
                                0) AS own
                        FROM said JOIN word USING (path) JOIN option USING (path)
                        WHERE
                            said.list = first_of.list AND said.strategy = read.strategy AND word.number = first_of.first
                    )
                )
                WHERE text != '' AND iif(own, text != '0', value IS NOT common)
                ORDER BY is_word DESC, place
            )
        ),
        ''
    ), 1, 280) AS name
FROM first_of JOIN read ON at = first)
SELECT number, list, name FROM asked JOIN twin USING (number) JOIN told USING (list, first);
END;

-- names: where only these are asked for
{{#names}}
INSERT INTO asked SELECT 0, at, "case.model" FROM read;
INSERT INTO naming VALUES (NULL);
SELECT name || iif(min(trainers) OVER () = max(trainers) OVER (), '', printf(' on %g', trainers)) AS name
FROM named JOIN read ON at = number
ORDER BY at;
{{/names}}
