/* SPDX-License-Identifier: MIT */
/*
 * Files of the results database: foreign or unwritable ones are refused in one line and unchanged;
 * files of older versions are read, and upgraded when written.
 */
#include "bench/tests/results_fixture.h"
#include "bench/output/row_keys.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void assert_open_refused(const char *path, const char *why)
{
    ls_results *results = NULL;
    assert_refused(ls_results_open(path, true, &results), LS_CODE_MISSING, path, why);
    assert_null(results);
    assert_refused(ls_results_open(path, false, &results), LS_CODE_MISSING, path, why);
    assert_null(results);
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

/* Asserts that it is refused, its bytes are unchanged, and no other file was created. */
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
    assert_left_alone(path, "not an SQLite database");
    text = fopen(in_folder("short", path), "w");
    fputs("SQLite format 3", text);
    fclose(text);
    assert_left_alone(path, "not an SQLite database");
}

/* A killed program leaves a journal beside its database, which SQLite would roll back. */
static void a_foreign_journal_is_left_alone(void **state)
{
    (void)state;
    static const char fill[] =
        "CREATE TABLE rows (id TEXT); PRAGMA cache_size = 2; BEGIN; WITH RECURSIVE n (i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)"
        " INSERT INTO rows SELECT hex(randomblob(100)) FROM n";
    static uint8_t before[FILE_SIZE], after[FILE_SIZE];
    char path[PATH_SIZE], journal[PATH_SIZE], command[4 * PATH_SIZE];
    sqlite3 *db;
    assert_int_equal(sqlite3_open(in_folder("theirs.db", path), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, fill, NULL, NULL, NULL), SQLITE_OK);
    snprintf(command, sizeof command,
             "cd '%s' && cp theirs.db killed.db && cp theirs.db-journal "
             "killed.db-journal",
             folder);
    assert_int_equal(system(command), 0);
    sqlite3_close(db);
    const size_t size = read_whole(in_folder("killed.db", path), before);
    assert_open_refused(path, "another program");
    assert_int_equal(read_whole(path, after), size);
    assert_memory_equal(before, after, size);
    assert_int_equal(access(in_folder("killed.db-journal", journal), F_OK), 0);
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

/* A file of an older version: read without changing it; then written, which upgrades it with all
 * its rows. */
static void bring_up_to_date(const char *name, const char *older)
{
    static uint8_t before[FILE_SIZE], after[FILE_SIZE];
    char path[PATH_SIZE];
    ls_results *results = open_results(in_folder(name, path));
    append(results, "a");
    append(results, "b");
    ls_results_close(results);
    json_t *rows = all_rows(path);
    run_sql(path, older);
    const size_t size = read_whole(path, before);
    json_t *same = all_rows(path);
    assert_true(json_equal(rows, same));
    assert_int_equal(read_whole(path, after), size);
    assert_memory_equal(before, after, size);
    results = open_results(path);
    append(results, "c");
    ls_results_close(results);
    json_t *more = all_rows(path);
    assert_int_equal(json_array_size(more), 3);
    json_decref(more);
    json_decref(same);
    json_decref(rows);
}

static void an_older_file_is_brought_up_to_date(void **state)
{
    (void)state;
    bring_up_to_date("older1.db", "DROP VIEW v");
    bring_up_to_date("older2.db",
                     "DROP VIEW v; CREATE TABLE briefs (number INTEGER PRIMARY KEY, id TEXT);"
                     "INSERT INTO briefs SELECT rowid, id FROM rows; PRAGMA user_version = 2");
    bring_up_to_date("older3.db",
                     "CREATE TABLE briefs (number INTEGER PRIMARY KEY, id TEXT, label TEXT);"
                     "PRAGMA user_version = 3");
}

/* ---- The view ------------------------------------------------------------------------------- */

static int take_text(void *context, int count, char **texts, char **names)
{
    char *out = context;
    (void)names;
    for (int i = 0; i < count; i++)
        snprintf(out + strlen(out), FILE_SIZE - strlen(out), "%s|", texts[i] ? texts[i] : "NULL");
    return 0;
}

static void assert_query(const char *path, const char *sql, const char *expected)
{
    static char out[FILE_SIZE];
    sqlite3 *db;
    out[0] = 0;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, take_text, out, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_string_equal(out, expected);
}

/* A file has a view with a column for each field, for any SQLite program. */
static void the_view_has_the_fields(void **state)
{
    (void)state;
    static const char row_text[] =
        "{\"schema\":1,\"id\":\"a\",\"timestamp\":\"t\",\"case\":{\"model\":\"mlp\",\"lr\":0.1,"
        "\"shuffle\":true,\"capture\":false,\"zero_stage\":2,\"ps_colocate\":true,"
        "\"devices\":[\"cpu:0\",\"cpu:1\"]},"
        "\"memory\":{\"devices\":[{\"device\":\"cpu:0\",\"peak\":7,\"formula\":{\"peak\":3}},"
        "{\"device\":\"cpu:1\",\"peak\":9},{\"device\":\"cpu:2\",\"peak\":9},\"no object\"]},"
        "\"device_load\":[{\"busy_ms\":0.5},\"no object\",{\"busy_ms\":2},{}],"
        "\"train\":{\"losses\":[1.5,null]},"
        "\"provenance\":{\"environment\":{\"A\":\"1\"}},\"traffic\":{\"bytes_sent\":"
        "9007199254740993}}";
    static const char *const values[][2] = {
        {"case.model", "mlp|"},
        {"case.lr", "0.1|"},
        {"case.shuffle", "true|"},
        {"case.capture", "false|"},
        {"case.zero_stage", "2|"},
        {"case.ps_colocate", "true|"},
        {"case.devices", "[\"cpu:0\",\"cpu:1\"]|"},
        {"memory.devices.device", "cpu:1|"}, /* the first of the fullest */
        {"memory.devices.formula.peak", "NULL|"},
        {"device_load.busy_ms", "[0.5,2]|"},
        {"train.losses", "[1.5,null]|"},
        {"train.accuracy", "NULL|"},
        {"provenance.environment", "{\"A\":\"1\"}|"},
        {"traffic.bytes_sent", "9007199254740993|"},
        {"label", "NULL|"},
    };
    char path[PATH_SIZE], sql[128];
    ls_results *results = open_results(in_folder("view.db", path));
    json_t *row = json_loads(row_text, 0, NULL);
    assert_ok(ls_results_append(results, row));
    json_decref(row);
    ls_results_close(results);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        snprintf(sql, sizeof sql, "SELECT \"%s\" FROM v", values[i][0]);
        assert_query(path, sql, values[i][1]);
    }
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    for (const char *const *field = ls_row_paths(); *field; field++) {
        snprintf(sql, sizeof sql, "SELECT \"v\".\"%s\" FROM v", *field);
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
            fail_msg("%s: %s", *field, sqlite3_errmsg(db));
    }
    sqlite3_close(db);
}

