/* SPDX-License-Identifier: MIT */
/* Variables as ranges of a flat host buffer; see variables.h. */
#include "common/nn/variables.h"

#include "common/base/digest.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "common/base/random/philox.h"
#include "common/data/safetensors.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_variables_add(ls_variables *variables, const ls_variable *variable)
{
    size_t count = 1, elements, bytes;
    for (int i = 0; i < variable->rank; i++)
        if (variable->shape[i] < 0 || !ls_size_multiply(count, (size_t)variable->shape[i], &count))
            return ls_fail(LS_CODE_USAGE, "model", variable->name,
                           "this variable has too many elements; use smaller sizes");
    if (!ls_size_add(variables->elements, count, &elements) ||
        !ls_size_multiply(elements, 4 * sizeof(double), &bytes))
        return ls_fail(LS_CODE_USAGE, "model", variable->name,
                       "the model has too many parameters; use smaller sizes");
    LS_TRY(ls_grow("model", &variables->items, variables->count, sizeof *variable));
    ls_variable *item = &variables->items[variables->count++];
    *item = *variable;
    item->offset = variables->elements;
    item->count = count;
    item->shrinks = variable->shrinks || variable->rank >= 2;
    variables->elements = elements;
    return LS_OK;
}

void ls_variables_clear(ls_variables *variables)
{
    free(variables->items);
    *variables = (ls_variables){0};
}

const ls_variable *ls_variables_holding(const ls_variables *variables, size_t index)
{
    for (size_t i = 0; i < variables->count; i++)
        if (index - variables->items[i].offset < variables->items[i].count)
            return &variables->items[i];
    return NULL;
}

size_t ls_variables_at(const ls_variables *variables, const size_t *at, size_t index)
{
    if (!at)
        return index;
    const ls_variable *v = ls_variables_holding(variables, index);
    return at[v - variables->items] + index - v->offset;
}

/* Element e by Box and Muller's method (https://doi.org/10.1214/aoms/1177706645) from the stream's
 * numbers 2 e and 2 e + 1. */
static void fill_normal(ls_random random, double deviation, ls_range range, float *out)
{
    const double turn = 6.28318530717958647692;
    for (size_t i = 0; i < range.count; i++) {
        const size_t e = range.first + i;
        const double size = ((double)ls_random_bits(random, 2 * e) + 0.5) * 0x1p-32; /* in (0, 1) */
        const double angle = (double)ls_random_bits(random, 2 * e + 1) * 0x1p-32;
        out[i] = (float)(deviation * sqrt(-2 * log(size)) * cos(turn * angle));
    }
}

/* Elements `range` of a variable. */
static void draw(const ls_variable *v, uint64_t seed, ls_range range, float *out)
{
    char stream[64];
    snprintf(stream, sizeof stream, "init/%s", v->name);
    if (v->initializer == LS_INITIALIZER_NORMAL) {
        fill_normal(ls_random_stream(seed, stream), v->deviation, range, out);
        return;
    }
    if (v->initializer == LS_INITIALIZER_GLOROT_UNIFORM) {
        float limit = (float)sqrt(6.0 / (double)(v->fan_in + v->fan_out));
        ls_random_fill(ls_random_stream(seed, stream), range.first, range.count, -limit, limit,
                       out);
        return;
    }
    const bool forget = v->initializer == LS_INITIALIZER_FORGET_ONE;
    for (size_t i = 0, e = range.first; i < range.count; i++, e++)
        out[i] = v->initializer == LS_INITIALIZER_ONE ||
                         (forget && e >= v->count / 4 && e < v->count / 2)
                     ? 1.0f
                     : 0.0f;
}

void ls_variables_draw(const ls_variables *variables, uint64_t seed, ls_range range, float *values)
{
    for (size_t i = 0; i < variables->count; i++) {
        const ls_variable *v = &variables->items[i];
        const ls_range both = ls_range_common(range, (ls_range){v->offset, v->count});
        if (both.count)
            draw(v, seed, (ls_range){both.first - v->offset, both.count},
                 values + (both.first - range.first));
    }
}

void ls_variables_initialize(const ls_variables *variables, uint64_t seed, float *values)
{
    ls_variables_draw(variables, seed, (ls_range){0, variables->elements}, values);
}

static void shape_text(int rank, const int64_t *shape, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < rank && used + 24 < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, i ? ",%lld" : "%lld", (long long)shape[i]);
}

