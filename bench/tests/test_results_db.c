/* SPDX-License-Identifier: MIT */
/*
 * Results database: rows come back as they were put, from several processes at once; what is not
 * ours, or cannot be written, is refused in a line and left as it is. Killed processes:
 * test_results_kills.c.
 */
#include "bench/output/results_db.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { PATH_SIZE = 512, FILE_SIZE = 65536, WRITERS = 3, ROWS_EACH = 15 };

static char folder[PATH_SIZE - 64];

static char *in_folder(const char *name, char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/lockstep-results-XXXXXX", base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[PATH_SIZE];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static json_t *new_row(const char *id)
{
    return json_pack("{s:i,s:s,s:s,s:{s:s,s:f},s:{s:s}}", "schema", 1, "id", id, "timestamp",
                     "2026-11-21T05:17:00Z", "case", "model", "mlp", "lr", 0.1, "result", "status",
                     "ok");
}

static void assert_ok(ls_status status)
{
    if (status)
        fail_msg("%s", ls_status_text(status));
}

static ls_results *open_results(const char *path)
{
    ls_results *results;
    assert_ok(ls_results_open(path, true, &results));
    return results;
}

static void append(ls_results *results, const char *id)
{
    json_t *row = new_row(id);
    assert_ok(ls_results_append(results, row));
    json_decref(row);
}

/* Refused with this code, in a line that names the file and says `why`. */
static void assert_refused(ls_status status, ls_code code, const char *path, const char *why)
{
    assert_non_null(status);
    const char *text = ls_status_text(status);
    if (ls_status_code(status) != code || !strstr(text, path) || !strstr(text, why) ||
        strchr(text, '\n'))
        fail_msg("%d: %s", (int)ls_status_code(status), text);
    ls_status_free(status);
}

static void assert_open_refused(const char *path, const char *why)
{
    ls_results *results = NULL;
    assert_refused(ls_results_open(path, true, &results), LS_CODE_MISSING, path, why);
    assert_null(results);
    assert_refused(ls_results_open(path, false, &results), LS_CODE_MISSING, path, why);
    assert_null(results);
}

static ls_status collect(void *context, int64_t number, const json_t *row)
{
    (void)number;
    json_array_append(context, (json_t *)(size_t)row);
    return LS_OK;
}

static json_t *all_rows(const char *path)
{
    ls_results *results;
    json_t *rows = json_array();
    assert_ok(ls_results_open(path, false, &results));
    assert_ok(ls_results_each(results, LS_ROWS_WHOLE, collect, rows));
    ls_results_close(results);
    return rows;
}

static size_t read_whole(const char *path, uint8_t bytes[FILE_SIZE])
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, FILE_SIZE, file);
    fclose(file);
    return size;
}

static void rows_come_back(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    in_folder("rows.db", path);
    ls_results *results = open_results(path);
    json_t *first = new_row("20261121T051700Z-aa"), *found;
    assert_ok(ls_results_append(results, first));
    append(results, "20261121T051700Z-ab");
    append(results, "20261121T051700Z-abc");
    assert_ok(ls_results_find(results, "20261121T051700Z-aa", &found));
    assert_true(json_equal(found, first));
    json_decref(found);
    assert_ok(ls_results_find(results, "20261121T051700Z-ab", &found)); /* whole, and a prefix */
    json_decref(found);
    assert_refused(ls_results_find(results, "2026", &found), LS_CODE_USAGE, "2026", "several");
    assert_refused(ls_results_find(results, "2027", &found), LS_CODE_MISSING, "2027", "not in");
    assert_refused(ls_results_find(results, "", &found), LS_CODE_USAGE, "''", "empty");
    assert_refused(ls_results_append(results, first), LS_CODE_MISSING, path, "UNIQUE");
    assert_refused(ls_results_append(NULL, first), LS_CODE_MISSING, "none", "no open file");
    json_t *nameless = json_object();
    assert_refused(ls_results_append(results, nameless), LS_CODE_MISSING, path, "without an id");
    json_decref(nameless);
    ls_results_close(results);
    ls_results_close(NULL);
    json_t *rows = all_rows(path);
    assert_int_equal(json_array_size(rows), 3);
    assert_true(json_equal(json_array_get(rows, 0), first));
    json_decref(rows);
    json_decref(first);
}

static ls_status stop_at_first(void *context, int64_t number, const json_t *row)
{
    (void)number;
    (void)row;
    ++*(int *)context;
    return ls_fail(LS_CODE_CHECK, "visit", NULL, "stopped");
}

