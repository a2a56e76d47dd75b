/* SPDX-License-Identifier: MIT */
/*
 * Options: defaults, both ways to write a value, lists and their products, `--help`, `list`.
 * Refusals are in test_option_refusals.c, plans in test_experiment.c.
 */
#include "bench/cli/option_set.h"
#include "bench/cli/option_table.h"
#include "bench/commands/command.h"
#include "bench/tests/option_fixture.h"

#include <ctype.h>

static void assert_default_case(const ls_case *one)
{
    assert_string_equal(one->model, "mlp");
    assert_string_equal(one->data, "");
    assert_string_equal(one->strategy->name, "single");
    assert_string_equal(one->devices, "1");
    assert_int_equal(one->batch, 0);
    assert_int_equal(one->scaling, LS_SCALING_STRONG);
    assert_int_equal(one->steps, 100);
    assert_int_equal(one->epochs, 0);
    assert_int_equal(one->warmup, 10);
    assert_string_equal(one->optimizer, "");
    assert_true(one->learning_rate == 0);
    assert_int_equal(one->seed, 1);
    assert_true(one->shuffle);
    assert_int_equal(one->reduce, LS_REDUCE_FAST);
    assert_int_equal(one->micro_shards, 16);
    assert_int_equal(one->micro_splits, 1);
    assert_int_equal(one->gate_steps, 10);
    assert_int_equal(one->memory.kind, LS_MEMORY_GROWTH);
    assert_int_equal(one->target_kind, LS_TARGET_NONE);
    assert_true(one->capture);
    assert_int_equal(one->ranks, 1);
    assert_string_equal(one->comm, "thread");
}

static void test_defaults(void **state)
{
    (void)state;
    ls_request *request = accept_line("run");
    assert_int_equal(request->case_count, 1);
    assert_default_case(request->cases);
    assert_false(request->verify);
    assert_int_equal(request->blocks, 5);
    assert_int_equal(request->cpu_devices, 0);
    assert_int_equal(request->cores_per_device, 1);
    assert_int_equal(request->logical_gpus, 1);
    assert_false(request->baseline || request->soft_placement || request->log_placement);
    assert_null(request->load);
    assert_null(request->save);
    assert_string_equal(request->cases[0].label, "");
    assert_string_equal(request->results, "results/lockstep.db");
    assert_string_equal(request->format, "table");
    assert_string_equal(request->command, "lockstep run");
    assert_int_equal(request->progress, -1);
    assert_int_equal(request->log.level, LS_LOG_NORMAL);
    assert_true(request->timeout_ns == 20000000000u);
    ls_request_free(request);
    request = accept_line("verify");
    assert_true(request->verify);
    assert_int_equal(request->cases->gate_steps, -1);
    ls_request_free(request);
    ls_request_free(NULL);
}

static void test_values_reach_the_case(void **state)
{
    (void)state;
    ls_request *request = accept_line(
        "run --model mlp:784-300-10 --data=file:x.safetensors --batch 7 --scaling weak --epochs=3 "
        "--warmup 0 --lr 5e-4 --seed=42 --target accuracy=0.85 --shuffle no --reduce exact");
    const ls_case *one = request->cases;
    assert_int_equal(request->case_count, 1);
    assert_string_equal(one->model, "mlp:784-300-10");
    assert_string_equal(one->data, "file:x.safetensors");
    assert_int_equal(one->batch, 7);
    assert_int_equal(one->scaling, LS_SCALING_WEAK);
    assert_int_equal(one->epochs, 3);
    assert_int_equal(one->steps, -1);
    assert_int_equal(one->warmup, 0);
    assert_true(one->learning_rate == 5e-4);
    assert_int_equal(one->seed, 42);
    assert_int_equal(one->target_kind, LS_TARGET_ACCURACY);
    assert_true(one->target == 0.85);
    assert_false(one->shuffle);
    assert_int_equal(one->reduce, LS_REDUCE_EXACT);
    assert_int_equal(one->micro_shards, 16);
    ls_request_free(request);
    request = accept_line("run --memory fraction=0.4 --capture no --gate-steps 0 --target loss=0.3 "
                          "--micro-shards 4 --reduce exact --math float32 --comm auto --steps 0");
    one = request->cases;
    assert_int_equal(one->memory.kind, LS_MEMORY_FRACTION);
    assert_true(one->memory.fraction == 0.4);
    assert_string_equal(one->memory_text, "fraction=0.4");
    assert_false(one->capture);
    assert_int_equal(one->gate_steps, 0);
    assert_int_equal(one->target_kind, LS_TARGET_LOSS);
    assert_int_equal(one->micro_shards, 4);
    assert_int_equal(one->steps, 0);
    ls_request_free(request);
}

