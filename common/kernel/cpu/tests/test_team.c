/* SPDX-License-Identifier: MIT */
/*
 * Teams smaller than asked for: at opening, by what the environment or a limit says (the test runs
 * itself again with each), and later, by what an operation does to its thread. Work that would be
 * divided wrongly fails, and says why. Exact. Needs two cores.
 */
#include "common/kernel/tests/kernel_fixture.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The thread sanitizer gives each thread a stack that it likes. */
#if defined(__SANITIZE_THREAD__)
#define SMALL_STACK LS_CODE_OK, "ok"
#else
#define SMALL_STACK LS_CODE_MISSING, "OMP_STACKSIZE"
#endif

enum { CORES = 2, SIDE = 256, COUNT = SIDE * SIDE, SKIPPED = 77 };

extern void omp_set_num_threads(int);
extern void omp_set_dynamic(int);
extern void omp_set_max_active_levels(int);

static int setup_cores(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    fixture_open(f, CORES);
    *state = f;
    return 0;
}

/* ---- At opening ------------------------------------------------------------------------------ */

/* The process that runs itself again: what of a device is refused, on standard output. */
static int open_device(const char *limit)
{
    const rlim_t threads = strtoul(limit, NULL, 10);
    const struct rlimit most = {threads, threads};
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {.kind = LS_DEVICE_CPU, .logical = -1};
    ls_machine *machine;
    ls_device *device;
    ls_queue *queue;
    if (threads && (setrlimit(RLIMIT_NPROC, &most) || (geteuid() == 0 && setuid(65531))))
        return SKIPPED;
    ls_status status = ls_machine_open(&(ls_machine_options){.cores_per_device = CORES}, &machine);
    if (!status)
        status = ls_device_open(machine, &name, &policy, &device);
    if (!status)
        status = ls_queue_open(device, "test", &queue);
    printf("%s\n", ls_status_text(status));
    fflush(stdout);
    _exit((int)ls_status_code(status));
}

static void a_smaller_team_is_refused(void **state)
{
    static const struct {
        const char *variable, *limit;
        ls_code code;
        const char *words;
    } tries[] = {
        {"OMP_THREAD_LIMIT=1", "", LS_CODE_MISSING, "OMP_THREAD_LIMIT"},
        {"OMP_THREAD_LIMIT=2", "", LS_CODE_OK, "ok"},
        {"OMP_MAX_ACTIVE_LEVELS=0", "", LS_CODE_OK, "ok"},
        {"OMP_DYNAMIC=true", "", LS_CODE_OK, "ok"},
        {"OMP_NUM_THREADS=1", "", LS_CODE_OK, "ok"},
        {"OMP_NUM_THREADS=4,2", "", LS_CODE_OK, "ok"},
        {"OMP_STACKSIZE=24k", "", SMALL_STACK},
        {"GOMP_STACKSIZE=64", "", SMALL_STACK},
        {"OMP_PROC_BIND=true", "", LS_CODE_MISSING, "OMP_PROC_BIND"},
        {"OMP_PLACES={0}", "", LS_CODE_MISSING, "OMP_PLACES"},
        {"GOMP_CPU_AFFINITY=0", "", LS_CODE_MISSING, "GOMP_CPU_AFFINITY"},
        {"OMP_PROC_BIND=false", "", LS_CODE_OK, "ok"},
        {"LANG=C", "1", LS_CODE_MISSING, "ulimit -u"}, /* the first thread */
        {"LANG=C", "3", LS_CODE_MISSING, "ulimit -u"}, /* the team's */
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        char command[256], said[512] = "";
        const char *variable = tries[i].variable;
        snprintf(command, sizeof command, "%s /proc/%d/exe open '%s' 2>&1", variable, getpid(),
                 tries[i].limit);
        FILE *pipe = popen(command, "r");
        assert_non_null(pipe);
        const size_t length = fread(said, 1, sizeof said - 1, pipe);
        const int end = pclose(pipe);
        const int code = WIFEXITED(end) ? WEXITSTATUS(end) : -1;
        if (code == SKIPPED)
            continue;
        if (code != (int)tries[i].code || !strstr(said, tries[i].words) ||
            strcspn(said, "\n") + 1 != length)
            fail_msg("%s %s: code %d, '%s'", variable, tries[i].limit, code, said);
    }
}