/* ---- Load ------------------------------------------------------------------------------------ */

struct ls_variables_file {
    const ls_variables *variables;
    ls_tensor_file *file;
    const ls_tensor **tensors; /* [variables] */
};

static ls_status check_tensor(const ls_variable *v, const ls_tensor *tensor, const char *path)
{
    char where[640], want[128], got[256];
    snprintf(where, sizeof where, "%s: %s", tensor ? tensor->file : path, v->name);
    shape_text(v->rank, v->shape, want, sizeof want);
    if (!tensor)
        return ls_fail(LS_CODE_MISSING, "load", where,
                       "this tensor is missing in the file; the model needs it with the shape [%s]",
                       want);
    shape_text(tensor->rank, tensor->shape, got, sizeof got);
    bool fits = tensor->rank == v->rank;
    for (int i = 0; i < v->rank && fits; i++)
        fits = tensor->shape[i] == v->shape[i];
    if (!fits)
        return ls_fail(
            LS_CODE_MISSING, "load", where,
            "this tensor has the shape [%s], but the model needs [%s]; use a file of this model",
            got, want);
    return LS_OK;
}

/* ---- Files of GPT-2, as Hugging Face's transformers has them --------------------------------- */

static const char prefix[] = "transformer.", head[] = "lm_head.weight", tied[] = "wte.weight";

/* A tensor's name without the prefix of the model with a head. */
static const char *short_name(const char *name)
{
    const size_t length = sizeof prefix - 1;
    return strncmp(name, prefix, length) ? name : name + length;
}

/* Masks: h.N.attn.bias and h.N.attn.masked_bias. */
static bool is_mask(const char *name)
{
    const char *rest = short_name(name);
    if (strncmp(rest, "h.", 2) != 0)
        return false;
    rest += 2 + strspn(rest + 2, "0123456789");
    return strcmp(rest, ".attn.bias") == 0 || strcmp(rest, ".attn.masked_bias") == 0;
}

/* The tensor of a variable, with or without the prefix; both are refused. */
static ls_status find_gpt2(const ls_tensor_file *file, const char *path, const char *name,
                           const ls_tensor **out)
{
    char where[640], with[80];
    snprintf(with, sizeof with, "%s%s", prefix, name);
    const ls_tensor *plain = ls_tensors_find(file, name), *whole = ls_tensors_find(file, with);
    snprintf(where, sizeof where, "%s: %s", path, name);
    if (plain && whole)
        return ls_fail(LS_CODE_MISSING, "load", where,
                       "the file has this tensor twice, with the prefix '%s' and without; save the "
                       "tensor once",
                       prefix);
    *out = plain ? plain : whole;
    return LS_OK;
}

/* Whether two tensors with as many elements have the same bits. */
static ls_status compare_bits(const ls_tensor *a, const ls_tensor *b, bool *same)
{
    enum { BLOCK = 1 << 16 };
    float *values;
    LS_TRY(ls_allocate("load", &values, 2 * (size_t)BLOCK, sizeof *values));
    ls_status status = LS_OK;
    *same = true;
    for (size_t first = 0; first < a->count && *same && !status; first += BLOCK) {
        const size_t left = a->count - first;
        const ls_range block = {first, left < BLOCK ? left : BLOCK};
        status = ls_tensor_part(a, block, values);
        if (!status)
            status = ls_tensor_part(b, block, values + BLOCK);
        *same = !status && memcmp(values, values + BLOCK, block.count * sizeof *values) == 0;
    }
    free(values);
    return status;
}

/* Whether a tensor is the head, with the bits of the embedding, which it is. */
static ls_status find_tied_head(const ls_tensor_file *file, const ls_tensor *tensor, bool *is)
{
    const ls_tensor *tie = NULL;
    for (size_t i = 0; i < ls_tensors_count(file) && !tie; i++)
        if (strcmp(short_name(ls_tensors_at(file, i)->name), tied) == 0)
            tie = ls_tensors_at(file, i);
    *is = strcmp(short_name(tensor->name), head) == 0 && tie && tie->rank == tensor->rank &&
          memcmp(tie->shape, tensor->shape, sizeof tie->shape) == 0;
    return *is ? compare_bits(tie, tensor, is) : LS_OK;
}