static void test_values_reach_the_request(void **state)
{
    (void)state;
    ls_request *request = accept_line(
        "run --cpu-devices 2 --cores-per-device=3 --logical-gpus 4 --blocks 9 --baseline yes "
        "--load a,b --save c --label it's --format jsonl --results none --progress no");
    assert_int_equal(request->cpu_devices, 2);
    assert_int_equal(request->cores_per_device, 3);
    assert_int_equal(request->logical_gpus, 4);
    assert_int_equal(request->blocks, 9);
    assert_true(request->baseline);
    assert_string_equal(request->load, "a,b");
    assert_string_equal(request->save, "c");
    assert_string_equal(request->cases[0].label, "it's");
    assert_string_equal(request->format, "jsonl");
    assert_null(request->results);
    assert_int_equal(request->progress, 0);
    assert_non_null(strstr(request->command, "lockstep run --cpu-devices 2 --cores-per-device=3"));
    assert_non_null(strstr(request->command, "--label 'it'\\''s' --format"));
    ls_request_free(request);
    request = accept_line("run --quiet --soft-placement --log-placement --results x.db "
                          "--devices cpu:0");
    assert_int_equal(request->log.level, LS_LOG_QUIET);
    assert_true(request->soft_placement && request->log_placement);
    assert_string_equal(request->results, "x.db");
    ls_request_free(request);
    request = accept_line("run --devices gpu:0 --timeout 3s"); /* one GPU is watched, too */
    assert_true(request->timeout_ns == 3000000000u);
    ls_request_free(request);
    request = accept_line("run --verbose yes --quiet no --progress yes");
    assert_int_equal(request->log.level, LS_LOG_VERBOSE);
    assert_int_equal(request->progress, 1);
    ls_request_free(request);
}

static void test_lists_make_products(void **state)
{
    (void)state;
    ls_request *request = accept_line("run --model poly,mlp --batch 32,64,128 --seed 1,2");
    assert_int_equal(request->case_count, 12);
    assert_string_equal(request->cases[0].model, "poly");
    assert_int_equal(request->cases[0].batch, 32);
    assert_int_equal(request->cases[1].seed, 2);
    assert_string_equal(request->cases[11].model, "mlp");
    assert_int_equal(request->cases[11].batch, 128);
    ls_request_free(request);
}

static void test_optimizer_commas(void **state)
{
    (void)state;
    ls_request *request =
        accept_line("run --optimizer "
                    "momentum:0.9,adam:beta1=0.9,beta2=0.99,eps=1e-8,sgd,rmsprop:rho=0.9,eps=1e-3");
    assert_int_equal(request->case_count, 4);
    assert_string_equal(request->cases[0].optimizer, "momentum:0.9");
    assert_string_equal(request->cases[1].optimizer, "adam:beta1=0.9,beta2=0.99,eps=1e-8");
    assert_string_equal(request->cases[2].optimizer, "sgd");
    assert_string_equal(request->cases[3].optimizer, "rmsprop:rho=0.9,eps=1e-3");
    ls_request_free(request);
    /* An option whose values have commas may be given several times. */
    request = accept_line("run --strategy mirrored --devices 2 --link latency=1us,bandwidth=1GB/s "
                          "--link latency=2us");
    assert_int_equal(request->case_count, 2);
    assert_string_equal(request->cases[0].link_text, "latency=1us,bandwidth=1GB/s");
    assert_string_equal(request->cases[1].link_text, "latency=2us");
    ls_request_free(request);
    /* In other options such a comma separates values. */
    request = accept_line("run --target accuracy=0.8,loss=0.3");
    assert_int_equal(request->case_count, 2);
    ls_request_free(request);
}

