/* SPDX-License-Identifier: MIT */
/*
 * Results database; see results_db.h. One table, rows: the whole row as JSON, plus columns for
 * filtering by SQL. A file is ours if it has our application id.
 *   New (missing or empty): create table, application id and version in one transaction, so that
 *   what exists is complete.
 *   Journal: a rollback journal. A write-ahead log needs memory shared by all users of the file,
 *   which two hosts on a network file system do not have. A file in that mode is converted when
 *   next written.
 *   Schemas: 1 is the table `rows`. Files of schema 2 and 3 also had a table `briefs`. They are
 *   read unchanged, and lose it in one transaction when they are next opened for writing.
 * Rows in and out: results_rows.c.
 */
#include "bench/output/results_db.h"

#include "bench/output/results_db_parts.h"
#include "common/base/clock.h"
#include "common/base/grow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    APPLICATION_ID = 0x4c6b7374, /* "Lkst" */
    SCHEMA = 1,
    SCHEMA_LAST = 3, /* that is read */
    PATIENCE_S = 30  /* with another program's lock */
};

static const char rows_sql[] =
    "CREATE TABLE rows (id TEXT PRIMARY KEY NOT NULL, timestamp TEXT, status TEXT, model TEXT,"
    " strategy TEXT, label TEXT, row TEXT NOT NULL)";

/* ---- Refusals ------------------------------------------------------------------------------- */

ls_status ls_results_refuse(const char *path, const char *why)
{
    return ls_fail(LS_CODE_MISSING, "results", path, "%s; use another --results FILE", why);
}

/* Refuses a file that cannot be locked at all: SQLite takes ENOLCK for another program's lock. Not
 * inside a transaction: closing a file releases this process's locks on it. */
static ls_status check_locks(const char *path)
{
    struct flock first_byte = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) /* SQLite reports other failures */
        return LS_OK;
    int error = fcntl(file, F_SETLK, &first_byte) == 0 ? 0 : errno;
    close(file);
    if (error == 0 || error == EAGAIN || error == EACCES || error == EINTR)
        return LS_OK;
    return ls_fail(LS_CODE_MISSING, "results", path,
                   "this folder has no file locks (%s), without which two programs could corrupt "
                   "the file; use --results FILE with a file in another folder, or --results none",
                   strerror(error));
}

/* Whether a write failed because of the limit on the size of files, and not of a full disk. */
static bool is_limited(const ls_results *results, struct rlimit *limit)
{
    const int code = sqlite3_extended_errcode(results->db);
    struct statvfs disk;
    return getrlimit(RLIMIT_FSIZE, limit) == 0 && limit->rlim_cur != RLIM_INFINITY &&
           (code == SQLITE_IOERR_WRITE ||
            (code == SQLITE_FULL && statvfs(results->path, &disk) == 0 && disk.f_bavail > 0));
}

ls_status ls_results_failure(const ls_results *results, int code)
{
    static const struct {
        int code;
        const char *why;
    } known[] = {{SQLITE_FULL, "cannot be written: the disk is full"},
                 {SQLITE_BUSY, "another program has locked this file for 30 s"}, /* PATIENCE_S */
                 {SQLITE_CORRUPT, "this file is damaged"},
                 {SQLITE_NOTADB, "this file is not an SQLite database"},
                 {SQLITE_READONLY, "cannot be written: the file or its folder is read-only"}};
    const char *text = results->db ? sqlite3_errmsg(results->db) : sqlite3_errstr(code);
    int system_error = results->db ? sqlite3_system_errno(results->db) : 0;
    struct rlimit limit;
    if (!results->db || sqlite3_get_autocommit(results->db))
        LS_TRY(check_locks(results->path));
    if (results->db && is_limited(results, &limit))
        return ls_fail(LS_CODE_MISSING, "results", results->path,
                       "cannot be written, since a file may have at most %llu bytes (ulimit -f); "
                       "raise this limit",
                       (unsigned long long)limit.rlim_cur);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == (code & 0xff))
            return ls_results_refuse(results->path, known[i].why);
    if ((code & 0xff) == SQLITE_CANTOPEN)
        text = "cannot be opened";
    return ls_fail(LS_CODE_MISSING, "results", results->path, "%s%s%s; use another --results FILE",
                   text, system_error ? ": " : "", system_error ? strerror(system_error) : "");
}

