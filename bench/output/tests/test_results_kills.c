/* SPDX-License-Identifier: MIT */
/*
 * Two jobs write to one results database and are repeatedly killed at random moments: every row
 * whose append returned is in the intact file, once, and the file accepts more. A row is
 * acknowledged as a run prints it: after its commit.
 */
#include "bench/output/results_db.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum {
    PATH_SIZE = 512,
    WRITERS = 2,
    ROUNDS = 40,
    SEED = 7,
    LATEST_KILL_US = 20000,
    ROW_SIZE = 150000
};

typedef struct job {
    pid_t process;
    int rows; /* pipe for one byte per acknowledged row */
} job;

/* A row of several pages, so that a commit takes several writes. */
static json_t *new_row(int round, int writer, int number)
{
    static char text[ROW_SIZE];
    char id[64];
    memset(text, 'a' + number % 26, sizeof text - 1);
    snprintf(id, sizeof id, "%d-%d-%d", round, writer, number);
    return json_pack("{s:s,s:s}", "id", id, "text", text);
}

static void write_rows(const char *path, int round, int writer, int acknowledge)
{
    ls_results *results;
    if (ls_results_open(path, true, &results))
        _exit(2);
    for (int i = 0;; i++) {
        json_t *row = new_row(round, writer, i);
        if (ls_results_append(results, row))
            _exit(3);
        json_decref(row);
        if (write(acknowledge, "+", 1) != 1)
            _exit(4);
    }
}

static job start(const char *path, int round, int writer)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        close(ends[0]); /* so that it ends with the test in any case */
        write_rows(path, round, writer, ends[1]);
    }
    close(ends[1]);
    return (job){process, ends[0]};
}

/* Waits until one of them has committed a row: the disk may be slow, or the lock busy. */
static void wait_for_row(const job jobs[WRITERS])
{
    struct pollfd ends[WRITERS];
    for (int w = 0; w < WRITERS; w++)
        ends[w] = (struct pollfd){.fd = jobs[w].rows, .events = POLLIN};
    assert_true(poll(ends, WRITERS, -1) > 0);
}

/* Kills the job after some time. Returns how many rows it has acknowledged. */
static int end(job j, unsigned *seed)
{
    char mark;
    int count = 0, how;
    const struct timespec wait = {.tv_nsec = rand_r(seed) % LATEST_KILL_US * 1000L};
    nanosleep(&wait, NULL);
    kill(j.process, SIGKILL);
    waitpid(j.process, &how, 0);
    if (!WIFSIGNALED(how))
        fail_msg("a writer ended by itself: %d", WEXITSTATUS(how));
    while (read(j.rows, &mark, 1) == 1)
        count++;
    close(j.rows);
    return count;
}

static int query(sqlite3 *db, const char *sql, char text[64])
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    snprintf(text, 64, "%s", (const char *)sqlite3_column_text(statement, 0));
    const int value = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

/* A writer numbers its rows in order: those acknowledged must be there, and possibly the one during
 * which it was killed. */
static void check(const char *path, int counts[ROUNDS][WRITERS])
{
    char sql[128], text[64];
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    query(db, "PRAGMA integrity_check", text);
    assert_string_equal(text, "ok");
    for (int r = 0; r < ROUNDS; r++) {
        for (int w = 0; w < WRITERS; w++) {
            snprintf(sql, sizeof sql, "SELECT count(*) FROM rows WHERE id LIKE '%d-%d-%%'", r, w);
            const int kept = query(db, sql, text);
            if (kept != counts[r][w] && kept != counts[r][w] + 1)
                fail_msg("round %d, writer %d: %d rows of %d", r, w, kept, counts[r][w]);
        }
    }
    sqlite3_close(db);
}

static void killed_writers_lose_nothing(void **state)
{
    (void)state;
    char folder[PATH_SIZE - 64], path[PATH_SIZE], command[PATH_SIZE + 16];
    static int counts[ROUNDS][WRITERS];
    unsigned seed = SEED;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/lockstep-kills-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/rows.db", folder);
    for (int r = 0; r < ROUNDS; r++) {
        job jobs[WRITERS];
        for (int w = 0; w < WRITERS; w++)
            jobs[w] = start(path, r, w);
        wait_for_row(jobs);
        for (int w = 0; w < WRITERS; w++)
            counts[r][w] = end(jobs[w], &seed);
    }
    ls_results *results;
    assert_null(ls_results_open(path, true, &results));
    json_t *row = new_row(ROUNDS, 0, 0);
    assert_null(ls_results_append(results, row));
    json_decref(row);
    ls_results_close(results);
    check(path, counts);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_writers_lose_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