/* ---- While it runs --------------------------------------------------------------------------- */

typedef struct meddler {
    ls_op op;
    void (*set)(int);
    int value, usual;
} meddler;

static ls_status meddle(ls_op *op, ls_queue *queue)
{
    const meddler *m = (const meddler *)op;
    m->set(m->value);
    return LS_OK;
}

/* A product, by the library where it has AVX-512, and a loop of ours. */
static void make_work(fixture *f, const float *x, float *y, ls_op *out[2])
{
    const ls_gemm_args gemm = {.m = SIDE, .n = SIDE, .k = SIDE, .a = x, .b = x, .c = y};
    const ls_relu_forward_args relu = {.count = COUNT, .x = x, .y = y};
    must(f->cpu->table->gemm(f->cpu, &gemm, &out[0]));
    must(f->cpu->table->relu_forward(f->cpu, &relu, &out[1]));
}

/* A setting of the queue's thread that a team depends on: work fails until it is as usual. */
static void a_team_that_shrinks_fails(void **state)
{
    static const struct {
        void (*set)(int);
        int value, usual;
        const char *words;
        bool ours; /* our loops ask for a number, and get it */
    } settings[] = {{omp_set_max_active_levels, 0, 1, "OMP_MAX_ACTIVE_LEVELS", true},
                    {omp_set_dynamic, 1, 0, "OMP_DYNAMIC", false},
                    {omp_set_num_threads, 1, CORES, "omp_set_num_threads", false}};
    fixture *f = *state;
    float *x = randoms(COUNT, 1), *y = randoms(COUNT, 2), *want = randoms(COUNT, 2);
    ls_op *work[2];
    make_work(f, x, y, work);
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        for (int w = 0; w < 2; w++) {
            meddler m = {.op = {.name = "meddler", .run = meddle}, .set = settings[s].set};
            must(ls_queue_enqueue(f->queue, work[w]));
            must(ls_queue_sync(f->queue));
            memcpy(want, y, COUNT * sizeof *y);
            m.value = settings[s].value;
            must(ls_queue_enqueue(f->queue, &m.op));
            must(ls_queue_enqueue(f->queue, work[w]));
            ls_status status = ls_queue_sync(f->queue);
            if (w == 0 || settings[s].ours)
                must_refuse(status, LS_CODE_MISSING, settings[s].words);
            else
                ls_status_free(status);
            m.value = settings[s].usual;
            must(ls_queue_enqueue(f->queue, &m.op));
            must(ls_queue_enqueue(f->queue, work[w]));
            must(ls_queue_sync(f->queue));
            same_bits("result", y, want, COUNT * sizeof *y);
        }
    }
    ls_op_free(work[0]);
    ls_op_free(work[1]);
    free(x);
    free(y);
    free(want);
}

/* With narrower vectors the product is our own. */
static void a_team_that_shrinks_fails_in_our_product_too(void **state)
{
    char command[96];
    snprintf(command, sizeof command, "DNNL_MAX_CPU_ISA=SSE41 /proc/%d/exe narrow 2>&1", getpid());
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char said[2048] = "";
    const size_t length = fread(said, 1, sizeof said - 1, pipe);
    if (pclose(pipe))
        fail_msg("%.*s", (int)length, said);
}

int main(int count, char **arguments)
{
    if (count > 2)
        return open_device(arguments[2]);
    const struct CMUnitTest narrow[] = {
        cmocka_unit_test_setup_teardown(a_team_that_shrinks_fails, setup_cores, teardown)};
    if (count > 1)
        return cmocka_run_group_tests(narrow, NULL, NULL);
    if (sysconf(_SC_NPROCESSORS_ONLN) < CORES) {
        printf("skipped: a team needs two cores\n");
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_smaller_team_is_refused),
        cmocka_unit_test_setup_teardown(a_team_that_shrinks_fails, setup_cores, teardown),
        cmocka_unit_test(a_team_that_shrinks_fails_in_our_product_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
