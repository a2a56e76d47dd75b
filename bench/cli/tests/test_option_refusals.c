/* SPDX-License-Identifier: MIT */
/* Options: every refusal of a command line: code, single line, and what the line names. */
#include "bench/cli/option_table.h"
#include "bench/tests/option_fixture.h"

static void test_unknown_options(void **state)
{
    (void)state;
    USAGE("run --modle mlp", "option: --modle: unknown option; did you mean --model?",
          "lockstep run --help");
    USAGE("run --mod mlp", "--mod: unknown", "not abbreviated", "--model");
    USAGE("run --mod=mlp", "not abbreviated");
    USAGE("run --step 5", "not abbreviated", "--steps");
    USAGE("run --zzzzzzzzz 5", "--zzzzzzzzz: unknown option");
    USAGE("run -m mlp", "-m: unknown option", "two dashes");
    USAGE("run -model mlp", "-model: unknown option");
    USAGE("run --", "takes no arguments after --");
    USAGE("run mlp", "argument: mlp: unexpected");
    USAGE("run --model mlp poly", "argument: poly: unexpected");
    USAGE("run --sizes 4KiB", "--sizes", "micro");
    USAGE("run --= 4", "unknown option");
    USAGE("verify --modle mlp", "lockstep verify --help");
}

static void test_values_missing_or_twice(void **state)
{
    (void)state;
    USAGE("run --model", "--model: the value is missing", "NAME");
    USAGE("run --model --batch 4", "--model: the value is missing");
    USAGE("run --model=", "--model: the value is empty");
    USAGE("run --batch 1,,2", "--batch: a value in the list is empty");
    USAGE("run --batch 1,", "--batch: a value in the list is empty");
    USAGE("run --batch 1 --batch 2", "--batch: is given twice", "list");
    USAGE("run --quiet --quiet", "--quiet: is given twice");
    USAGE("run --load a --load=a", "--load: is given twice");
}

static void test_conflicts(void **state)
{
    (void)state;
    USAGE("run --steps 5 --epochs 1", "--steps", "cannot be used with --epochs");
    USAGE("run --epochs=1 --steps=100", "--steps", "cannot be used with --epochs");
    USAGE("run --quiet --verbose", "--quiet", "cannot be used with --verbose");
    USAGE("run --quiet --progress yes", "--quiet", "cannot be used with --progress");
    USAGE("run --save f --batch 1,2", "--save", "several cases");
    USAGE("verify --gate-steps 5", "--gate-steps", "verify", "run");
    USAGE("verify --blocks 2", "--blocks", "verify");
    USAGE("verify --baseline", "--baseline", "verify");
}

static void test_bad_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {"nan", "inf", "-1",  "1e999", "99999999999999999999",
                                      "1x",  "0x4", "1.5", "abc"};
    static const char *const whole[] = {
        "batch",        "steps",        "epochs", "warmup",      "blocks",
        "seed",         "gate-steps",   "ranks",  "cpu-devices", "cores-per-device",
        "logical-gpus", "micro-shards", "devices"};
    char line[256], option[64];
    for (size_t o = 0; o < sizeof whole / sizeof *whole; o++) {
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
            const char *more = strcmp(whole[o], "micro-shards") == 0 ? "--reduce exact" : "";
            snprintf(line, sizeof line, "run --%s %s %s", whole[o], bad[b], more);
            snprintf(option, sizeof option, "--%s", whole[o]);
            USAGE(line, option, bad[b], "from");
        }
    }
    static const char *const no_zero[] = {"batch",        "epochs",      "blocks",
                                          "ranks",        "cpu-devices", "cores-per-device",
                                          "logical-gpus", "devices"};
    for (size_t o = 0; o < sizeof no_zero / sizeof *no_zero; o++) {
        snprintf(line, sizeof line, "run --%s 0", no_zero[o]);
        USAGE(line, "'0' is not valid", "from 1 to");
    }
    USAGE("run --reduce exact --micro-shards 0", "from 1 to");
    USAGE("run --blocks 1,2", "takes no list");
    static const char *const bad_rates[] = {"nan",   "inf",    "0",   "-0.1",
                                            "1e999", "1e-320", "1e9", "0.1x"};
    for (size_t b = 0; b < sizeof bad_rates / sizeof *bad_rates; b++) {
        snprintf(line, sizeof line, "run --lr=%s", bad_rates[b]);
        USAGE(line, "--lr", bad_rates[b], "1e-30 to 1e6");
    }
}

static void test_bad_words(void **state)
{
    (void)state;
    USAGE("run --model mpl", "'mpl' is not a valid model", "did you mean mlp?", "mlp, poly, cnn");
    USAGE("run --model mlp:0", "--model", "mlp takes 2 to");
    USAGE("run --model mlp,zzzz", "'zzzz' is not a valid model");
    USAGE("run --data mnits", "not a valid data set", "fashion-mnist, mnist, synthetic");
    USAGE("run --strategy ddp", "'ddp' is not a valid strategy", "mirrored",
          "single, independent, towers");
    USAGE("run --optimizer adamm", "not a valid optimizer", "did you mean adam?");
    USAGE("run --format xml", "'xml' is not a format", "jsonl");
    USAGE("run --scaling big", "strong, weak");
    USAGE("run --reduce slow", "fast, exact");
    USAGE("run --shuffle maybe", "no, yes");
    USAGE("run --progress maybe", "auto, no, yes");
    USAGE("run --memory some", "growth, all, or fraction=F");
    USAGE("run --memory fraction=0", "fraction=F");
    USAGE("run --memory fraction=1.5", "fraction=F");
    USAGE("run --memory fraction=nan", "fraction=F");
    USAGE("run --target accuracy=1.5", "accuracy=A");
    USAGE("run --target accuracy=0", "accuracy=A");
    USAGE("run --target loss=-1", "loss=L");
    USAGE("run --target 0.85", "accuracy=A");
    USAGE("run --ranks 2 --timeout 0", "a time from 1ms");
    USAGE("run --ranks 2 --timeout soon", "a time from 1ms");
    USAGE("run --timeout 5s", "several devices or ranks");
    USAGE("run --model 784,2048,10", "--model: '784,2048,10' are sizes", "a comma begins another",
          "use --model mlp:784-2048-10");
    USAGE("run --model 784-10",
          "--model: '784-10' are sizes without the name of a model; use --model mlp:784-10");
    USAGE("run --devices cpu:0+cpu:0 --ranks 2", "'cpu:0' is named twice, or",
          "name each device only once");
    USAGE("run --devices gpu:0+gpu:0/1", "named twice");
    USAGE("run --devices cpu:x", "--devices");
    USAGE("run --devices cpu:0+", "--devices");
    char line[2048] = "run --model mlp:";
    memset(line + strlen(line), '1', 300);
    USAGE(line, "--model", "at most 255");
}

