/* SPDX-License-Identifier: MIT */
/* Standard output; see standard_output.h. */
#include "bench/output/standard_output.h"

#include "common/base/registry.h"
#include "common/base/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Set once, before any thread starts; as global as `stdout`, which it stands for. */
static FILE *output;

/* The stream begins on another file, since fdopen refuses a descriptor that is not open for writing
 * (1 if it was closed), and here writing has to fail, not opening. */
ls_status ls_output_open(void)
{
    output = fopen("/dev/null", "we");
    if (!output || dup3(STDOUT_FILENO, fileno(output), O_CLOEXEC) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return ls_fail(LS_CODE_MISSING, "standard output", "/dev/null",
                       "cannot be opened: %s; mount /dev, or raise the limit on open files (ulimit "
                       "-n) to 4 or more",
                       strerror(errno));
    setvbuf(stdout, NULL, _IOLBF, 0); /* a library's lines are not mixed with stderr's */
    return LS_OK;
}

FILE *ls_output(void)
{
    return output ? output : stdout;
}

/* A pipe or socket tells its writer; a file has no reader. */
static bool is_unread(FILE *stream)
{
    struct pollfd end = {.fd = fileno(stream)};
    return poll(&end, 1, 0) > 0 && (end.revents & (POLLERR | POLLHUP));
}

ls_status ls_output_flush(FILE *stream, const char *results)
{
    errno = 0;
    if (fflush(stream) == 0 && !ferror(stream))
        return LS_OK;
    const char *why = errno ? strerror(errno) : "an earlier write failed";
    const char *name = stream == ls_output() ? "standard output" : "file";
    if (stream == ls_output() && is_unread(stream))
        return ls_fail(LS_CODE_UNREAD, "output", name,
                       "the program that reads this output ended before all was written; write to "
                       "a file instead");
    if (!results)
        return ls_fail(LS_CODE_MISSING, "output", name,
                       "this output is incomplete: %s; free space, or write to another disk", why);
    return ls_fail(LS_CODE_MISSING, "output", name,
                   "this output is incomplete: %s; `lockstep results list "
                   "--results %s` shows the rows that are kept",
                   why, results);
}

ls_status ls_output_close(void)
{
    ls_status status = ls_output_flush(output, NULL);
    if (fclose(output) && !status)
        status = ls_fail(LS_CODE_MISSING, "output", "standard output",
                         "this output is incomplete: %s; free space, or write to another disk",
                         strerror(errno));
    output = NULL;
    return status;
}

ls_status ls_output_file(const char *what, const char *path,
                         ls_status (*write)(FILE *stream, void *context), void *context)
{
    ls_status status = ls_whole_file(what, path, write, context);
    if (status)
        ls_status_free(write(ls_output(), context));
    return status;
}

bool ls_output_is_named(const char *path)
{
    static const char *const names[] = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", NULL};
    return ls_name_is_among(path, names);
}