static ls_status match_all(ls_variables_file *f, const char *path)
{
    const ls_variables *variables = f->variables;
    const ls_tensor_file *file = f->file;
    LS_TRY(ls_allocate("load", &f->tensors, variables->count, sizeof *f->tensors));
    if (variables->of_gpt2) /* a head with the prefix and one without are refused */
        LS_TRY(find_gpt2(file, path, head, &(const ls_tensor *){NULL}));
    for (size_t i = 0; i < variables->count; i++) {
        const ls_variable *v = &variables->items[i];
        const ls_tensor *tensor = ls_tensors_find(file, v->name);
        if (variables->of_gpt2)
            LS_TRY(find_gpt2(file, path, v->name, &tensor));
        LS_TRY(check_tensor(v, tensor, path));
        f->tensors[i] = tensor;
    }
    for (size_t i = 0; i < ls_tensors_count(file); i++) {
        const char *name = ls_tensors_at(file, i)->name;
        bool known = false;
        if (variables->of_gpt2) {
            LS_TRY(find_tied_head(file, ls_tensors_at(file, i), &known));
            name = short_name(name);
        }
        for (size_t j = 0; j < variables->count && !known; j++)
            known = strcmp(variables->items[j].name, name) == 0;
        if (!known)
            return ls_fail(LS_CODE_MISSING, "load", ls_tensors_at(file, i)->file,
                           variables->of_gpt2 && strcmp(name, head) == 0
                               ? "the tensor %.64s differs from wte.weight, but in this model the "
                                 "two are one; use a file in which they are equal"
                               : "the tensor %.64s is not in this model; save the file without it",
                           name);
    }
    return LS_OK;
}

ls_status ls_variables_open(const ls_variables *variables, const char *path,
                            ls_variables_file **out)
{
    ls_variables_file *f;
    LS_TRY(ls_allocate("load", &f, 1, sizeof *f));
    f->variables = variables;
    ls_status status = ls_tensors_open(path, variables->of_gpt2 ? is_mask : NULL, &f->file);
    if (!status)
        status = match_all(f, path);
    if (status)
        ls_variables_close(f);
    else
        *out = f;
    return status;
}

ls_status ls_variables_read(const ls_variables_file *f, ls_range range, float *values)
{
    for (size_t i = 0; i < f->variables->count; i++) {
        const ls_variable *v = &f->variables->items[i];
        const ls_range both = ls_range_common(range, (ls_range){v->offset, v->count});
        float *out = values + (both.first - range.first);
        const size_t first = both.first - v->offset;
        if (!both.count)
            continue;
        LS_TRY(ls_tensor_part(f->tensors[i], (ls_range){first, both.count}, out));
        for (size_t e = 0; e < both.count; e++) {
            char where[640];
            if (isfinite(out[e]))
                continue;
            snprintf(where, sizeof where, "%s: %s", f->tensors[i]->file, v->name);
            return ls_fail(LS_CODE_MISSING, "load", where,
                           "element %zu is infinite or not a number; use a file of finite numbers",
                           first + e);
        }
    }
    return LS_OK;
}

void ls_variables_close(ls_variables_file *f)
{
    if (!f)
        return;
    ls_tensors_close(f->file);
    free(f->tensors);
    free(f);
}

ls_status ls_variables_load(const ls_variables *variables, const char *path, float *values)
{
    ls_variables_file *file;
    LS_TRY(ls_variables_open(variables, path, &file));
    ls_status status = ls_variables_read(file, (ls_range){0, variables->elements}, values);
    ls_variables_close(file);
    return status;
}

/* ---- Save ------------------------------------------------------------------------------------ */

ls_status ls_variables_save_by(const ls_variables *variables, const char *path,
                               ls_status (*put)(FILE *stream, void *context), void *context)
{
    ls_tensor *tensors;
    LS_TRY(ls_allocate("save", &tensors, variables->count, sizeof *tensors));
    for (size_t i = 0; i < variables->count; i++) {
        const ls_variable *v = &variables->items[i];
        tensors[i] = (ls_tensor){.name = v->name, .rank = v->rank, .count = v->count};
        memcpy(tensors[i].shape, v->shape, sizeof v->shape);
    }
    ls_status status = ls_tensors_write_by(path, tensors, variables->count, put, context);
    free(tensors);
    return status;
}

typedef struct held_values {
    const float *values;
    size_t elements;
} held_values;