static void a_failing_visit_stops(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    int visited = 0;
    ls_results *results = open_results(in_folder("stop.db", path));
    append(results, "a");
    append(results, "b");
    assert_refused(ls_results_each(results, LS_ROWS_WHOLE, stop_at_first, &visited), LS_CODE_CHECK,
                   "visit", "stopped");
    assert_int_equal(visited, 1);
    ls_results_close(results);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* The header's read and write versions are 1 in a file with a rollback journal; a file of WAL mode,
 * which does not work on network file systems, leaves it when it is written, and keeps its rows. */
static void the_journal_is_rolled_back(void **state)
{
    (void)state;
    static uint8_t bytes[FILE_SIZE];
    char path[PATH_SIZE], log[PATH_SIZE];
    in_folder("journal.db", path);
    for (int old = 0; old < 2; old++) {
        if (old)
            run_sql(path, "PRAGMA journal_mode = WAL");
        ls_results *results = open_results(path);
        append(results, old ? "b" : "a");
        assert_int_equal(access(in_folder("journal.db-wal", log), F_OK), -1);
        assert_true(read_whole(path, bytes) >= 100);
        assert_int_equal(bytes[18], 1);
        assert_int_equal(bytes[19], 1);
        ls_results_close(results);
    }
    json_t *rows = all_rows(path);
    assert_int_equal(json_array_size(rows), 2);
    json_decref(rows);
}

static ls_status write_meanwhile(void *context, int64_t number, const json_t *row)
{
    (void)number;
    char id[32];
    ls_results *other = open_results(context);
    snprintf(id, sizeof id, "%s+", json_string_value(json_object_get(row, "id")));
    if (strlen(id) < 5) /* each brings a few */
        append(other, id);
    ls_results_close(other);
    return LS_OK;
}

/* Who looks at a row, for however long, keeps no other from writing. */
static void a_reader_holds_no_lock(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    ls_results *results = open_results(in_folder("read.db", path));
    append(results, "a");
    append(results, "b");
    assert_ok(ls_results_each(results, LS_ROWS_WHOLE, write_meanwhile, path));
    ls_results_close(results);
    json_t *rows = all_rows(path);
    assert_true(json_array_size(rows) >= 4);
    json_decref(rows);
}

/* More rows than are read at once, some of them gone: each comes once, in order. */
static void all_rows_are_read(void **state)
{
    (void)state;
    char path[PATH_SIZE], id[32];
    enum { COUNT = 150 };
    ls_results *results = open_results(in_folder("many.db", path));
    for (int i = 0; i < COUNT; i++) {
        snprintf(id, sizeof id, "r%03d", i);
        append(results, id);
    }
    ls_results_close(results);
    run_sql(path, "DELETE FROM rows WHERE id LIKE 'r_3_'");
    json_t *rows = all_rows(path);
    assert_int_equal(json_array_size(rows), COUNT - 20);
    for (size_t i = 1; i < json_array_size(rows); i++)
        assert_true(strcmp(json_string_value(json_object_get(json_array_get(rows, i - 1), "id")),
                           json_string_value(json_object_get(json_array_get(rows, i), "id"))) < 0);
    json_decref(rows);
}

static void an_empty_file_becomes_one(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    close(open(in_folder("empty.db", path), O_CREAT | O_WRONLY, 0666));
    ls_results *results;
    assert_refused(ls_results_open(path, false, &results), LS_CODE_MISSING, path, "empty");
    results = open_results(path);
    append(results, "a");
    ls_results_close(results);
    json_t *rows = all_rows(path);
    assert_int_equal(json_array_size(rows), 1);
    json_decref(rows);
}

/* Refused, the file the same to the byte, and nothing new beside it. */
static void assert_left_alone(const char *path, const char *why)
{
    static uint8_t before[FILE_SIZE], after[FILE_SIZE];
    char beside[PATH_SIZE + 16];
    size_t size = read_whole(path, before);
    assert_open_refused(path, why);
    assert_int_equal(read_whole(path, after), size);
    assert_memory_equal(before, after, size);
    const char *const endings[] = {"-wal", "-shm", "-journal"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(beside, sizeof beside, "%s%s", path, endings[i]);
        assert_int_equal(access(beside, F_OK), -1);
    }
}

static void foreign_files_are_left_alone(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    run_sql(in_folder("foreign.db", path), "CREATE TABLE rows (id TEXT); INSERT INTO rows VALUES "
                                           "('theirs')");
    assert_left_alone(path, "another program");
    run_sql(in_folder("marked.db", path), "PRAGMA application_id = 7; PRAGMA journal_mode = WAL;"
                                          "CREATE TABLE other (id TEXT)");
    assert_left_alone(path, "another program");
    FILE *text = fopen(in_folder("notes.txt", path), "w");
    for (int i = 0; i < 50; i++)
        fputs("notes of a user\n", text);
    fclose(text);
    assert_left_alone(path, "no SQLite database");
    text = fopen(in_folder("short", path), "w");
    fputs("SQLite format 3", text);
    fclose(text);
    assert_left_alone(path, "no SQLite database");
}

static void newer_and_damaged_files_are_left_alone(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    ls_results *results = open_results(in_folder("newer.db", path));
    append(results, "a");
    ls_results_close(results);
    run_sql(path, "PRAGMA user_version = 4");
    assert_left_alone(path, "schema 4");
    results = open_results(in_folder("damaged.db", path));
    append(results, "a");
    ls_results_close(results);
    int file = open(path, O_WRONLY);
    static const uint8_t garbage[400] = {0x5a, 0xff, 0x17};
    assert_int_equal(pwrite(file, garbage, sizeof garbage, 100), sizeof garbage);
    close(file);
    assert_open_refused(path, "damaged");
    results = open_results(in_folder("tableless.db", path));
    ls_results_close(results);
    run_sql(path, "DROP TABLE rows");
    assert_open_refused(path, "damaged");
}

/* What older versions wrote: read as it is, without a change; and then written, which brings it up
 * to date with all its rows. */
static void bring_up_to_date(const char *name, const char *older)
{
    static uint8_t before[FILE_SIZE], after[FILE_SIZE];
    char path[PATH_SIZE];
    ls_results *results = open_results(in_folder(name, path));
    append(results, "a");
    append(results, "b");
    ls_results_close(results);
    json_t *rows = all_rows(path), *brief = json_array();
    run_sql(path, older);
    const size_t size = read_whole(path, before);
    json_t *same = all_rows(path);
    assert_true(json_equal(rows, same));
    assert_int_equal(read_whole(path, after), size);
    assert_memory_equal(before, after, size);
    results = open_results(path);
    append(results, "c");
    assert_ok(ls_results_each(results, LS_ROWS_BRIEF, collect, brief));
    assert_int_equal(json_array_size(brief), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_array_get(brief, i);
        assert_null(json_object_get(one, "schema"));
        assert_true(i == 2 || json_equal(json_object_get(one, "case"),
                                         json_object_get(json_array_get(rows, i), "case")));
    }
    json_decref(brief);
    ls_results_close(results);
    run_sql(path, "DELETE FROM rows WHERE id = 'b'"); /* by a person: lists do not show it */
    assert_ok(ls_results_open(path, false, &results));
    brief = json_array();
    assert_ok(ls_results_each(results, LS_ROWS_BRIEF, collect, brief));
    assert_int_equal(json_array_size(brief), 2);
    ls_results_close(results);
    json_decref(brief);
    json_decref(same);
    json_decref(rows);
}

static void an_older_file_is_brought_up_to_date(void **state)
{
    (void)state;
    bring_up_to_date("older1.db", "DROP TABLE briefs; PRAGMA user_version = 1");
    bring_up_to_date(
        "older2.db",
        "DROP TABLE briefs; CREATE TABLE briefs (number INTEGER PRIMARY KEY, id TEXT, timestamp "
        "TEXT, label TEXT, model TEXT, strategy TEXT, devices TEXT, status TEXT, reason TEXT, "
        "step_ms REAL, samples_per_s REAL); INSERT INTO briefs (number, id) SELECT rowid, id FROM "
        "rows; PRAGMA user_version = 2");
}

/* A file that has our mark, and under the name of our table what is not it: a view may have no end,
 * and a trigger do anything. */
static void other_tables_are_refused(void **state)
{
    (void)state;
    static const char endless_view[] =
        "DROP TABLE rows; CREATE VIEW rows AS WITH RECURSIVE r (id, row, rowid) AS (SELECT '1', "
        "'{}', 1 UNION ALL SELECT id, row, rowid + 1 FROM r) SELECT * FROM r";
    static const char *const changes[] = {
        endless_view,
        "DROP TABLE rows; CREATE TABLE rows (id TEXT, row TEXT)",
        "CREATE TRIGGER t AFTER INSERT ON rows BEGIN DELETE FROM rows; END",
        "ALTER TABLE rows ADD COLUMN more TEXT",
        "DROP TABLE briefs; CREATE VIEW briefs AS SELECT rowid AS number, id FROM rows",
    };
    char path[PATH_SIZE], name[32];
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        snprintf(name, sizeof name, "changed%zu.db", i);
        ls_results_close(open_results(in_folder(name, path)));
        run_sql(path, changes[i]);
        assert_left_alone(path, "the tables of its schema");
    }
    ls_results_close(open_results(in_folder("indexed.db", path)));
    run_sql(path, "CREATE INDEX i ON rows (model); CREATE VIEW mine AS SELECT id FROM rows");
    ls_results *results = open_results(path); /* what a user adds for queries is no harm */
    append(results, "a");
    ls_results_close(results);
}

