-- SPDX-License-Identifier: MIT
-- Functions that statements may use on every connection (store.sql). Made in C (results_query.c, results_numbers.c):
--   number_text(x): a number as its shortest text that reads back; a text is itself
--   list_text(x): a JSON list or map joined by '+', as in CSV; anything else as number_text
--   value_text(json): the value of a JSON text, as ls_value_text writes it
--   optimizer_shown(x): without values that are the optimizer's defaults
--   bytes_text(x): "1.5 MiB"; digits(x, n), decimals(x, n): a real with n significant digits, or n decimals, as C rounds it
--   escaped(x, as): a text for "line", "font", "markup", "markdown", "gnuplot" or "github" (escape.h)
--   wrapped(x, at, indent, width): lines of at most `width`; the first begins at column `at`
--   median(x): of the numbers of a group
--   ratio(a, low, high, b, low, high): a / b as {value, low, high, verdict} (JSON), with the interval of independent figures
--   levels(list), look(..), unpaired(..): the tests of bench/statistics
--   strategy_fact(name, what), link_fact(link, what), delay_ms(fault): see their heads
--   case_key(row, but): a text that is equal for rows of the same case (LS_BUT_.., row_same.h);
--   case_key(row, but, of): and of these parts of a machine (LS_OF_..)
--   machine_of(scope, row, of): the number of the row's machine (ls_row_machine) among those that were asked for with
--     this text; other_machine(row, other, of): the field in which two differ
--   same_but(row, other, common, field, ..): ls_row_same_but; same_case(row, other, but): in the fields that both have
--   row_text(row, path): the text that CSV has there; only of the groups that name a case, a machine or a result
--   row_figure(row, name): what follows from several fields, as the columns of `v` that store.sql lists
--   cell(row, path): what a table has of the row in the field's column; heading(path)
--   the collation NUMBERED: "cpu:2" before "cpu:10"
-- Each section below is one more: its arguments are ?1, ?2, .., its value the first of its result, or NULL. They read the
-- table of fields (store.sql).

-- field_fact: of the path ?1: what it identifies (bench/rows/fields.h); whether "less" is worse; the "list" of objects that
-- has the field; for "diff" whether `results diff` names it, NULL for an unknown path. A member of `case` that is not a
-- field is an option of another version.
SELECT CASE ?2
  WHEN 'case' THEN identifies & 8 != 0 WHEN 'blocks' THEN identifies & 1 != 0 WHEN 'repeats' THEN identifies & 4 != 0
  WHEN 'share' THEN identifies & 32 != 0 WHEN 'machine' THEN identifies & 112 != 0
  WHEN 'machine or label' THEN identifies & 2128 != 0
  WHEN 'follows' THEN shown & 128 != 0 WHEN 'kept' THEN shown & 1024 != 0 WHEN 'derived' THEN shown & 512 != 0
  WHEN 'diff' THEN iif(type IS NULL, NULL, shown & 256 != 0) WHEN 'less' THEN less WHEN 'list' THEN list
  WHEN 'place' THEN ifnull(nullif(shown & 255, 0), 127)
  WHEN 'order' THEN ifnull(nth, (SELECT count(nth) FROM field_table)) END
FROM (
  SELECT nth, type, list, ifnull(less, 0) AS less, ifnull(shown, 0) AS shown,
    ifnull(identifies, iif(?1 GLOB 'case.*', 8, 0)) AS identifies
  FROM (SELECT 1) LEFT JOIN field_table ON path = ?1);

-- key_found: how the name ?1, which a user gave, fits the paths: the best `fit`, how many fit so, the first ones, and the
-- first. 6: a heading; 5: the path, or an option; 4 to 2: its end, of a field of the row before one of what ran, and this
-- before one of a list; 1: near it: a path that has the name's last part, or begins like that.
WITH
wanted AS (SELECT name, substr(name, 1, max(3, length(name) - 3)) AS begin
  FROM (SELECT substr(?1, length(rtrim(?1, replace(?1, '.', ''))) + 1) AS name)),
