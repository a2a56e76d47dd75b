/* SPDX-License-Identifier: MIT */
/* Child; see child.h. Both outputs are read as they come, so that a full pipe stops nobody. */
#include "bench/regress/child.h"

#include "bench/train/interrupt.h"
#include "common/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICK_MS = 200, TEXT_MOST = 64 << 20 };

extern char **environ;

typedef struct stream {
    int read_end, write_end;
    char *text;
    size_t used, room;
} stream;

static ls_status open_pipe(stream *s)
{
    int ends[2];
    *s = (stream){-1, -1, calloc(1, 1), 0, 1};
    if (!s->text || pipe2(ends, O_CLOEXEC) != 0)
        return ls_fail(LS_CODE_MISSING, "regress", "pipe", "%s", strerror(errno));
    s->read_end = ends[0];
    s->write_end = ends[1];
    return LS_OK;
}

static void close_end(int *end)
{
    if (*end >= 0)
        close(*end);
    *end = -1;
}

/* Takes what is there; at the end of the stream closes it. */
static ls_status take(stream *s)
{
    if (s->room - s->used < 65536) {
        char *text = s->room < TEXT_MOST ? realloc(s->text, 2 * s->room + 65536) : NULL;
        if (!text)
            return ls_fail_memory("output of a program", 2 * s->room);
        s->text = text;
        s->room = 2 * s->room + 65536;
    }
    const ssize_t got = read(s->read_end, s->text + s->used, s->room - s->used - 1);
    if (got > 0)
        s->used += (size_t)got;
    else if (got == 0 || errno != EINTR)
        close_end(&s->read_end);
    s->text[s->used] = 0;
    return LS_OK;
}

static ls_status start(char *const argv[], const char *folder, stream streams[2], pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults); /* this program ignores SIGPIPE; the other one is not to inherit it */
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, streams[0].write_end, 1);
    posix_spawn_file_actions_adddup2(&actions, streams[1].write_end, 2);
    if (folder)
        posix_spawn_file_actions_addchdir_np(&actions, folder);
    const int error = posix_spawnp(pid, argv[0], &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (!error)
        return LS_OK;
    return ls_fail(LS_CODE_MISSING, "regress", argv[0],
                   "cannot be started: %s; give a lockstep program, or a results file (.jsonl, "
                   ".db)",
                   strerror(error));
}

static ls_status watch(const char *name, stream streams[2], uint64_t limit_ns)
{
    const uint64_t begin = ls_clock_ns();
    while (streams[0].read_end >= 0 || streams[1].read_end >= 0) {
        struct pollfd polled[2] = {{streams[0].read_end, POLLIN, 0},
                                   {streams[1].read_end, POLLIN, 0}};
        const int ready = poll(polled, 2, TICK_MS);
        if (ls_interrupted())
            return ls_fail(LS_CODE_INTERRUPTED, "regress", NULL, "interrupted");
        if (ls_clock_ns() - begin > limit_ns)
            return ls_fail(LS_CODE_MISSING, "regress", name,
                           "is not over after %.0f s; it was killed", (double)limit_ns * 1e-9);
        for (int i = 0; i < 2 && ready > 0; i++)
            if (polled[i].revents)
                LS_TRY(take(&streams[i]));
    }
    return LS_OK;
}

ls_status ls_child_run(char *const argv[], const char *folder, uint64_t limit_ns, ls_child *out)
{
    stream streams[2] = {{-1, -1, NULL, 0, 0}, {-1, -1, NULL, 0, 0}};
    pid_t pid = 0;
    int state = 0;
    *out = (ls_child){0};
    ls_status status = open_pipe(&streams[0]);
    if (!status)
        status = open_pipe(&streams[1]);
    if (!status)
        status = start(argv, folder, streams, &pid);
    for (int i = 0; i < 2; i++)
        close_end(&streams[i].write_end);
    if (!status) {
        status = watch(argv[0], streams, limit_ns);
        if (status)
            kill(-pid, SIGKILL);
        while (waitpid(pid, &state, 0) < 0 && errno == EINTR)
            ;
    }
    for (int i = 0; i < 2; i++)
        close_end(&streams[i].read_end);
    out->out = streams[0].text;
    out->err = streams[1].text;
    out->signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
    out->code = out->signal ? 128 + out->signal : WEXITSTATUS(state);
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
    snprintf(text, size, "%.*s", (int)(end - line), line);
    return text;
}
