/* SPDX-License-Identifier: MIT */
/*
 * Results database; see results_db.h. One table, rows: the whole row as JSON, plus columns for
 * filtering by SQL. A file is ours if it has our application id.
 *   New (missing or empty): create table, application id and version in one transaction, so that
 *   what exists is complete.
 *   Journal: a rollback journal. A write-ahead log needs memory shared by all users of the file,
 *   which two hosts on a network file system lack. A file in that mode is converted when next
 * written. Schemas: 1 is the table `rows`. Files of schema 2 and 3 also had a table `briefs`, of
 * fields that lists show. They are read as they are, and lose it in one transaction when they are
 * next opened for writing. New: a view for questions in SQL (results_view.c). Rows: results_rows.c.
 */
#include "bench/output/results_db_parts.h"

#include "common/base/clock.h"
#include "common/base/grow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    APPLICATION_ID = 0x4c6b7374, /* "Lkst" */
    SCHEMA = 1,
    SCHEMA_LAST = 3, /* that is read */
    BUSY_TIMEOUT_MS = 30000,
    TRY_MS = 5
};

static const char rows_sql[] =
    "CREATE TABLE rows (id TEXT PRIMARY KEY NOT NULL, timestamp TEXT, status TEXT, model TEXT,"
    " strategy TEXT, label TEXT, row TEXT NOT NULL)";
ls_status ls_results_refuse(const char *path, const char *why)
{
    return ls_fail(LS_CODE_MISSING, "results", path, "%s; --results FILE names another", why);
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
                   "this folder has no file locks (%s), and without them two programs would spoil "
                   "the file; --results FILE names one in another folder, or none",
                   strerror(error));
}

/* The failed statement must be reset or finalized before. */
ls_status ls_results_refuse_sqlite(const ls_results *results, int code)
{
    const char *text = results->db ? sqlite3_errmsg(results->db) : sqlite3_errstr(code);
    int system_error = results->db ? sqlite3_system_errno(results->db) : 0;
    if (!results->db || sqlite3_get_autocommit(results->db))
        LS_TRY(check_locks(results->path));
    switch (code & 0xff) {
    case SQLITE_FULL:
        return ls_results_refuse(results->path, "cannot be written: the disk is full");
    case SQLITE_BUSY:
        return ls_results_refuse(results->path, "is locked by another program");
    case SQLITE_CORRUPT:
        return ls_results_refuse(results->path, "is damaged");
    case SQLITE_NOTADB:
        return ls_results_refuse(results->path,
                                 "is not an SQLite database, so not one of lockstep");
    case SQLITE_READONLY:
        return ls_results_refuse(results->path, "cannot be written: it or its folder is read-only");
    case SQLITE_CANTOPEN:
        text = "cannot be opened";
        /* fallthrough */
    default:
        return ls_fail(LS_CODE_MISSING, "results", results->path,
                       "%s%s%s; --results FILE names another", text, system_error ? ": " : "",
                       system_error ? strerror(system_error) : "");
    }
}

/* The file's folder must exist; that of the default is created. */
static ls_status check_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return LS_OK;
    char *folder = strndup(path, (size_t)(slash - path));
    if (!folder)
        return ls_fail_memory(path, strlen(path));
    ls_status status = LS_OK;
    if (strcmp(path, LS_RESULTS_DEFAULT) == 0) {
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            status = ls_fail(LS_CODE_MISSING, "results", path,
                             "its folder cannot be made: %s; --results FILE names another",
                             strerror(errno));
    } else if (access(folder, F_OK) != 0) {
        status = ls_fail(LS_CODE_MISSING, "results", path,
                         "its folder %s: %s; make it, or --results FILE names another", folder,
                         strerror(errno));
    }
    free(folder);
    return status;
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
                           "no such file; lockstep run makes it, --results FILE names another");
        *fresh = true;
        return check_parent(path);
    }
    if (S_ISDIR(facts.st_mode))
        return ls_results_refuse(path, "is a folder");
    if (!S_ISREG(facts.st_mode))
        return ls_results_refuse(path, "is not a regular file");
    *fresh = facts.st_size == 0;
    if (*fresh && !create)
        return ls_results_refuse(path, "is empty: it holds no database");
    return LS_OK;
}

