/* SPDX-License-Identifier: MIT */
/* Shared by the tests of options: lines that are accepted or refused. */
#pragma once

#include "bench/cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ARGUMENTS = 24 };

/* Parses what follows argv[0], separated by blanks; `said` (may be NULL) gets stderr's text. */
static inline ls_status parse_line(const char *line, ls_request **out, char said[4096])
{
    char copy[8192], *arguments[ARGUMENTS], *rest = copy;
    int count = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        assert_true(count < ARGUMENTS);
        arguments[count++] = word;
    }
    char *text = NULL;
    size_t size = 0;
    FILE *err = open_memstream(&text, &size);
    assert_non_null(err);
    *out = NULL;
    ls_status status = ls_request_parse(count, arguments, NULL, err, out);
    if (!status)
        ls_request_tell(*out);
    fclose(err);
    if (said)
        snprintf(said, 4096, "%s", text);
    else if (*text)
        fail_msg("%s: said: %s", line, text);
    if (!status)
        (*out)->log.stream = NULL;
    free(text);
    return status;
}

static inline ls_request *accept_line(const char *line)
{
    ls_request *request;
    ls_status status = parse_line(line, &request, NULL);
    if (status)
        fail_msg("%s: refused: %s", line, ls_status_text(status));
    return request;
}

/* The line is refused with this code; the refusal contains each of the texts (NULL ends them). */
static inline void assert_refused(ls_code code, const char *line, const char *const *texts)
{
    ls_request *request;
    char said[4096];
    ls_status status = parse_line(line, &request, said);
    if (!status)
        fail_msg("%s: accepted", line);
    const char *text = ls_status_text(status);
    if (ls_status_code(status) != code)
        fail_msg("%s: code %d: %s", line, (int)ls_status_code(status), text);
    if (!strchr(text, ';') || !strchr(text, ':'))
        fail_msg("%s: no \"where: why; what would work\": %s", line, text);
    if (*said)
        fail_msg("%s: a refusal is one line, but also said: %s", line, said);
    for (; *texts; texts++)
        if (!strstr(text, *texts))
            fail_msg("%s: '%s' is not in: %s", line, *texts, text);
    assert_null(request);
    ls_status_free(status);
}

#define REFUSED(code, line, ...)                                                                   \
    assert_refused(code, line, (const char *const[]){__VA_ARGS__, NULL})
#define USAGE(line, ...) REFUSED(LS_CODE_USAGE, line, __VA_ARGS__)
