/* SPDX-License-Identifier: MIT */
/* Layers of images and sequences: gradients against central differences in double precision (the
 * tolerance is net_fixture.h's), what they keep, what they refuse. */
#include "common/nn/tests/net_fixture.h"

static int add_image(fixture *f, int64_t height, int64_t width, int64_t channels)
{
    const ls_layer_options options = {.shape = {.rank = 3, .size = {height, width, channels}}};
    int node;
    must(ls_graph_add(f->graph, "input", NULL, -1, &options, &node));
    return node;
}

static int add_with(fixture *f, const char *layer, int input, const ls_layer_options *options)
{
    int node;
    must(ls_graph_add(f->graph, layer, (int[]){input, -1}, -1, options, &node));
    return node;
}

/* Activations and kept memory: what is in use is what the formula says. */
static void check_memory(fixture *f)
{
    assert_int_equal(ls_device_ledger(f->device).in_use[LS_MEMORY_ACTIVATIONS],
                     ls_net_activation_bytes(f->graph, sizeof(double), ROWS));
}

static void conv_global_max(void **state)
{
    (void)state;
    for (int same = 0; same < 2; same++) {
        fixture f;
        open_device(&f);
        const ls_layer_options conv = {
            .units = 4, .window = {3, 2, same ? 2 : 1, same}, .global_max = true};
        int image = add_image(&f, 6, 5, 2);
        int hidden = add(&f, "relu", add_with(&f, "conv", image, &conv), -1, 0);
        add(&f, "softmax_cross_entropy", add(&f, "dense", hidden, -1, 3), -1, 0);
        assert_string_equal(f.graph->variables.items[0].name, "conv0.weight");
        assert_int_equal(f.graph->variables.items[0].count, 4 * 2 * 3 * 2);
        open_net(&f, ROWS);
        fill_inputs(&f, 6 * 5 * 2);
        fill_labels(&f, 3);
        check_gradients(&f);
        check_memory(&f);
        close_all(&f);
    }
}

/* What a layer keeps is among what backward reads of forward. */
static void kept_is_listed(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const ls_layer_options conv = {.units = 4, .window = {3, 3, 1, false}, .global_max = true};
    int hidden = add(&f, "relu", add_with(&f, "conv", add_image(&f, 4, 4, 1), &conv), -1, 0);
    add(&f, "softmax_cross_entropy", add(&f, "dense", hidden, -1, 3), -1, 0);
    open_net(&f, ROWS);
    void *memory;
    size_t bytes, count = 0, places = 0;
    for (; ls_net_kept(f.net, count, &memory, &bytes); count++)
        places += bytes == ROWS * 4 * sizeof(int32_t);
    assert_int_equal(count, 4); /* image, hidden, places, gradient of the logits */
    assert_int_equal(places, 1);
    close_all(&f);
}

static void refused(fixture *f, const char *layer, int input, const ls_layer_options *options,
                    const char *says)
{
    int node;
    ls_status status = ls_graph_add(f->graph, layer, (int[]){input, -1}, -1, options, &node);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    if (!strstr(ls_status_text(status), says))
        fail_msg("\"%s\" does not say \"%s\"", ls_status_text(status), says);
    ls_status_free(status);
}

static void refused_layers(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    int image = add_image(&f, 4, 4, 1), flat = add_input(&f, 4);
    refused(&f, "conv", image, &(ls_layer_options){.units = 2}, "needs a window");
    refused(&f, "conv", image, &(ls_layer_options){.window = {3, 3, 1, false}}, "one unit");
    refused(&f, "conv", flat, &(ls_layer_options){.units = 2, .window = {3, 3, 1, false}},
            "takes an image");
    refused(&f, "conv", image, &(ls_layer_options){.units = 2, .window = {5, 3, 1, false}},
            "larger than the image");
    f.kernels->table->close(f.kernels);
    ls_queue_close(f.queue);
    ls_device_close(f.device);
    ls_graph_close(f.graph);
    ls_machine_close(f.machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_global_max),
        cmocka_unit_test(kept_is_listed),
        cmocka_unit_test(refused_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
