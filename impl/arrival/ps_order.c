/* SPDX-License-Identifier: MIT */
/* Logs and histograms of served requests; see ps_order.h. */
#include "impl/arrival/ps_order.h"

void ls_ps_histogram_note(ls_ps_histogram *h, uint64_t value)
{
    h->bins[value < LS_PS_BINS ? value : LS_PS_BINS - 1]++;
    h->count++;
    h->sum += value;
    h->max = value > h->max ? value : h->max;
}

void ls_ps_histogram_join(ls_ps_histogram *sum, const ls_ps_histogram *more)
{
    for (int i = 0; i < LS_PS_BINS; i++)
        sum->bins[i] += more->bins[i];
    sum->count += more->count;
    sum->sum += more->sum;
    sum->max = more->max > sum->max ? more->max : sum->max;
}

void ls_ps_log_note(ls_ps_log *log, int worker, ls_ps_kind kind)
{
    if (log->count == log->capacity)
        log->lost++;
    else
        log->events[log->count++] = (ls_ps_event){(uint32_t)worker, (uint32_t)kind};
}
