/* SPDX-License-Identifier: MIT */
/* The engine `ports`, and the choice of an engine; see engine.h. */
#include "bench/play/engine.h"

#include "bench/train/interrupt.h"
#include "common/base/grow.h"
#include "build_info.h"

#include <stdlib.h>

/* ---- Events, earliest first; equal ones in the order of their numbers ------------------------ */

/* The order of events at equal times. */
typedef enum event_kind {
    ENDS,  /* the activity has ended */
    READY, /* the message is ready */
    LOOK,  /* at core number `node` */
    DISPATCH
} event_kind;

typedef struct event {
    double ns;
    uint32_t node;
    uint32_t looks; /* of the core; other ones by then: the event is void */
    event_kind kind;
} event;

typedef struct heap {
    event *items;
    size_t count;
    ls_status failed;
} heap;

static bool before(const event *a, const event *b)
{
    if (a->ns < b->ns || a->ns > b->ns)
        return a->ns < b->ns;
    if (a->kind != b->kind)
        return a->kind < b->kind;
    return a->node < b->node;
}

/* Where memory is short, sets h->failed. */
static void push(heap *h, event e)
{
    if (!h->failed)
        h->failed = ls_grow("activities", &h->items, h->count, sizeof e);
    if (h->failed)
        return;
    size_t at = h->count++;
    for (; at && before(&e, &h->items[(at - 1) / 2]); at = (at - 1) / 2)
        h->items[at] = h->items[(at - 1) / 2];
    h->items[at] = e;
}

static event pop(heap *h)
{
    const event top = h->items[0], last = h->items[--h->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < h->count; at = child) {
        if (child + 1 < h->count && before(&h->items[child + 1], &h->items[child]))
            child++;
        if (!before(&h->items[child], &last))
            break;
        h->items[at] = h->items[child];
    }
    h->items[at] = last;
    return top;
}

/* ---- Playing -------------------------------------------------------------------------------- */

typedef struct player {
    const ls_play *play;
    heap events;
    uint32_t *left;         /* [count] activities that each still waits for */
    ls_core *cores;         /* NULL if delays share no cores */
    ls_core_work *works;    /* [count] */
    double *out_ns, *in_ns; /* [devices, hosts] until when ports are booked; one allocation */
    double *end_ns;
    size_t ended;
} player;

