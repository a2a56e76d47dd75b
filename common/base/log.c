/* SPDX-License-Identifier: MIT */
/* Log; see log.h. */
#include "common/base/log.h"

#include "common/base/escape.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* Writes one line, also where there is no memory for a long one. */
static void write_line(FILE *stream, const char *format, va_list arguments)
{
    char *line = NULL;
    if (vasprintf(&line, format, arguments) < 0)
        line = NULL;
    /* Clears a line of progress, whose cursor is at its start. */
    fputs(isatty(fileno(stream)) ? "\033[Klockstep: " : "lockstep: ", stream);
    ls_escape_put(stream, line ? line : format, SIZE_MAX, LS_ESCAPE_LINE);
    fputc('\n', stream);
    free(line);
}

void ls_log_line(const ls_log *log, ls_log_level level, const char *format, ...)
{
    if (!log || !log->stream || level > log->level)
        return;
    va_list arguments;
    va_start(arguments, format);
    write_line(log->stream, format, arguments);
    va_end(arguments);
}

void ls_log_stderr(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(stderr, format, arguments);
    va_end(arguments);
}
