/* SPDX-License-Identifier: MIT */
/*
 * Results database: rows are read back as written, by several processes at once. Other files:
 * test_results_files.c. Killed processes: test_results_kills.c.
 */
#include "bench/tests/results_fixture.h"

#include <fcntl.h>
#include <sys/wait.h>

enum { WRITERS = 3, ROWS_EACH = 15 };

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
    assert_true(json_equal(json_object_get(found, "row"), first));
    json_decref(found);
    assert_ok(ls_results_find(results, "20261121T051700Z-ab", &found)); /* whole id and prefix */
    json_decref(found);
    assert_refused(ls_results_find(results, "2026", &found), LS_CODE_USAGE, "2026", "several");
    assert_refused(ls_results_find(results, "2027", &found), LS_CODE_MISSING, "2027",
                   "has this id");
    assert_refused(ls_results_find(results, "", &found), LS_CODE_USAGE, "''", "empty");
    assert_refused(ls_results_append(results, first), LS_CODE_MISSING, path, "UNIQUE");
    json_t *nameless = json_object();
    assert_refused(ls_results_append(results, nameless), LS_CODE_MISSING, path, "NOT NULL");
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
    assert_refused(ls_results_each(results, stop_at_first, &visited), LS_CODE_CHECK, "visit",
                   "stopped");
    assert_int_equal(visited, 1);
    ls_results_close(results);
}

/* With a rollback journal, the header's read and write versions are 1. A file in WAL mode, which
 * does not work on network file systems, is converted when written, and keeps its rows. */
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

/* Whether another process could write now: SQLite's reserved byte is not locked. */
static bool is_free(const char *path)
{
    int how;
    const pid_t child = fork();
    if (child == 0) {
        struct flock reserved = {
            .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0x40000001, .l_len = 1};
        const int file = open(path, O_RDWR);
        _exit(fcntl(file, F_GETLK, &reserved) != 0 || reserved.l_type != F_UNLCK);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

/* Reporting a refused row does not release the transaction's lock. */
static void a_refused_row_keeps_the_lock(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    ls_results *results = open_results(in_folder("locked.db", path));
    json_t *row = new_row("a");
    assert_ok(ls_results_begin(results));
    assert_ok(ls_results_put(results, row, NULL));
    assert_refused(ls_results_put(results, row, NULL), LS_CODE_MISSING, path, "UNIQUE");
    assert_false(is_free(path));
    assert_ok(ls_results_end(results, LS_OK));
    assert_true(is_free(path));
    json_decref(row);
    ls_results_close(results);
}

static ls_status write_meanwhile(void *context, int64_t number, const json_t *row)
{
    (void)number;
    char id[32];
    ls_results *other = open_results(context);
    snprintf(id, sizeof id, "%s+", json_string_value(json_object_get(row, "id")));
    if (strlen(id) < 5) /* each process writes a few rows */
        append(other, id);
    ls_results_close(other);
    return LS_OK;
}

/* A reader, however slow, never blocks a writer. */
static void a_reader_holds_no_lock(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    ls_results *results = open_results(in_folder("read.db", path));
    append(results, "a");
    append(results, "b");
    assert_ok(ls_results_each(results, write_meanwhile, path));
    ls_results_close(results);
    json_t *rows = all_rows(path);
    assert_true(json_array_size(rows) >= 4);
    json_decref(rows);
}

/* More rows than are read at once, some of them deleted: each is read once, in order. */
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
        usleep(1000); /* other work between rows, so that others can write */
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
        cmocka_unit_test(a_refused_row_keeps_the_lock),
        cmocka_unit_test(a_reader_holds_no_lock),
        cmocka_unit_test(all_rows_are_read),
        cmocka_unit_test(writers_at_once_lose_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