/* Ours is renewed when the file is written; a user's object of that name stays. */
static void the_view_is_renewed(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    static const char is_ours[] = "SELECT count(*) FROM pragma_table_info('v') WHERE name = 'id'";
    ls_results_close(open_results(in_folder("renewed.db", path)));
    run_sql(path, "DROP VIEW v; CREATE VIEW v AS /* lockstep */ SELECT 1 AS old");
    assert_query(path, is_ours, "0|");
    ls_results_close(open_results(path));
    assert_query(path, is_ours, "1|");
    run_sql(path, "DROP VIEW v; CREATE VIEW v AS SELECT 1 AS mine");
    ls_results_close(open_results(path));
    assert_query(path, "SELECT mine FROM v", "1|");
    run_sql(path, "DROP VIEW v; CREATE TABLE V (mine); INSERT INTO V VALUES (2)");
    ls_results_close(open_results(path));
    assert_query(path, "SELECT mine FROM v", "2|");
}

/* A file with our mark whose table is something else: a view may never end, a trigger may do
 * anything. */
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
        "CREATE VIEW briefs AS SELECT rowid AS number, id FROM rows",
    };
    char path[PATH_SIZE], name[32];
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        snprintf(name, sizeof name, "changed%zu.db", i);
        ls_results_close(open_results(in_folder(name, path)));
        run_sql(path, changes[i]);
        assert_left_alone(path, "this file is damaged (tables are missing)");
    }
    ls_results_close(open_results(in_folder("indexed.db", path)));
    run_sql(path, "CREATE INDEX i ON rows (model); CREATE VIEW mine AS SELECT id FROM rows");
    ls_results *results = open_results(path); /* users may add what their queries need */
    append(results, "a");
    ls_results_close(results);
}

static void places_that_hold_no_file_are_refused(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    ls_results *results;
    assert_open_refused(folder, "is a folder");
    assert_open_refused("/dev/full", "not a regular file");
    assert_open_refused("/proc/version", "not an SQLite database"); /* has a text, but no size */
    close(open(in_folder("plain", path), O_CREAT | O_WRONLY, 0666));
    assert_open_refused(in_folder("plain/rows.db", path), "Not a directory");
    assert_refused(ls_results_open(in_folder("missing.db", path), false, &results), LS_CODE_MISSING,
                   path, "no such file");
    assert_open_refused(in_folder("a/rows.db", path), "a/rows.db");
    assert_refused(ls_results_open(path, true, &results), LS_CODE_MISSING, path, "make the folder");
    assert_int_equal(access(in_folder("a", path), F_OK), -1);
    assert_int_equal(chdir(folder), 0);
    ls_results_close(open_results(LS_RESULTS_DEFAULT)); /* only its folder is created */
    assert_open_refused("/proc/self/lockstep.db", "/proc/self/lockstep.db"); /* no files there */
}

/* Files of this process cannot exceed 64 KiB, as on a full disk. */
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
        bool refused = status && strstr(ls_status_text(status), path) &&
                       strstr(ls_status_text(status), "65536 bytes (ulimit -f)");
        _exit(refused && ls_status_code(status) == LS_CODE_MISSING ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    json_t *rows = all_rows(path);
    assert_true(json_array_size(rows) > 0);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_becomes_one),
        cmocka_unit_test(foreign_files_are_left_alone),
        cmocka_unit_test(a_foreign_journal_is_left_alone),
        cmocka_unit_test(newer_and_damaged_files_are_left_alone),
        cmocka_unit_test(an_older_file_is_brought_up_to_date),
        cmocka_unit_test(the_view_has_the_fields),
        cmocka_unit_test(the_view_is_renewed),
        cmocka_unit_test(other_tables_are_refused),
        cmocka_unit_test(places_that_hold_no_file_are_refused),
        cmocka_unit_test(a_full_disk_is_reported),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
