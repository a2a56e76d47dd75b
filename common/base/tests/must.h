/* SPDX-License-Identifier: MIT */
/* A call that has to go well, or to be refused: where it does not, the test ends with the reason.
 */
#pragma once

#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

/* Tests and what they put in the place of others get what they need not use: cmocka's state. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static inline void must(ls_status status)
{
    if (status)
        print_error("%s\n", ls_status_text(status));
    assert_null(status);
}

/* `part` is in its words. Frees it. */
static inline void must_refuse(ls_status status, ls_code code, const char *part)
{
    if (!status || ls_status_code(status) != code || !strstr(ls_status_text(status), part))
        fail_msg("'%s' (code %d) is not of code %d with '%s'", ls_status_text(status),
                 (int)ls_status_code(status), (int)code, part);
    ls_status_free(status);
}
