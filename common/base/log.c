/* SPDX-License-Identifier: MIT */
/* Log; see log.h. */
#include "common/base/log.h"

#include <stdarg.h>

void ls_log_line(const ls_log *log, ls_log_level level, const char *format, ...)
{
    if (!log || !log->stream || level > log->level)
        return;
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(log->stream, "lockstep: %s\n", line);
}