static ls_status put_held(FILE *stream, void *context)
{
    const held_values *held = context;
    if (held->elements)
        fwrite(held->values, sizeof *held->values, held->elements, stream);
    return LS_OK;
}

ls_status ls_variables_save(const ls_variables *variables, const char *path, const float *values)
{
    return ls_variables_save_by(variables, path, put_held,
                                &(held_values){values, variables->elements});
}

static int compare_names(const void *a, const void *b, void *variables)
{
    const ls_variable *items = ((const ls_variables *)variables)->items;
    return strcmp(items[*(const size_t *)a].name, items[*(const size_t *)b].name);
}

ls_status ls_variables_by_name(const ls_variables *variables, size_t **out)
{
    LS_TRY(ls_allocate("digest", out, variables->count, sizeof **out));
    for (size_t i = 0; i < variables->count; i++)
        (*out)[i] = i;
    if (variables->count)
        qsort_r(*out, variables->count, sizeof **out, compare_names, (void *)variables);
    return LS_OK;
}

ls_status ls_variables_digest(const ls_variables *variables, const float *values, char text[33])
{
    ls_closing(ls_digest_close) ls_digest *digest = NULL;
    ls_auto size_t *order = NULL;
    LS_TRY(ls_variables_by_name(variables, &order));
    LS_TRY(ls_digest_open(&digest));
    for (size_t n = 0; n < variables->count; n++) {
        const ls_variable *v = &variables->items[order[n]];
        ls_digest_add(digest, values + v->offset, v->count * sizeof *values);
    }
    ls_digest_text(digest, text);
    return LS_OK;
}

/* Maps floats to integers in order, so that neighbours differ by one. */
static int64_t ordered(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? (int64_t)INT32_MIN - bits : bits;
}

static uint32_t ulp_distance(float a, float b)
{
    if (!isfinite(a) || !isfinite(b))
        return ls_values_same((double)a, (double)b) ? 0 : UINT32_MAX;
    int64_t distance = ordered(a) - ordered(b);
    return (uint32_t)(distance < 0 ? -distance : distance);
}

bool ls_values_same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

double ls_value_distance(double a, double b)
{
    if (isfinite(a) && isfinite(b))
        return fabs(a - b);
    const bool opposite = isinf(a) && isinf(b) && signbit(a) != signbit(b);
    return isfinite(a) || isfinite(b) || opposite ? (double)INFINITY : 0;
}

/* Squares of the norms of a - b and of b, where b is finite. */
typedef struct norms {
    double distance, size;
} norms;

static void add_element(norms *n, double a, double b)
{
    const double delta = ls_value_distance(a, b);
    n->distance += delta * delta;
    n->size += isfinite(b) ? b * b : 0;
}

static double relative(const norms *n, double products)
{
    if (sqrt(n->distance) <= 2 * (double)FLT_MIN * products)
        return 0;
    return n->size > 0 ? sqrt(n->distance) / sqrt(n->size) : sqrt(n->distance);
}

double ls_variable_distance(const ls_variable *v, const float *a, const float *b, double products)
{
    norms n = {0};
    for (size_t e = v->offset; e < v->offset + v->count; e++)
        add_element(&n, (double)a[e], (double)b[e]);
    return relative(&n, products);
}

double ls_model_distance(const ls_variables *variables, const float *a, const float *b,
                         double products)
{
    double most = 0;
    for (size_t i = 0; i < variables->count; i++)
        most = fmax(most, ls_variable_distance(&variables->items[i], a, b, products));
    return most;
}

ls_difference ls_variables_compare(const ls_variables *variables, const float *a, const float *b)
{
    ls_difference d = {.same_bits = true, .first = SIZE_MAX};
    for (size_t i = 0; i < variables->count; i++) {
        const ls_variable *v = &variables->items[i];
        norms n = {0};
        if (memcmp(a + v->offset, b + v->offset, v->count * sizeof *a) == 0)
            continue;
        for (size_t e = v->offset; e < v->offset + v->count; e++) {
            add_element(&n, (double)a[e], (double)b[e]);
            uint32_t ulp = ulp_distance(a[e], b[e]);
            if (ulp > d.max_ulp)
                d.max_ulp = ulp;
            if (d.same_bits && !ls_values_same((double)a[e], (double)b[e])) {
                d.same_bits = false;
                d.first = e;
            }
        }
        d.max_rel = fmax(d.max_rel, relative(&n, 0));
    }
    return d;
}