/* ---- Statements ----------------------------------------------------------------------------- */

ls_status ls_results_prepare(ls_results *results, const char *sql, sqlite3_stmt **out)
{
    const int code = sqlite3_prepare_v2(results->db, sql, -1, out, NULL);
    return code == SQLITE_OK ? LS_OK : ls_results_failure(results, code);
}

ls_status ls_results_step(ls_results *results, sqlite3_stmt *statement, bool *more)
{
    const int code = sqlite3_step(statement);
    *more = code == SQLITE_ROW;
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return LS_OK;
    sqlite3_reset(statement); /* before the file's locks are looked at */
    return ls_results_failure(results, code);
}

ls_status ls_results_execute(ls_results *results, const char *sql)
{
    const int code = sqlite3_exec(results->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? LS_OK : ls_results_failure(results, code);
}

ls_status ls_results_ask(ls_results *results, const char *sql, int64_t *out)
{
    sqlite3_stmt *statement;
    bool more;
    LS_TRY(ls_results_prepare(results, sql, &statement));
    ls_status status = ls_results_step(results, statement, &more);
    *out = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

sqlite3 *ls_results_handle(ls_results *results)
{
    return results->db;
}

const char *ls_results_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text ? text : "";
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* The file's folder must exist; the default file's folder is created. */
static ls_status check_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    if (!slash || slash == path)
        return LS_OK;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    if (strcmp(path, LS_RESULTS_DEFAULT) == 0) {
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return ls_fail(LS_CODE_MISSING, "results", path,
                           "the file's folder cannot be made: %s; use another --results FILE",
                           strerror(errno));
    } else if (access(folder, F_OK) != 0) {
        return ls_fail(LS_CODE_MISSING, "results", path,
                       "the folder '%s' of this file cannot be used: %s; make the folder, or use "
                       "another --results FILE",
                       folder, strerror(errno));
    }
    return LS_OK;
}

/* Refuses a file of another program by its first bytes: SQLite would roll back what a journal next
 * to it holds. A file whose pages are in a write-ahead log may not have its id yet. */
static ls_status check_start(const char *path, bool empty)
{
    uint8_t start[100] = {0};
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) /* SQLite reports it */
        return LS_OK;
    const ssize_t size = read(file, start, sizeof start);
    close(file);
    if (empty && size > 0) /* as in /proc */
        return ls_results_refuse(path, "this file is not an SQLite database");
    const uint32_t id = (uint32_t)start[68] << 24 | (uint32_t)start[69] << 16 |
                        (uint32_t)start[70] << 8 | start[71];
    const bool logged = start[18] == 2;
    return size == sizeof start && memcmp(start, "SQLite format 3", 16) == 0 &&
                   id != APPLICATION_ID && (id != 0 || !logged)
               ? ls_results_refuse(path, "this file is a database of another program")
               : LS_OK;
}

/* Refuses what SQLite should not open; *fresh: there is no file yet. */
static ls_status examine(const char *path, bool create, bool *fresh)
{
    struct stat facts;
    *fresh = false;
    if (!*path)
        return ls_results_refuse("''", "the name is empty");
    if (stat(path, &facts) != 0) {
        if (errno != ENOENT)
            return ls_results_refuse(path, strerror(errno));
        if (!create)
            return ls_fail(LS_CODE_MISSING, "results", path,
                           "there is no such file; measure with lockstep run, which creates this "
                           "file, or use another --results FILE");
        *fresh = true;
        return check_parent(path);
    }
    if (S_ISDIR(facts.st_mode))
        return ls_results_refuse(path, "this is a folder, not a file");
    if (!S_ISREG(facts.st_mode))
        return ls_results_refuse(path, "this is not a regular file");
    *fresh = facts.st_size == 0;
    LS_TRY(check_start(path, *fresh));
    if (*fresh && !create)
        return ls_results_refuse(path, "this file is empty");
    return LS_OK;
}

