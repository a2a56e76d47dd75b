/* SPDX-License-Identifier: MIT */
/*
 * Chrome's JSON, one event per line: names of processes and threads, slices (X), messages and
 * copies as flows (s, f). Times are in us from the window's beginning, with ns resolution.
 */
#include "bench/trace/whole.h"

#include "bench/rows/row.h"
#include "common/base/numbers.h"
#include "common/base/whole_file.h"

#include <stdio.h>

typedef struct writer {
    const ls_whole_trace *whole;
    FILE *file;
    int devices;
    json_t *other; /* what is said of all events; borrowed */
    bool any;      /* an event has been written */
} writer;

/* ---- Who ------------------------------------------------------------------------------------- */

static int pid_of(const writer *w, int lane)
{
    const int number = w->whole->trace.lanes[lane].number;
    return w->whole->ranks > 1 ? w->whole->process[lane] : number / w->devices;
}

static int tid_of(const writer *w, int lane)
{
    int first = lane;
    while (first > 0 && w->whole->process[first - 1] == w->whole->process[lane])
        first--;
    return lane - first + 1;
}

static void begin_event(writer *w)
{
    fputs(w->any ? ",\n" : "\n", w->file);
    w->any = true;
}

static void name_lanes(writer *w)
{
    const ls_trace *t = &w->whole->trace;
    int named = -1;
    for (int l = 0; l < (int)t->lane_count; l++) {
        if (!t->lanes[l].used)
            continue;
        const int pid = pid_of(w, l), tid = tid_of(w, l);
        if (pid > named) {
            begin_event(w);
            fprintf(w->file,
                    "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":"
                    "{\"name\":\"rank %d\"}}",
                    pid, tid, pid);
            named = pid;
        }
        begin_event(w);
        fprintf(w->file,
                "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":"
                "\"%s\"}},\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,"
                "\"args\":{\"sort_index\":%d}}",
                pid, tid, t->lanes[l].name, pid, tid, tid);
    }
}

/* ---- Slices ---------------------------------------------------------------------------------- */

const char *const ls_trace_categories[LS_TIME_USES] = {
    [LS_TIME_COMPUTE] = "compute",
    [LS_TIME_BACKWARD] = "backward",
    [LS_TIME_WEIGHTS] = "backward",
    [LS_TIME_OPTIMIZER] = "optimizer",
    [LS_TIME_COMMUNICATION] = "communication",
    [LS_TIME_COPY] = "copy",
    [LS_TIME_GATHER] = "copy",
    [LS_TIME_WAIT] = "wait",
    [LS_TIME_DELAY] = "wait",
    [LS_TIME_IDLE] = "wait",
    [LS_TIME_HARNESS] = "compute",
};

/* "12.345": a time or a duration, in us. */
static void put_us(const writer *w, const char *key, uint64_t ns)
{
    fprintf(w->file, ",\"%s\":%llu.%03u", key, (unsigned long long)(ns / 1000),
            (unsigned)(ns % 1000));
}

static void put_position(const writer *w, int lane, uint64_t ns)
{
    fprintf(w->file, ",\"pid\":%d,\"tid\":%d", pid_of(w, lane), tid_of(w, lane));
    put_us(w, "ts", ns - w->whole->begin_ns);
}

static void put_slice(writer *w, int lane, const ls_shown *shown)
{
    static const ls_trace_slice end = {
        .name = "wait for the others' end", .stage = -1, .microbatch = -1};
    const bool ends = shown->slice == LS_SHOWN_END;
    const ls_trace_slice *s = ends ? &end : &w->whole->trace.slices[shown->slice];
    const int step = ends ? (int)w->whole->steps : s->step + 1 - w->whole->lead;
    begin_event(w);
    fprintf(w->file, "{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\"", s->name,
            ls_trace_categories[shown->use]);
    put_position(w, lane, shown->begin_ns);
    put_us(w, "dur", shown->end_ns - shown->begin_ns);
    fprintf(w->file, ",\"args\":{\"layer\":\"%s\",\"bytes\":%.0f,\"flops\":%.0f,\"step\":%d",
            s->layer, s->bytes, s->flops, step);
    if (s->stage >= 0)
        fprintf(w->file, ",\"stage\":%d", s->stage);
    if (s->microbatch >= 0)
        fprintf(w->file, ",\"microbatch\":%d", s->microbatch);
    if (shown->use == LS_TIME_WEIGHTS)
        fputs(",\"pass\":\"weights\"", w->file);
    if (*s->partner)
        fprintf(w->file, ",\"partner\":\"%s\"", s->partner);
    fputs(!ends && w->whole->critical[shown->slice] ? ",\"critical\":true}}" : "}}", w->file);
}

/* ---- Flows ----------------------------------------------------------------------------------- */

/* The slice shown on a lane at a time, or the nearest one; NULL if there is none. */
static const ls_shown *nearest(const ls_whole_trace *whole, int lane, uint64_t ns)
{
    const size_t first = whole->shown_first[lane], count = whole->shown_first[lane + 1] - first;
    const ls_shown *shown = whole->shown + first;
    const size_t begun = ls_count_up_to(ns, &shown->begin_ns, count, sizeof *shown);
    return count ? shown + begun - (begun > 0) : NULL;
}

/* A time within a slice of the lane, near the given one. */
static uint64_t anchor(const ls_shown *shown, uint64_t ns)
{
    const uint64_t last = shown->end_ns - 1;
    return ns < shown->begin_ns ? shown->begin_ns : ns > last ? last : ns;
}