/* Creates the table and what goes with it, if the file is empty; drops what older versions added;
 * renews the view. In a transaction, before which another process may have done so. */
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
    return ls_results_renew_view(results);
}

/* A file of an older version is in WAL mode. Converting it needs exclusive access, for which SQLite
 * does not always wait: so retry. */
static ls_status enter_rollback(ls_results *results)
{
    const uint64_t end = ls_clock_ns() + BUSY_TIMEOUT_MS * UINT64_C(1000000);
    int code;
    while ((code = sqlite3_exec(results->db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL)) ==
               SQLITE_BUSY &&
           ls_clock_ns() < end)
        ls_clock_sleep(TRY_MS * UINT64_C(1000000));
    return code == SQLITE_OK ? LS_OK : ls_results_refuse_sqlite(results, code);
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
        return ls_results_refuse(results->path, "is a database of another program");
    LS_TRY(ls_results_ask(results, "PRAGMA user_version", &schema));
    if (schema < 1 || schema > SCHEMA_LAST)
        return ls_fail(LS_CODE_MISSING, "results", results->path,
                       "has schema %lld, this lockstep knows %d; use the lockstep that wrote it, "
                       "or another file",
                       (long long)schema, SCHEMA_LAST);
    LS_TRY(ls_results_ask(results, sql, &ours));
    return ours ? LS_OK
                : ls_results_refuse(results->path, "is damaged: tables of its schema are missing");
}

/* Takes the write lock, so that a file that cannot be written is refused before any work. */
static ls_status prepare_writing(ls_results *results)
{
    if (sqlite3_db_readonly(results->db, "main") == 1)
        return ls_results_refuse_sqlite(results, SQLITE_READONLY);
    LS_TRY(enter_rollback(results));
    LS_TRY(ls_results_execute(results, "PRAGMA synchronous = EXTRA"));
    LS_TRY(ls_results_begin(results));
    return ls_results_end(results, bring_up_to_date(results));
}

static ls_status connect(ls_results *results, bool create, bool fresh)
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
        return ls_results_refuse_sqlite(results, code);
    sqlite3_extended_result_codes(results->db, 0);
    sqlite3_busy_timeout(results->db, BUSY_TIMEOUT_MS);
    ls_status status = check_locks(results->path);
    if (status && made)
        unlink(results->path);
    LS_TRY(status);
    if (!fresh)
        LS_TRY(verify(results));
    if (create)
        LS_TRY(prepare_writing(results));
    return ls_results_make_ready(results);
}

ls_status ls_results_open(const char *path, bool create, ls_results **out)
{
    bool fresh;
    ls_results *results;
    LS_TRY(examine(path, create, &fresh));
    LS_TRY(ls_allocate("results", &results, 1, sizeof *results));
    results->path = strdup(path);
    ls_status status =
        results->path ? connect(results, create, fresh) : ls_fail_memory("results", strlen(path));
    if (status) {
        ls_results_close(results);
        return status;
    }
    *out = results;
    return LS_OK;
}

ls_status ls_results_memory(ls_results **out)
{
    ls_results *results;
    LS_TRY(ls_allocate("results", &results, 1, sizeof *results));
    results->path = strdup("rows in memory");
    ls_status status = LS_OK;
    if (!results->path || sqlite3_open(":memory:", &results->db) != SQLITE_OK)
        status = ls_fail_memory("rows in memory", 1);
    if (!status)
        status = ls_results_execute(results, rows_sql);
    if (!status)
        status = ls_results_make_ready(results);
    if (status)
        ls_results_close(results);
    else
        *out = results;
    return status;
}

void ls_results_close(ls_results *results)
{
    if (!results)
        return;
    sqlite3_finalize(results->kept);
    sqlite3_close(results->db);
    json_decref(results->parsed);
    free(results->parsed_text);
    free(results->path);
    free(results);
}