static void test_what_this_build_has_not(void **state)
{
    (void)state;
    const char *why = ls_processes_built() ? "mpirun -n N" : "this build does not have 'mpi'";
    REFUSED(LS_CODE_MISSING, "run --comm mpi", "--comm", why, "thread");
    if (LS_HAS_NCCL) /* whether there is a GPU is checked later */
        ls_request_free(accept_line("run --comm nccl"));
    else
        REFUSED(LS_CODE_MISSING, "run --comm nccl", "this build does not have 'nccl'");
    REFUSED(LS_CODE_MISSING, "run --comm auto,mpi", why);
    USAGE("run --comm tcp", "auto, thread, mpi, nccl, device");
    if (ls_kernel_table_default(LS_DEVICE_GPU)) /* whether there is a GPU is checked later */
        ls_request_free(accept_line("run --math tf32,float32"));
    else
        USAGE("run --math tf32", "tf32", "GPUs", "float32");
    USAGE("run --model mlp --convolution own", "--convolution", "cifar10 or resnet");
    USAGE("run --math tf16", "tf16", "float32, tf32");
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1); /* main refuses it, where it must be refused */
    ls_request_free(accept_line("run --comm thread"));
    unsetenv("OMPI_COMM_WORLD_SIZE");
}

/* Parses the line as one of three ranks of a launcher. */
static ls_status parse_as_rank(char **arguments, int count, ls_request **out)
{
    ls_comm comm = {.size = 3}; /* only its presence is checked */
    const ls_processes processes = {
        .size = 3, .hosts = 1, .neighbours = 3, .parts = 3, .comm = &comm};
    return ls_request_parse(count, arguments, &processes, stderr, out);
}

static void test_ranks_of_a_launcher(void **state)
{
    char *plain[] = {"run", "--strategy", "towers", "--comm", "auto"};
    char *several[] = {"run", "--strategy", "mirrored"};
    char *ranks[] = {"run", "--ranks", "2"}, *thread[] = {"run", "--comm", "thread"};
    ls_request *request = NULL;
    (void)state;
    ls_status status = parse_as_rank(plain, 5, &request);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    assert_non_null(strstr(ls_status_text(status), "towers: "));
    assert_non_null(strstr(ls_status_text(status), "rank"));
    ls_status_free(status);
    status = parse_as_rank(ranks, 3, &request);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    assert_non_null(strstr(ls_status_text(status),
                           "--ranks: '2' is not the number of ranks that the launcher started, 3"));
    ls_status_free(status);
    status = parse_as_rank(thread, 3, &request);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    assert_non_null(
        strstr(ls_status_text(status), "--comm: 'thread' connects ranks of one process"));
    ls_status_free(status);
    status = parse_as_rank(several, 3, &request);
    assert_null(status);
    assert_int_equal(request->cases[0].ranks, 3);
    assert_string_equal(request->cases[0].comm, "mpi");
    ls_request_free(request);
}

/* A case of `single` has no options of other strategies. */
static void test_options_that_concern_no_case(void **state)
{
    (void)state;
    const ls_option *table = ls_option_table();
    const char *const text[] = {"ps-backup-workers=1", "ps-mode=async", "ps-staleness=1",
                                "hybrid-replicas=2", "pipeline-microbatches=2"};
    for (size_t i = 0; table[i].name; i++)
        assert_non_null(table[i].set);
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        char line[128];
        const ls_option *option;
        assert_null(ls_option_require(text[i], strcspn(text[i], "="), LS_FOR_RUN, NULL, &option));
        snprintf(line, sizeof line, "run --%s", text[i]);
        USAGE(line, option->name, "applies to no case of this command, but only to",
              option->concerns);
    }
}

static void test_too_many_cases(void **state)
{
    (void)state;
    char line[8192] = "run --batch 1";
    for (int i = 2; i <= 100; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), ",%d", i);
    snprintf(line + strlen(line), sizeof line - strlen(line), " --seed 1");
    for (int i = 2; i <= 100; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), ",%d", i);
    USAGE(line, "more than 4096 cases");
}

int main(void)
{
    /* A launcher of the test itself may have set these. */
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("PMI_SIZE");
    unsetenv("MPI_LOCALNRANKS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_options),
        cmocka_unit_test(test_values_missing_or_twice),
        cmocka_unit_test(test_conflicts),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_bad_words),
        cmocka_unit_test(test_what_this_build_has_not),
        cmocka_unit_test(test_ranks_of_a_launcher),
        cmocka_unit_test(test_options_that_concern_no_case),
        cmocka_unit_test(test_too_many_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