fits AS (
  SELECT nth, path, CASE
    WHEN instr('|' || heading || '|', '|' || ?1 || '|') AND NOT instr(?1, '|') THEN 6
    WHEN path = ?1 OR path = 'case.' || replace(?1, '-', '_') THEN 5
    WHEN ?1 != '' AND substr(path, -1 - length(?1)) = '.' || ?1 AND NOT shown & 2048
      THEN iif(list IS NOT NULL AND NOT fullest, 2, iif(path GLOB 'provenance.*', 3, 4))
    WHEN name != '' AND (instr(path, name) OR (length(begin) > 2
      AND begin = substr(path, length(rtrim(path, replace(path, '.', ''))) + 1, length(begin)))) THEN 1
    ELSE 0 END AS fit
  FROM field_table, wanted WHERE nth IS NOT NULL)
SELECT json_object('fit', fit, 'n', count(*), 'nth', min(nth), 'path', path, 'list',
  group_concat(iif(place <= 8, path, NULL), ', ') || iif(count(*) > 8, ', ...', ''))
FROM (SELECT *, row_number() OVER (ORDER BY nth) AS place FROM fits WHERE fit = (SELECT max(fit) FROM fits) ORDER BY nth);

-- key_path: the path of the key ?1; NULL for an unknown one
SELECT iif(found ->> 'fit' >= 5 OR (found ->> 'fit' >= 2 AND found ->> 'n' = 1), found ->> 'path', NULL)
FROM (SELECT key_found(?1) AS found);

-- compared: the field ?1 as conditions and orders see it, in SQL
SELECT iif(type >= 4 OR (list IS NOT NULL AND NOT fullest), 'list_text("' || ?1 || '")', '"' || ?1 || '"')
FROM field_table WHERE path = ?1;

-- condition: whether the field ?1 is ?2 the value ?3, in SQL: 0 or 1 for each row. ?4: the value as a number; without it,
-- nothing for a field that has numbers. Numbers are compared exactly, integers with reals, too.
--   =  !=         equal, as numbers where both are, else as text. A field that a row does not have is the empty text.
--   > < >= <=     two numbers, or two texts by their bytes (timestamps). Between a number and a text, and for a field that
--                 a row does not have, never true.
--   ~             the field's text contains the value.
-- A list's text is its elements joined by '+'. yes and no equal a switch's true and false. An optimizer is equal to its
-- text without default values, too.
WITH one AS (
  SELECT compared(path) AS x, CASE WHEN path = 'case.optimizer' THEN printf('optimizer_shown("%s")', path)
    WHEN ifnull(type, 3) = 3 -- LS_TYPE_BOOL; a declared option may be a switch
      THEN printf('CASE "%s" WHEN ''true'' THEN ''yes'' WHEN ''false'' THEN ''no'' END', path) ELSE 'NULL' END AS other
  FROM field_table
  WHERE path = ?1 AND (?2 = '~' OR ?3 = '' OR ?4 IS NOT NULL OR NOT number OR (list IS NOT NULL AND NOT fullest)))