static void put_end(writer *w, char phase, size_t id, uint64_t bytes, int lane, uint64_t ns)
{
    begin_event(w);
    fprintf(w->file, "{\"name\":\"message\",\"cat\":\"flow\",\"ph\":\"%c\",\"id\":%zu%s", phase, id,
            phase == 'f' ? ",\"bp\":\"e\"" : "");
    put_position(w, lane, ns);
    fprintf(w->file, ",\"args\":{\"bytes\":%llu}}", (unsigned long long)bytes);
}

/* The slice of a lane that received what was sent: at that time, or the next one. */
static const ls_shown *receiving(const ls_whole_trace *whole, int lane, uint64_t sent, uint64_t ns)
{
    const ls_shown *found = nearest(whole, lane, ns);
    const ls_shown *end = whole->shown + whole->shown_first[lane + 1];
    while (found && found < end && found->end_ns <= sent)
        found++;
    return found == end ? NULL : found;
}

/* If the other lane shows nothing, like a server's on its own, the unknown end is put at the known
 * one. */
static void put_flow(writer *w, const ls_flow *flow, size_t id)
{
    const ls_trace *t = &w->whole->trace;
    const uint64_t begin = t->slices[flow->from_slice].begin_ns;
    const uint64_t end = t->slices[flow->to_slice].end_ns - 1;
    const int known = t->slices[flow->from_slice].lane;
    int from = flow->from_lane, to = flow->to_lane;
    const ls_shown *first = nearest(w->whole, from, begin);
    if (!first || first->begin_ns > end)
        first = nearest(w->whole, from = known, begin);
    if (!first)
        return;
    const uint64_t sent = anchor(first, begin);
    const ls_shown *last = receiving(w->whole, to, sent, end);
    if (!last)
        last = receiving(w->whole, to = from, sent, end);
    const uint64_t got = anchor(last, end > sent ? end : sent);
    put_end(w, 's', id, flow->bytes, from, sent);
    put_end(w, 'f', id, flow->bytes, to, got);
}

/* ---- What is known of the whole -------------------------------------------------------------- */

/* For one step on one queue. */
static json_t *waterfall_of(const uint64_t ns[LS_TIME_USES], double steps, double queues)
{
    double ms[LS_TIME_USES];
    for (int use = 0; use < LS_TIME_USES; use++)
        ms[use] = (double)ns[use] * 1e-6 / steps / queues;
    json_auto_t *row = json_object();
    ls_waterfall_put(row, ms);
    return json_incref(ls_row_make(row, LS_G_waterfall));
}

static json_t *describe_clocks(const ls_whole_trace *whole)
{
    json_t *clocks = json_array();
    for (int r = 0; r < whole->ranks; r++)
        json_array_append_new(clocks, json_pack("{s:i,s:f,s:f}", "rank", r, "offset_us",
                                                (double)whole->clocks[r].ns * 1e-3, "error_us",
                                                (double)whole->clocks[r].error_ns * 1e-3));
    return clocks;
}

static json_t *describe_queues(const writer *w)
{
    const ls_trace *t = &w->whole->trace;
    json_t *queues = json_array();
    for (int l = 0; l < (int)t->lane_count; l++)
        if (t->lanes[l].main)
            json_array_append_new(queues, json_pack("{s:i,s:i,s:s}", "pid", pid_of(w, l), "tid",
                                                    tid_of(w, l), "device", t->lanes[l].device));
    return queues;
}

/* Times are per step; of the path, `handover_ms` is the time between slices. */
static void describe(const writer *w, json_t *other)
{
    const ls_whole_trace *whole = w->whole;
    const double steps = (double)whole->steps, ms = 1e-6 / steps;
    json_t *path = waterfall_of(whole->path.ns, steps, 1);
    json_object_update_new(path, json_pack("{s:f,s:f}", "handover_ms",
                                           (double)whole->path.handover_ns * ms, "length_ms",
                                           (double)(whole->end_ns - whole->path.begin_ns) * ms));
    json_object_update_new(
        other,
        json_pack("{s:I,s:f,s:o,s:o,s:o,s:o}", "steps", (json_int_t)whole->steps, "step_ms",
                  (double)(whole->end_ns - whole->begin_ns) * ms, "waterfall",
                  waterfall_of(whole->parts.ns, steps, whole->main_lanes), "critical_path", path,
                  "main_queues", describe_queues(w), "clocks", describe_clocks(whole)));
    if (whole->trace.lost)
        json_object_set_new(other, "waits_left_out", json_integer((json_int_t)whole->trace.lost));
}

/* ---- The file -------------------------------------------------------------------------------- */

static ls_status write_all(FILE *file, void *context)
{
    writer w = *(const writer *)context;
    const ls_whole_trace *whole = w.whole;
    w.file = file;
    fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":", w.file);
    json_dumpf(w.other, w.file, JSON_COMPACT | JSON_REAL_PRECISION(9));
    fputs(",\"traceEvents\":[", w.file);
    name_lanes(&w);
    for (int l = 0; l < (int)whole->trace.lane_count; l++)
        for (size_t i = whole->shown_first[l]; i < whole->shown_first[l + 1]; i++)
            put_slice(&w, l, &whole->shown[i]);
    for (size_t i = 0; i < whole->flow_count; i++)
        put_flow(&w, &whole->flows[i], i + 1);
    fputs("\n]}\n", w.file);
    return LS_OK;
}

ls_status ls_trace_write(const ls_whole_trace *whole, const char *path, int devices, json_t *other)
{
    writer w = {.whole = whole, .devices = devices, .other = other};
    describe(&w, other);
    return ls_whole_file("--out", path, write_all, &w);
}