static void places_that_hold_no_file_are_refused(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    ls_results *results;
    assert_open_refused(folder, "is a folder");
    assert_open_refused("/dev/full", "no regular file");
    close(open(in_folder("plain", path), O_CREAT | O_WRONLY, 0666));
    assert_open_refused(in_folder("plain/rows.db", path), "Not a directory");
    assert_refused(ls_results_open(in_folder("missing.db", path), false, &results), LS_CODE_MISSING,
                   path, "no such file");
    assert_open_refused(in_folder("a/rows.db", path), "a/rows.db");
    assert_refused(ls_results_open(path, true, &results), LS_CODE_MISSING, path, "make it");
    assert_int_equal(access(in_folder("a", path), F_OK), -1);
    assert_int_equal(chdir(folder), 0);
    ls_results_close(open_results(LS_RESULTS_DEFAULT)); /* its folder alone is made */
    assert_open_refused("/proc/self/lockstep.db", "/proc/self/lockstep.db"); /* no place for it */
}

/* Files of this process cannot grow past 64 KiB: as on a disk that is full. */
static void a_full_disk_is_reported(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    in_folder("full.db", path);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        ls_results *results;
        ls_status status = ls_results_open(path, true, &results);
        const struct rlimit limit = {65536, 65536};
        setrlimit(RLIMIT_FSIZE, &limit);
        for (int i = 0; !status && i < 1000; i++) {
            char id[32];
            snprintf(id, sizeof id, "row%d", i);
            json_t *row = new_row(id);
            status = ls_results_append(results, row);
            json_decref(row);
        }
        bool refused = status && strstr(ls_status_text(status), path);
        _exit(refused && ls_status_code(status) == LS_CODE_MISSING ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    json_t *rows = all_rows(path);
    assert_true(json_array_size(rows) > 0);
    json_decref(rows);
}

static void write_rows(const char *path, int writer, int count)
{
    ls_results *results;
    if (ls_results_open(path, true, &results))
        _exit(2);
    for (int i = 0; i < count; i++) {
        char id[32];
        snprintf(id, sizeof id, "w%d-%d", writer, i);
        json_t *row = new_row(id);
        if (ls_results_append(results, row))
            _exit(3);
        usleep(1000); /* a job does something else between its rows, and lets others in */
        json_decref(row);
    }
}

static void writers_at_once_lose_nothing(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    pid_t children[WRITERS];
    in_folder("shared.db", path);
    for (int w = 0; w < WRITERS; w++) {
        children[w] = fork();
        if (children[w] == 0) {
            write_rows(path, w, ROWS_EACH);
            _exit(0);
        }
    }
    for (int w = 0; w < WRITERS; w++) {
        int how;
        assert_int_equal(waitpid(children[w], &how, 0), children[w]);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), 0);
    }
    json_t *rows = all_rows(path);
    assert_int_equal(json_array_size(rows), WRITERS * ROWS_EACH);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(a_failing_visit_stops),
        cmocka_unit_test(the_journal_is_rolled_back),
        cmocka_unit_test(a_reader_holds_no_lock),
        cmocka_unit_test(all_rows_are_read),
        cmocka_unit_test(an_empty_file_becomes_one),
        cmocka_unit_test(foreign_files_are_left_alone),
        cmocka_unit_test(newer_and_damaged_files_are_left_alone),
        cmocka_unit_test(an_older_file_is_brought_up_to_date),
        cmocka_unit_test(other_tables_are_refused),
        cmocka_unit_test(places_that_hold_no_file_are_refused),
        cmocka_unit_test(a_full_disk_is_reported),
        cmocka_unit_test(writers_at_once_lose_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
