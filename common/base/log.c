/* SPDX-License-Identifier: MIT */
/* Log; see log.h. */
#include "common/base/log.h"

#include <stdarg.h>
#include <unistd.h>

void ls_log_line(const ls_log *log, ls_log_level level, const char *format, ...)
{
    if (!log || !log->stream || level > log->level)
        return;
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    /* Clears a line of progress, whose cursor is at its start. */
    const char *clear = isatty(fileno(log->stream)) ? "\033[K" : "";
    fprintf(log->stream, "%slockstep: %s\n", clear, line);
}