/* Makes the file's view, or replaces an older one of ours, not what a user has of that name. */
static ls_status renew_view(ls_results *results)
{
    ls_auto char *view = ls_results_view_text(results->db, NULL);
    int64_t stays;
    LS_TRY(view ? LS_OK : ls_fail_memory("view of the results", 1));
    LS_TRY(ls_results_ask(results,
                          "SELECT count(*) FROM main.sqlite_master"
                          " WHERE name = 'v' COLLATE NOCASE AND type != 'trigger'"
                          " AND (type != 'view' OR sql = view_text(NULL)"
                          " OR sql NOT LIKE 'CREATE VIEW v AS /* lockstep */ %')",
                          &stays));
    if (stays)
        return LS_OK;
    LS_TRY(ls_results_execute(results, "DROP VIEW IF EXISTS main.v"));
    return ls_results_execute(results, view);
}

/* Creates the table, with application id and version, if the file is empty; drops what older
 * versions added; renews the view. In a transaction, before which another process may have done
 * so. */
static ls_status bring_up_to_date(ls_results *results)
{
    char sql[sizeof rows_sql + 128];
    int64_t objects, schema;
    snprintf(sql, sizeof sql, "%s; PRAGMA application_id = %d; PRAGMA user_version = %d", rows_sql,
             APPLICATION_ID, SCHEMA);
    LS_TRY(ls_results_ask(results, "SELECT count(*) FROM main.sqlite_master", &objects));
    if (objects == 0)
        LS_TRY(ls_results_execute(results, sql));
    LS_TRY(ls_results_ask(results, "PRAGMA user_version", &schema));
    if (schema > SCHEMA)
        LS_TRY(ls_results_execute(results,
                                  "DROP TABLE IF EXISTS main.briefs; PRAGMA user_version = 1"));
    return renew_view(results);
}

/* SQLite asks whether to wait on for another program's lock. */
static int wait_for_lock(void *context, int waits)
{
    ls_results *results = context;
    if (waits == 0 && !results->opening)
        results->wait_end = ls_clock_ns() + PATIENCE_S * UINT64_C(1000000000);
    if (ls_clock_ns() >= results->wait_end)
        return 0;
    ls_clock_sleep(UINT64_C(5000000));
    return 1;
}

/* A file of an older version is in WAL mode. Converting it needs exclusive access, for which SQLite
 * does not always wait: so retry. */
static ls_status enter_rollback(ls_results *results)
{
    int code;
    while ((code = sqlite3_exec(results->db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL)) ==
               SQLITE_BUSY &&
           wait_for_lock(results, 1))
        continue;
    return code == SQLITE_OK ? LS_OK : ls_results_failure(results, code);
}

/* The file must be ours, with our table, not a view of that name, and no triggers. */
static ls_status verify(ls_results *results)
{
    char sql[sizeof rows_sql + 256];
    snprintf(sql, sizeof sql,
             "SELECT sum(tbl_name = 'rows' AND type = 'table' AND sql = '%s') = 1"
             " AND sum(tbl_name = 'rows' AND type != 'index') = 1"
             " AND sum(name = 'briefs' AND type != 'table') = 0 FROM sqlite_master",
             rows_sql);
    int64_t id, ours, schema;
    LS_TRY(ls_results_ask(results, "PRAGMA application_id", &id));
    if (id != APPLICATION_ID)
        return ls_results_refuse(results->path, "this file is a database of another program");
    LS_TRY(ls_results_ask(results, "PRAGMA user_version", &schema));
    if (schema < 1 || schema > SCHEMA_LAST)
        return ls_fail(LS_CODE_MISSING, "results", results->path,
                       "this file has schema %lld, but this version of lockstep knows schemas up "
                       "to %d; use the version that wrote the file, or another --results FILE",
                       (long long)schema, SCHEMA_LAST);
    LS_TRY(ls_results_ask(results, sql, &ours));
    return ours ? LS_OK
                : ls_results_refuse(results->path, "this file is damaged (tables are missing)");
}