static void test_option_that_concerns_some_cases(void **state)
{
    (void)state;
    ls_request *request = accept_line("run --reduce fast,exact --micro-shards 8,16");
    assert_int_equal(request->case_count, 3);
    assert_int_equal(request->cases[0].micro_shards, 16);
    assert_int_equal(request->cases[1].micro_shards, 8);
    assert_int_equal(request->cases[2].micro_shards, 16);
    ls_request_free(request);
    USAGE("run --micro-shards 8", "--micro-shards", "applies to no case", "--reduce exact");
    USAGE("run --reduce fast --micro-shards 8,16", "applies to no case");
}

static void test_repeated_cases_run_once(void **state)
{
    (void)state;
    char said[4096];
    ls_request *request;
    assert_null(parse_line("run --batch 32,64,32 --comm auto,thread", &request, said));
    assert_int_equal(request->case_count, 2);
    assert_non_null(strstr(
        said, "--batch 32 --comm auto = thread: this case is listed 4 times and runs once\n"));
    assert_non_null(strstr(
        said, "--batch 64 --comm auto = thread: this case is listed 2 times and runs once\n"));
    ls_request_free(request);
    assert_null(parse_line("run --model poly --lr 0.1,1e-1,0.2,.1,0.10", &request, said));
    assert_int_equal(request->case_count, 2);
    assert_string_equal(said,
                        "lockstep: case: poly, --strategy single --lr 0.1 = 1e-1 = .1 = 0.10: "
                        "this case is listed 4 times and runs once\n");
    ls_request_free(request);
}

static void test_impossible_cases_are_left_out(void **state)
{
    (void)state;
    char said[4096];
    ls_request *request;
    assert_null(parse_line("run --strategy single,towers --devices 1,2,4", &request, said));
    assert_int_equal(request->case_count, 4);
    size_t lines = 0;
    for (const char *c = said; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, 2);
    assert_non_null(strstr(said, "lockstep: left out: mlp, --strategy single --devices 2"));
    ls_request_free(request);
    /* No case is left: one line, with the reason of the first. */
    USAGE("run --devices 2", "single: this strategy runs on one device",
          "--devices 2 and --ranks 1; ");
    USAGE("run --devices 4,2", "--devices 4 and --ranks 1; ");
}

/* Options that users and programs rely on, and how --help prints their defaults and units. */
static const char *const in_help[][2] = {
    {"model", "mlp"},
    {"data", "the model's"},
    {"augment", "yes"},
    {"strategy", "single"},
    {"devices", "1"},
    {"cpu-devices", "cores"},
    {"cores-per-device", "1; unit: cores"},
    {"logical-gpus", "1"},
    {"batch", "the model's; unit: samples"},
    {"scaling", "strong"},
    {"steps", "100; unit: steps"},
    {"epochs", "none; unit: epochs"},
    {"warmup", "10; unit: steps"},
    {"blocks", "5"},
    {"optimizer", "the model's"},
    {"lr", "the model's"},
    {"seed", "1"},
    {"target", "none"},
    {"shuffle", "yes"},
    {"load", "none"},
    {"save", "none"},
    {"reduce", "fast"},
    {"micro-shards", "16"},
    {"micro-splits", "1"},
    {"gate-steps", "10; unit: steps"},
    {"eval-samples", "auto; unit: samples"},
    {"baseline", "no"},
    {"allreduce", "auto"},
    {"bucket-bytes", "auto; unit: bytes"},
    {"comm", "auto"},
    {"ranks", "1"},
    {"memory", "growth"},
    {"link", "none"},
    {"variable-device", "/cpu:0"},
    {"colocate-gradients", "yes"},
    {"soft-placement", "no"},
    {"log-placement", "no"},
    {"math", "float32"},
    {"precision", "float32"},
    {"convolution", "auto"},
    {"capture", "yes"},
    {"inject", "none"},
    {"timeout", "20s"},
    {"label", "none"},
    {"format", "table"},
    {"results", "results/lockstep.db"},
    {"plan", "none"},
    {"print-step", "no"},
    {"progress", "auto"},
    {"quiet", "no"},
    {"verbose", "no"},
    {"towers-staged", "no"},
    {"ps-mode", "sync"},
    {"ps-staleness", "2"},
    {"ps-servers", "1"},
    {"ps-colocate", "no"},
    {"ps-shard", "bytes"},
    {"ps-backup-workers", "0"},
    {"ps-record", "none"},
    {"model-parallel-place", "none"},
    {"pipeline-microbatches", "4"},
    {"pipeline-schedule", "gpipe"},
    {"zero-stage", "1"},
    {"hybrid-replicas", "2"},
    {"hybrid-inner", "model-parallel"},
    {"sync-bn", "no"},
};

