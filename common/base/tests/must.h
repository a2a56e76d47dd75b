/* SPDX-License-Identifier: MIT */
/* A call that has to go well: where it does not, the test ends with the reason. */
#ifndef LS_COMMON_BASE_TESTS_MUST_H
#define LS_COMMON_BASE_TESTS_MUST_H

#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline void must(ls_status status)
{
    if (status)
        print_error("%s\n", ls_status_text(status));
    assert_null(status);
}

#endif
