/* SPDX-License-Identifier: MIT */
/*
 * Watch; see watch.h. It counts checks instead of time: while this process was stopped nothing
 * could progress, and that counts as one check.
 */
#include "common/device/watch.h"

#include "common/base/clock.h"
#include "common/device/backend.h"
#include "common/device/link.h"

#include <stdlib.h>

enum { LOOKS = 8 }; /* per timeout */

typedef struct watched {
    struct watched *next;
    ls_queue *queue;
    ls_activity seen; /* at the last check */
    uint64_t replays; /* before ls_watch_begin */
} watched;

struct ls_watch {
    watched *first, **end; /* in the order of opening */
    uint64_t patience_ns, moved_ns, lost_ns;
    int looks; /* since something progressed */
    const ls_device *lost;
};

ls_status ls_watch_open(uint64_t timeout_ns, ls_watch **out)
{
    ls_watch *watch;
    LS_TRY(ls_allocate("watch", &watch, 1, sizeof *watch));
    watch->end = &watch->first;
    watch->patience_ns = timeout_ns / LOOKS + 1;
    *out = watch;
    return LS_OK;
}

void ls_watch_close(ls_watch *watch)
{
    while (watch && watch->first)
        ls_watch_remove(watch, watch->first->queue);
    free(watch);
}

void ls_device_watch(ls_device *device, ls_watch *watch)
{
    device->watch = watch;
}

ls_status ls_watch_add(ls_watch *watch, ls_queue *queue)
{
    watched *w;
    LS_TRY(ls_allocate("watch", &w, 1, sizeof *w));
    w->queue = queue;
    *watch->end = w;
    watch->end = &w->next;
    return LS_OK;
}

void ls_watch_remove(ls_watch *watch, const ls_queue *queue)
{
    for (watched **at = &watch->first; *at; at = &(*at)->next) {
        if ((*at)->queue != queue)
            continue;
        watched *removed = *at;
        *at = removed->next;
        if (!*at)
            watch->end = at;
        free(removed);
        return;
    }
}

static ls_activity activity_of(const ls_queue *queue)
{
    ls_activity now = {.kind = LS_AT_REST};
    queue->device->backend->queue_activity(queue, &now);
    return now;
}

void ls_watch_begin(ls_watch *watch, uint64_t step)
{
    for (watched *w = watch ? watch->first : NULL; w; w = w->next) {
        const ls_device_backend *backend = w->queue->device->backend;
        if (backend->queue_begin)
            backend->queue_begin(w->queue, step);
        else
            w->replays = activity_of(w->queue).replays;
    }
}

ls_activity ls_watch_activity(const ls_watch *watch, const ls_device *device)
{
    ls_activity most = {.kind = LS_AT_REST};
    for (const watched *w = watch->first; w; w = w->next) {
        ls_activity now = activity_of(w->queue);
        now.replays -= w->replays;
        if (w->queue->device == device && now.kind > most.kind)
            most = now;
    }
    return most;
}

ls_queue *ls_watch_queue(const ls_watch *watch, const ls_device *device)
{
    const watched *w = watch->first;
    while (w && w->queue->device != device)
        w = w->next;
    return w ? w->queue : NULL;
}

bool ls_watch_lost(const ls_watch *watch)
{
    return watch && watch->lost;
}

double ls_watch_seconds(const ls_watch *watch)
{
    return (double)(watch->lost_ns - watch->moved_ns) * 1e-9;
}

uint64_t ls_watch_patience_ns(const ls_watch *watch)
{
    return watch->patience_ns;
}

/* Whether any queue progressed since the last check, or sleeps for a transfer in flight: its end is
 * known, however long it takes (link.h). */
static bool has_moved(ls_watch *watch)
{
    const uint64_t now_ns = ls_clock_ns();
    bool moved = false;
    for (watched *w = watch->first; w; w = w->next) {
        ls_network *network = w->queue->device->network;
        moved |= network && ls_network_arrival_ns(network) > now_ns;
        const ls_activity now = activity_of(w->queue);
        moved |= now.command != w->seen.command || now.done != w->seen.done ||
                 now.replays != w->seen.replays;
        w->seen = now;
    }
    return moved;
}

static bool is_gpu(const ls_device *device)
{
    return device->info.name.kind == LS_DEVICE_GPU;
}

/* The device that hangs: of GPUs at work, the one that has finished the fewest steps, since a
 * stream does not tell whether it computes or waits for another's event. Without a GPU at work, the
 * CPU at work if no other CPU is; if none works, the first that waits. NULL means no device delays
 * another. */
static const ls_device *find_lost(const ls_watch *watch)
{
    const ls_device *works = NULL, *waits = NULL, *gpu = NULL;
    uint64_t fewest = 0;
    bool rests = false;
    for (const watched *w = watch->first; w; w = w->next) {
        const ls_device *device = w->queue->device;
        const ls_activity now = ls_watch_activity(watch, device);
        if (now.kind == LS_AT_WORK && is_gpu(device) && (!gpu || now.replays < fewest)) {
            gpu = device;
            fewest = now.replays;
        }
        rests |= now.kind != LS_AT_WORK;
        if (now.kind == LS_AT_WORK && !works)
            works = device;
        if (now.kind == LS_AT_WAIT && !waits)
            waits = device;
    }
    if (gpu)
        return gpu;
    return works && rests ? works : works ? NULL : waits;
}

static ls_status fail_lost(const ls_watch *watch)
{
    const ls_activity at = ls_watch_activity(watch, watch->lost);
    const bool gpu = is_gpu(watch->lost);
    return ls_status_final(ls_fail(LS_CODE_MISSING, "device", watch->lost->info.text,
                                   "this device has made no progress%s%s for %.1f s%s; find what "
                                   "stops the device, or raise --timeout",
                                   gpu ? " in " : "", gpu ? at.what : "", ls_watch_seconds(watch),
                                   gpu ? "" : ", while other devices wait for it"));
}

ls_status ls_watch_look(ls_watch *watch)
{
    if (!watch->lost && has_moved(watch)) {
        watch->looks = 0;
        watch->moved_ns = ls_clock_ns();
    } else if (!watch->lost && ++watch->looks >= LOOKS) {
        watch->lost = find_lost(watch);
        watch->lost_ns = ls_clock_ns();
        if (watch->lost && is_gpu(watch->lost)) {
            /* From here on, no GPU is called, since it may never answer. */
            for (const watched *w = watch->first; w; w = w->next)
                if (is_gpu(w->queue->device) && !w->queue->device->lost)
                    ls_device_lose(w->queue->device);
        }
    }
    return watch->lost ? fail_lost(watch) : LS_OK;
}