SELECT CASE WHEN ?2 = '~' THEN printf('coalesce(instr(number_text(%s), %Q) > 0, 0)', x, ?3)
  ELSE printf('CASE WHEN %s = %Q THEN %d ELSE ', other, ?3, ?2 IN ('>=', '<=', '=')) || CASE
    WHEN ?2 IN ('=', '!=')
      THEN printf('coalesce(%s, '''') %s IN (%Q%s)', x, iif(?2 = '=', '', 'NOT'), ?3, ifnull(', ' || ?4, ''))
    ELSE printf('coalesce(%s %s %s AND typeof(%s) %s ''text'', 0)', x, ?2, ifnull(?4, quote(?3)), x,
      iif(?4 IS NULL, '=', '!=')) END || ' END' END
FROM one;

-- since: the timestamp of an age ?1 before ?2, as 2d, or of a day or time (of another day if there is none such)
WITH units (unit, seconds) AS (VALUES ('s', 1), ('min', 60), ('h', 3600), ('d', 86400), ('w', 604800)),
ages AS (
  SELECT seconds, CAST(?1 AS INTEGER) AS n FROM units WHERE ?1 != unit AND ltrim(?1, '0123456789') = unit),
form (form) AS (VALUES ('%Y-%m-%dT%H:%M:%SZ'))
SELECT strftime(form, max(?2 - n * seconds, 0), 'unixepoch') AS stamp FROM ages, form WHERE n <= 1000000000
UNION ALL SELECT strftime(form, ?1) FROM form
WHERE length(?1) >= 10 AND substr(strftime(form, ?1, '+0 days'), 1, length(?1)) = ?1;

-- squeezed: ?1 cut in its middle to ?2 characters: names often differ at their ends
SELECT iif(length(x) <= ?2, x, substr(x, 1, ?2 - dots - tail) || substr('..', 1, dots) || iif(tail, substr(x, -tail), ''))
FROM (SELECT substr(ifnull(?1, ''), 1, 400) AS x, iif(?2 < 4, 0, 2) AS dots, iif(?2 < 6, 0, (?2 - 2) / 2) AS tail);

-- figure: the number ?1 in the unit ?2: "1.2 ms", "83%", "571,445"; "plain": four digits that a page can sort by
SELECT CASE ?2
  WHEN 'bytes' THEN bytes_text(?1)
  WHEN 'plain' THEN iif(abs(?1) >= 1000 AND ?1 < 1e10, decimals(?1, 0), digits(?1, 4))
  WHEN '%' THEN decimals(100 * ?1, 0) || '%'
  ELSE rtrim(CASE WHEN abs(?1) < 1000 THEN digits(?1, 3)
    WHEN abs(?1) < 1e15 THEN printf('%,d', CAST(decimals(?1, 0) AS INTEGER)) ELSE decimals(?1, 0) END || ' ' || ?2) END;

-- figure_text: nothing for what is not a number, or, with "plain", not above 0
SELECT figure(?1, ?2) WHERE typeof(?1) IN ('integer', 'real') AND (?2 != 'plain' OR ?1 > 0);

-- figure_text: "25,600 (25,347 to 25,859)" if the low bound ?3 is above 0
SELECT figure_text(?1, ?2) || iif(?3 + 0 > 0, ' (' || figure(?3, ?2) || ' to ' || figure(?4, ?2) || ')', '');

-- view_text: the text of the view `v`: with the columns ?1, that of a connection (`derived` of store.sql), else a file's.
-- Of SQLite alone (3.38 or newer), so that any SQLite program can use it. Numbers and texts are themselves, switches
-- 'true' and 'false', lists and maps JSON texts; NULL is what a row does not have. Of `memory.devices` a column has
-- the value of the fullest device; of another list of objects, the list of its elements' values. Elements that are not
-- objects, which a row made elsewhere may have, are left out: SQLite would end the whole query at them.
SELECT ifnull('CREATE TEMP VIEW v AS SELECT rowid AS number, row, ' || ?1,
    'CREATE VIEW v AS /* lockstep */ SELECT rowid AS number') || group_concat(',' || char(10) || CASE
    WHEN list IS NULL THEN printf(form, 'row', path, 'row', path)
    WHEN fullest THEN '(SELECT ' || printf(form, 'd.value', inside, 'd.value', inside)
      || printf(' FROM json_each(row->''$.%s'') AS d WHERE d.type=''object'''
      || ' ORDER BY json_extract(d.value,''$.peak'') DESC,d.key LIMIT 1)', list)
    ELSE printf('(SELECT ''[''||group_concat(d.value->''$.%s'')||'']'' FROM json_each(row->''$.%s'') AS d'
      || ' WHERE d.type=''object'')', inside, list) END || printf(' AS "%s"', path), '')
  || iif(?1 IS NULL, ' FROM rows', ' FROM main.rows')
FROM (
  SELECT *, substr(path, length(list) + 2) AS inside, CASE
    WHEN type >= 4 THEN 'nullif(%s->''$.%s'',''null'')' -- LS_TYPE_TEXTS, and the other lists and maps
    WHEN ifnull(type, 3) = 3 THEN 'CASE json_type(%s,''$.%s'') WHEN ''true'' THEN ''true'' WHEN ''false'' THEN ''false'''
      || ' ELSE json_extract(%s,''$.%s'') END' -- LS_TYPE_BOOL; a declared option may be one
    ELSE 'json_extract(%s,''$.%s'')' END AS form
  FROM field_table WHERE nth IS NOT NULL ORDER BY nth);