static void free_player(player *p)
{
    free(p->events.items);
    free(p->cores);
    free(p->works);
    free(p->left);
    free(p->out_ns);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* When a port has served a message that is ready at `ns`, and is its next. */
static double serve(double *port_ns, double ns, double bytes, double bytes_per_s)
{
    *port_ns = larger(*port_ns, ns) + (bytes_per_s > 0 ? bytes * 1e9 / bytes_per_s : 0);
    return *port_ns;
}

/* On two levels. No port waits for another one, so that a message whose turn at a host's port is
 * later keeps nothing within the host waiting. */
static double serve_levels(player *p, const ls_activity_node *node, double ns)
{
    const ls_platform *net = p->play->platform;
    const int devices = p->play->devices, per_host = p->play->devices_per_host;
    const int from = node->from / per_host, to = node->to / per_host;
    const double bytes = node->amount, within = net->device.bytes_per_s;
    const double rate = net->net.bytes_per_s;
    double end = larger(serve(&p->out_ns[node->from], ns, bytes, within),
                        serve(&p->in_ns[node->to], ns, bytes, within));
    if (from != to) {
        end = larger(end, serve(&p->out_ns[devices + from], ns, bytes, rate));
        end = larger(end, serve(&p->in_ns[devices + to], ns, bytes, rate));
    }
    return end;
}

/* When a message that is ready at `ns` ends. */
static double end_of(player *p, ls_activity_node node, double ns)
{
    const ls_platform_level net =
        ls_platform_path(p->play->platform, p->play->devices_per_host, node.from, node.to);
    if (p->play->platform->kind == LS_PLATFORM_TWO_LEVEL)
        return serve_levels(p, &node, ns) + node.rounds * net.latency_ns;
    double start = larger(ns, larger(p->out_ns[node.from], p->in_ns[node.to]));
    start += net.bytes_per_s > 0 ? node.amount * 1e9 / net.bytes_per_s : 0;
    p->out_ns[node.from] = p->in_ns[node.to] = start;
    return start + node.rounds * net.latency_ns;
}

static void push_look(player *p, uint32_t core)
{
    const double ns = ls_core_next(&p->cores[core], p->works);
    if (ns < LS_CORE_NEVER)
        push(&p->events, (event){ns, core, p->cores[core].looks, LOOK});
}

/* A delay ends in time, or when its core has run it; a message waits for its turn. */
static void release(player *p, uint32_t number, double ns)
{
    const ls_play *play = p->play;
    const ls_activity_node node = ls_play_activity(play->graph, number);
    if (p->cores && ls_play_computes(&node)) {
        const size_t core = ls_core_of(node.from, play->devices_per_host, play->cores);
        ls_core_begin(&p->cores[core], p->works, number, ls_play_amount(play, &node), play->turn_ns,
                      ns);
        push_look(p, (uint32_t)core);
        return;
    }
    const bool delays = node.to < 0;
    const double at_ns = delays ? ns + ls_play_amount(play, &node) : ns;
    push(&p->events, (event){at_ns, number, 0, delays ? ENDS : READY});
}

static void end(player *p, uint32_t node, double ns)
{
    const ls_play_graph *g = p->play->graph;
    const uint32_t behind = (uint32_t)(ls_play_again(g, node) * g->repeated);
    p->end_ns[node] = ns;
    p->ended++;
    for (size_t e = g->first[node - behind]; e < g->first[node - behind + 1]; e++) {
        const uint32_t next = g->next[e] + behind;
        if (next < g->played && --p->left[next] == 0)
            release(p, next, ns);
    }
}

/* What ended there may go on with a follower, which is ready by the time of the dispatch. */
static void look(player *p, event e)
{
    ls_core *core = &p->cores[e.node];
    if (core->looks != e.looks && e.kind == LOOK)
        return;
    if (e.kind == DISPATCH) {
        ls_core_dispatch(core, p->works, p->play->turn_ns, e.ns);
        push_look(p, e.node);
        return;
    }
    const uint32_t ended = ls_core_look(core, p->works, p->play->turn_ns, e.ns);
    if (ended == LS_CORE_IDLE) {
        push_look(p, e.node);
        return;
    }
    push(&p->events, (event){.ns = e.ns, .node = e.node, .kind = DISPATCH});
    end(p, ended, e.ns);
}

static ls_status run(player *p)
{
    const ls_play_graph *g = p->play->graph;
    for (size_t n = 0; n < g->played; n++) {
        p->left[n] = ls_play_activity(g, n).waits;
        if (!p->left[n])
            release(p, (uint32_t)n, 0);
    }
    enum { BETWEEN = 4096 }; /* events, looks at the interrupt */
    for (size_t seen = 0; p->events.count; seen++) {
        if (seen % BETWEEN == 0 && ls_interrupted())
            return ls_engine_interrupted();
        const event e = pop(&p->events);
        if (e.kind == READY)
            push(&p->events,
                 (event){end_of(p, ls_play_activity(g, e.node), e.ns), e.node, 0, ENDS});
        else if (e.kind == ENDS)
            end(p, e.node, e.ns);
        else
            look(p, e);
    }
    if (p->ended == g->played || p->events.failed)
        return LS_OK;
    return ls_fail(
        LS_CODE_CHECK, "engine", "ports",
        "%zu of %zu activities (computations and messages) wait for each other, so the simulation "
        "never ends; this is a bug of the strategy: lockstep verify shows where",
        g->played - p->ended, g->played);
}

static ls_status play_by_ports(const ls_play *play, double *end_ns)
{
    const size_t count = play->graph->played;
    const size_t ports = 2 * (size_t)play->devices; /* no more hosts than devices */
    const int hosts = play->cores ? (play->devices - 1) / play->devices_per_host + 1 : 0;
    const size_t cores = (size_t)play->cores * (size_t)hosts;
    ls_closing(free_player) player p = {.play = play, .end_ns = end_ns};
    if (cores) {
        LS_TRY(ls_allocate("activities", &p.cores, cores, sizeof *p.cores));
        LS_TRY(ls_allocate("activities", &p.works, count + 1, sizeof *p.works));
    }
    for (size_t i = 0; i < cores; i++)
        p.cores[i] = (ls_core)LS_CORE_FREE;
    LS_TRY(ls_allocate("activities", &p.left, count + 1, sizeof *p.left));
    LS_TRY(ls_allocate("activities", &p.out_ns, 2 * ports, sizeof *p.out_ns));
    p.in_ns = p.out_ns + ports;
    ls_status status = run(&p);
    return ls_status_first(p.events.failed, status);
}

/* ---- Choice --------------------------------------------------------------------------------- */

const char *const ls_engine_words[] = {"auto", "simgrid", "ports", NULL};

ls_status ls_engine_choose(const ls_platform *platform, ls_engine *engine)
{
    const bool flat = platform->kind <= LS_PLATFORM_FLAT;
    if (*engine == LS_ENGINE_AUTO)
        *engine = flat ? LS_ENGINE_PORTS : LS_ENGINE_SIMGRID;
    if (*engine == LS_ENGINE_PORTS && !flat)
        return ls_fail(LS_CODE_USAGE, "option --engine", "ports",
                       "'ports' simulates flat platforms only; use --engine simgrid");
#if !LS_HAS_SIMGRID
    if (*engine == LS_ENGINE_SIMGRID)
        return ls_fail(LS_CODE_MISSING, "option --engine", "simgrid",
                       "this build does not have SimGrid; install libsimgrid-dev and build with "
                       "-DLOCKSTEP_SIMGRID=ON, or use --platform flat:.. with --engine ports");
#endif
    return LS_OK;
}

ls_status ls_engine_interrupted(void)
{
    return ls_fail(LS_CODE_INTERRUPTED, "predict", "play", "the simulation was interrupted");
}

ls_status ls_engine_play(ls_engine engine, const ls_play *play, size_t plays, double *end_ns)
{
#if LS_HAS_SIMGRID
    if (engine == LS_ENGINE_SIMGRID)
        return ls_simgrid_play(play, plays, end_ns);
#endif
    (void)engine;
    ls_play one = *play;
    for (size_t i = 0; i < plays; i++) {
        LS_TRY(play_by_ports(&one, end_ns + i * play->graph->played));
        one.factors = one.factors ? one.factors + one.factor_count : NULL;
    }
    return LS_OK;
}
