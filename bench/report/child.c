/* SPDX-License-Identifier: MIT */
/*
 * Child process; see child.h. Its output goes to files in memory: nothing has to be read while it
 * runs, and a process that it leaves behind does not block this one.
 */
#include "bench/report/child.h"

#include "bench/train/interrupt.h"
#include "common/base/clock.h"
#include "common/base/escape.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICK_MS = 200, TICK_ALONE_MS = 5, TEXT_MOST = 64 << 20 };

extern char **environ;

static ls_status start(char *const argv[], const int ends[2], ls_child *child, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults); /* this program ignores them; the child must not */
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    if (child->input && fflush(child->input) == 0 && fseek(child->input, 0, SEEK_SET) == 0)
        posix_spawn_file_actions_adddup2(&actions, fileno(child->input), 0);
    else
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (child->folder)
        posix_spawn_file_actions_addchdir_np(&actions, child->folder);
    for (int i = 0; i < 2; i++)
        posix_spawn_file_actions_adddup2(&actions, ends[i], 1 + i);
    child->error = posix_spawnp(pid, argv[0], &actions, &attributes, argv,
                                child->environment ? child->environment : environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (!child->error)
        return LS_OK;
    if (!strchr(argv[0], '/') && access(argv[0], X_OK) == 0)
        return ls_fail(
            LS_CODE_MISSING, "program", argv[0],
            "no program of this name is in the PATH; use ./%s for the one in this folder", argv[0]);
    return ls_fail(LS_CODE_MISSING, "program", argv[0],
                   "this program cannot be started: %s; name a program that runs on this machine",
                   strerror(child->error));
}

/* Whether to keep waiting for it. */
static ls_status check(const char *name, const int ends[2], uint64_t begin, uint64_t limit_ns,
                       size_t most)
{
    struct stat facts;
    if (ls_interrupted())
        return ls_fail(LS_CODE_INTERRUPTED, "program", name,
                       "lockstep was interrupted, so this program was ended, too");
    if (ls_clock_ns() - begin > limit_ns)
        return ls_fail(LS_CODE_MISSING, "program", name,
                       "this program did not end within %.0f s and was killed; run it alone to see "
                       "why, or give it a smaller model or fewer cases",
                       (double)limit_ns * 1e-9);
    for (int i = 0; i < 2; i++)
        if (fstat(ends[i], &facts) == 0 && (size_t)facts.st_size > most)
            return ls_fail(LS_CODE_MISSING, "program", name,
                           "this program printed more than %zu MiB and was killed; see what it "
                           "prints when it runs alone",
                           most >> 20);
    return LS_OK;
}

/* Sleeps until the process ends; polls if the system cannot notify. */
static ls_status await(pid_t pid, const char *name, const int ends[2], uint64_t limit_ns,
                       size_t most, int *state)
{
    const uint64_t begin = ls_clock_ns();
    struct pollfd end = {(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
    ls_status status = LS_OK;
    while (waitpid(pid, state, status ? 0 : WNOHANG) != pid) {
        if (!status)
            status = check(name, ends, begin, limit_ns, most);
        if (status)
            kill(-pid, SIGKILL);
        else
            poll(&end, end.fd >= 0, end.fd >= 0 ? TICK_MS : TICK_ALONE_MS);
    }
    if (end.fd >= 0)
        close(end.fd);
    return status;
}

char *ls_child_read(int file, size_t *bytes)
{
    struct stat facts;
    char *text = fstat(file, &facts) == 0 ? calloc((size_t)facts.st_size + 1, 1) : NULL;
    const ssize_t size = text ? pread(file, text, (size_t)facts.st_size, 0) : 0;
    *bytes = size > 0 ? (size_t)size : 0;
    return text;
}

ls_status ls_child_run(char *const argv[], uint64_t limit_ns, ls_child *child)
{
    const int ends[2] = {memfd_create("stdout", MFD_CLOEXEC), memfd_create("stderr", MFD_CLOEXEC)};
    pid_t pid;
    int state = 0;
    size_t bytes;
    ls_status status = LS_OK;
    if (ends[0] < 0 || ends[1] < 0)
        status = ls_fail(
            LS_CODE_MISSING, "program", "temporary file in memory",
            "a file in memory cannot be created: %s; raise the limit on open files (ulimit -n)",
            strerror(errno));
    if (!status)
        status = start(argv, ends, child, &pid);
    if (!status)
        status = await(pid, argv[0], ends, limit_ns,
                       child->most > TEXT_MOST ? child->most : TEXT_MOST, &state);
    if (!status) {
        child->err = ls_child_read(ends[1], &bytes);
        child->out = ls_child_read(ends[0], &child->out_bytes);
        if (!child->err || !child->out)
            status = ls_fail_memory("output of a program", child->out_bytes);
    }
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    child->signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
    child->code = child->signal ? 128 + child->signal : WEXITSTATUS(state);
    return status;
}

void ls_child_free(ls_child *child)
{
    free(child->out);
    free(child->err);
    *child = (ls_child){0};
}

char *ls_child_says(const ls_child *child, char *text, size_t size)
{
    static const char head[] = "lockstep: ";
    const char *end = child->err + strlen(child->err);
    while (end > child->err && end[-1] == '\n')
        end--;
    const char *line = end;
    while (line > child->err && line[-1] != '\n')
        line--;
    if (strncmp(line, head, sizeof head - 1) == 0)
        line += sizeof head - 1;
    char *said = strndup(line, (size_t)(end - line));
    ls_escape_copy(text, size, said, LS_ESCAPE_LINE); /* it may print anything */
    free(said);
    return text;
}
