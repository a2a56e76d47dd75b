/* SPDX-License-Identifier: MIT */
/*
 * Status: what every function that can fail returns.
 *
 * A status is NULL for success, else an owned failure: a code, which is also the exit status of
 * the program, and one line that says what failed, where, why and what would work instead:
 *
 *     <what>: <where>: <why>; <what would work>
 *
 * The function that detects a failure makes the status; callers relay it (LS_TRY) or drop it with
 * ls_status_free. There is no global "last error", so threads and ranks cannot mix theirs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** Why a call failed; the values are the exit statuses of `lockstep`. */
typedef enum ls_code {
    LS_CODE_OK = 0,
    LS_CODE_CHECK = 1,         /**< a check failed: equivalence, wrong elements, NaN */
    LS_CODE_USAGE = 2,         /**< wrong usage: an option, a plan, a value */
    LS_CODE_MISSING = 3,       /**< missing or broken here: device, data set, file, memory, rank */
    LS_CODE_UNDECIDED = 4,     /**< `regress` cannot tell */
    LS_CODE_INTERRUPTED = 130, /**< SIGINT */
    LS_CODE_UNREAD = 141 /**< standard output's reader has gone; not reported, as other programs end
                            by SIGPIPE */
} ls_code;

/** NULL means success. Otherwise owned by whoever holds it, until ls_status_free. */
typedef const struct ls_failure *ls_status;

/** Success. */
#define LS_OK ((ls_status)NULL)

/**
 * Makes a failure. `what` and `where` may be NULL; `why` is a printf format for the rest of the
 * line, "<why>; <what would work>". What a reader would not see is escaped (escape.h): newlines,
 * control characters. Never returns NULL; without memory it returns a static failure that says so.
 */
ls_status ls_fail(ls_code code, const char *what, const char *where, const char *why, ...)
    __attribute__((format(printf, 4, 5), warn_unused_result));

/** LS_CODE_MISSING: `bytes` could not be had; `where` names what for. */
ls_status ls_fail_memory(const char *where, size_t bytes) __attribute__((warn_unused_result));

/** LS_CODE_OK for NULL. */
ls_code ls_status_code(ls_status status);

/** The line "<what>: <where>: <why>"; "ok" for NULL. Owned by the status. */
const char *ls_status_text(ls_status status);

/** Takes NULL. */
void ls_status_free(ls_status status);

/**
 * Marks a failure that only follows from another one, elsewhere ("abandoned by ..."): where both
 * are at hand, ls_status_first keeps the other. Takes NULL; returns its argument.
 */
ls_status ls_status_follows(ls_status status) __attribute__((warn_unused_result));

/** Whether it is so marked; false for NULL. */
bool ls_status_is_consequence(ls_status status);

/**
 * Marks a failure as final: what failed can no longer be used by this process (a GPU after an
 * illegal access, say), so a sweep ends here. Takes NULL; returns its argument.
 */
ls_status ls_status_final(ls_status status) __attribute__((warn_unused_result));

/** Whether it is so marked; false for NULL. */
bool ls_status_is_final(ls_status status);

/** Puts a part's name before a failure: "<what>: <where>: <its text>"; code and marks stay. Frees
 * it.
 */
ls_status ls_status_within(const char *what, const char *where, ls_status status)
    __attribute__((warn_unused_result));

/** Returns the failure and frees the other; of two failures, the first that is not a mere
 * consequence. It is final if either is final. */
ls_status ls_status_first(ls_status first, ls_status second) __attribute__((warn_unused_result));

/** Relays a failure of `call` to the caller. */
#define LS_TRY(call)                                                                               \
    do {                                                                                           \
        ls_status try_status_ = (call);                                                            \
        if (try_status_)                                                                           \
            return try_status_;                                                                    \
    } while (0)