static void test_help_has_every_option(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    ls_option_help(stream, LS_FOR_RUN);
    fclose(stream);
    for (size_t i = 0; i < sizeof in_help / sizeof *in_help; i++) {
        char start[64], fallback[64];
        snprintf(start, sizeof start, "  --%s ", in_help[i][0]);
        snprintf(fallback, sizeof fallback, "(default: %s", in_help[i][1]);
        const char *line = strstr(text, start);
        if (!line)
            fail_msg("--%s is not in --help", in_help[i][0]);
        char entry[256]; /* its first two lines, in one */
        size_t used = 0;
        for (int lines = 0; *line && lines < 2 && used + 1 < sizeof entry; line++) {
            lines += *line == '\n';
            if (!isspace((unsigned char)*line) || !used || entry[used - 1] != ' ')
                entry[used++] = isspace((unsigned char)*line) ? ' ' : *line;
        }
        entry[used] = 0;
        if (!strstr(entry, fallback))
            fail_msg("--%s: no '%s' in its line", in_help[i][0], fallback);
    }
    assert_null(strstr(text, "--sizes"));
    free(text);
}

static void test_operands(void **state)
{
    (void)state;
    ls_option_set set;
    char *arguments[] = {"micro", "gemm", "--sizes", "4KiB,1MiB", "copy", "--format=csv"};
    assert_null(ls_option_set_open(LS_FOR_MICRO, &set));
    assert_null(ls_option_set_read(&set, 6, arguments, 2));
    assert_int_equal(set.operand_count, 2);
    assert_string_equal(set.operands[1], "copy");
    assert_int_equal(ls_option_set_find(&set, "sizes")->count, 2);
    assert_string_equal(ls_option_set_find(&set, "sizes")->values[1].text, "1MiB");
    assert_string_equal(ls_option_set_text(&set, "format", "table"), "csv");
    assert_string_equal(ls_option_set_text(&set, "devices", "1"), "1");
    ls_option_set_close(&set);
}

static void test_list(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_null(ls_list_print(stream, NULL));
    fclose(stream);
    assert_non_null(strstr(text, "\n\nmodels\n  mlp                "));
    assert_non_null(strstr(text, "optimizers\n"));
    free(text);
    stream = open_memstream(&text, &size);
    assert_null(ls_list_print(stream, "data"));
    ls_status status = ls_list_print(stream, "modles");
    fclose(stream);
    assert_null(strstr(text, "  mlp "));
    assert_non_null(strstr(text, "synthetic"));
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    assert_non_null(strstr(ls_status_text(status), "did you mean 'models'?"));
    assert_non_null(
        strstr(ls_status_text(status), "strategies, models, layers, data, allreduce, optimizers"));
    ls_status_free(status);
    free(text);
}

int main(void)
{
    /* A launcher of the test itself may have set these. */
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("PMI_SIZE");
    unsetenv("MPI_LOCALNRANKS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values_reach_the_case),
        cmocka_unit_test(test_values_reach_the_request),
        cmocka_unit_test(test_lists_make_products),
        cmocka_unit_test(test_optimizer_commas),
        cmocka_unit_test(test_option_that_concerns_some_cases),
        cmocka_unit_test(test_repeated_cases_run_once),
        cmocka_unit_test(test_impossible_cases_are_left_out),
        cmocka_unit_test(test_help_has_every_option),
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