/* Takes the write lock, so that a file that cannot be written is refused before any work. */
static ls_status prepare_writing(ls_results *results)
{
    if (sqlite3_db_readonly(results->db, "main") == 1)
        return ls_results_failure(results, SQLITE_READONLY);
    LS_TRY(enter_rollback(results));
    LS_TRY(ls_results_execute(results, "PRAGMA synchronous = EXTRA"));
    LS_TRY(ls_results_begin(results));
    return ls_results_end(results, bring_up_to_date(results));
}

static ls_status connect(ls_results *results, bool fresh)
{
    /* With a folder, a name never has a special meaning in SQLite. */
    char *name = sqlite3_mprintf("%s%s", results->path[0] == '/' ? "" : "./", results->path);
    if (!name)
        return ls_fail_memory(results->path, strlen(results->path));
    const bool made = access(name, F_OK) != 0; /* did not exist */
    int flags = SQLITE_OPEN_READWRITE | (fresh ? SQLITE_OPEN_CREATE : 0);
    int code = sqlite3_open_v2(name, &results->db, flags, NULL);
    sqlite3_free(name);
    if (code != SQLITE_OK)
        return ls_results_failure(results, code);
    sqlite3_extended_result_codes(results->db, 0);
    sqlite3_busy_handler(results->db, wait_for_lock, results);
    ls_status status = check_locks(results->path);
    if (status && made)
        unlink(results->path);
    LS_TRY(status);
    return fresh ? LS_OK : verify(results);
}

/* `path`: NULL means in memory, with a table of rows if `rows`. */
static ls_status open_path(const char *path, bool rows, bool create, bool fresh, ls_results **out)
{
    ls_results *results;
    LS_TRY(ls_allocate("results", &results, 1, sizeof *results));
    results->opening = true;
    results->wait_end = ls_clock_ns() + PATIENCE_S * UINT64_C(1000000000);
    results->path = strdup(path ? path : "rows in memory");
    ls_status status = LS_OK;
    if (!results->path || (!path && sqlite3_open(":memory:", &results->db) != SQLITE_OK))
        status = ls_fail_memory("results", 1);
    if (!status)
        status = path ? connect(results, fresh) : ls_results_execute(results, rows ? rows_sql : "");
    if (!status)
        status = ls_results_execute(results, "PRAGMA temp_store = MEMORY");
    if (!status)
        status = ls_results_attach(results, rows);
    if (!status && create)
        status = prepare_writing(results);
    results->opening = false;
    if (status)
        ls_results_close(results);
    else
        *out = results;
    return status;
}

ls_status ls_results_open(const char *path, bool create, ls_results **out)
{
    bool fresh;
    LS_TRY(examine(path, create, &fresh));
    return open_path(path, true, create, fresh, out);
}

ls_status ls_results_memory(ls_results **out)
{
    return open_path(NULL, true, false, false, out);
}

ls_status ls_results_functions(ls_results **out)
{
    return open_path(NULL, false, false, false, out);
}

void ls_results_close(ls_results *results)
{
    if (!results)
        return;
    for (sqlite3_stmt *one; results->db && (one = sqlite3_next_stmt(results->db, NULL));)
        sqlite3_finalize(one); /* of functions */
    sqlite3_close(results->db);
    free(results->path);
    free(results);
}
