/* SPDX-License-Identifier: MIT */
/* Pulse: progress of a list of queues; see pulse.h. */
#include "common/device/pulse.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct ls_pulse {
    pthread_mutex_t mutex; /* guards the list: no queue is closed while it is read */
    ls_pulse_entry *first;
    _Atomic uint64_t beats;
    uint64_t seen; /* their progress when last read */
};

ls_status ls_pulse_open(ls_pulse **out)
{
    ls_pulse *pulse = calloc(1, sizeof *pulse);
    if (!pulse)
        return ls_fail_memory("pulse", sizeof *pulse);
    pthread_mutex_init(&pulse->mutex, NULL);
    *out = pulse;
    return LS_OK;
}

void ls_pulse_close(ls_pulse *pulse)
{
    if (!pulse)
        return;
    pthread_mutex_destroy(&pulse->mutex);
    free(pulse);
}

void ls_pulse_add(ls_pulse *pulse, ls_pulse_entry *entry)
{
    if (!pulse)
        return;
    pthread_mutex_lock(&pulse->mutex);
    entry->next = pulse->first;
    pulse->first = entry;
    pthread_mutex_unlock(&pulse->mutex);
}

void ls_pulse_remove(ls_pulse *pulse, ls_pulse_entry *entry)
{
    if (!pulse)
        return;
    pthread_mutex_lock(&pulse->mutex);
    ls_pulse_entry **at = &pulse->first;
    while (*at && *at != entry)
        at = &(*at)->next;
    if (*at)
        *at = entry->next;
    pthread_mutex_unlock(&pulse->mutex);
}

void ls_pulse_beat(ls_pulse *pulse)
{
    if (pulse)
        atomic_fetch_add_explicit(&pulse->beats, 1, memory_order_relaxed);
}

bool ls_pulse_moved(ls_pulse *pulse)
{
    const uint64_t beats = atomic_load_explicit(&pulse->beats, memory_order_relaxed);
    bool moved = beats != pulse->seen;
    pulse->seen = beats;
    pthread_mutex_lock(&pulse->mutex);
    for (ls_pulse_entry *p = pulse->first; p; p = p->next) {
        const uint64_t now = p->progress(p->queue);
        moved |= now != p->seen;
        p->seen = now;
    }
    pthread_mutex_unlock(&pulse->mutex);
    return moved;
}
