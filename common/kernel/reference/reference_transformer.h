/* SPDX-License-Identifier: MIT */
/* The reference table's operations of transformers; part of reference_loops.h, which explains them.
 */
#pragma once

/* ---- Tokens and positions ------------------------------------------------------------------- */

static ls_status embedding_forward(const ls_embedding_forward_args *e)
{
    const real *x = e->x, *weight = e->weight;
    real *y = e->y;
    for (int64_t r = 0; r < e->rows; r++) {
        const int64_t all = e->all ? e->all : e->tokens, token = ls_token(x[r], all);
        const int64_t row = token - e->first;
        if (token < 0)
            return ls_token_fail("embedding_forward", r, (double)x[r], all);
        for (int64_t c = 0; c < e->width; c++)
            y[r * e->width + c] =
                row >= 0 && row < e->tokens ? weight[row * e->width + c] : (real)-0.0;
    }
    return LS_OK;
}

static ls_status embedding_backward(const ls_embedding_backward_args *e)
{
    const real *x = e->x, *dy = e->dy;
    real *dweight = e->dweight;
    for (int64_t v = 0; v < e->tokens; v++)
        for (int64_t c = 0; c < e->width; c++) {
            double sum = 0;
            for (int64_t r = 0; r < e->rows; r++)
                if ((int64_t)x[r] == e->first + v)
                    sum += (double)dy[r * e->width + c];
            dweight[v * e->width + c] = (real)sum;
        }
    return LS_OK;
}

static ls_status softmax_part(const ls_softmax_part_args *s)
{
    for (int64_t r = 0; r < s->rows; r++) {
        const real *z = (const real *)s->logits + r * s->classes;
        real *part = (real *)s->part + r * LS_SOFTMAX_PART;
        const int64_t label = s->labels[r], column = label - s->first;
        if (label < (s->ragged ? -1 : 0) || label >= s->all)
            return ls_label_fail("softmax_part", r, s->labels[r], s->all);
        int64_t best = 0;
        for (int64_t c = 1; c < s->classes; c++)
            best = z[c] > z[best] ? c : best;
        double sum = 0;
        for (int64_t c = 0; c < s->classes; c++) {
            const double term = exp((double)z[c] - (double)z[best]);
            sum += term;
            if (s->terms)
                ((real *)s->terms)[r * s->classes + c] = (real)term;
        }
        part[0] = z[best];
        part[1] = s->largest ? (real)(s->first + best) : (real)sum;
        part[2] = label >= 0 && column >= 0 && column < s->classes ? z[column] : (real)0;
    }
    return LS_OK;
}

/* What the slices say of a row, put together. */
static double softmax_row(const ls_softmax_whole_args *s, int64_t r, double *largest,
                          double *at_label)
{
    const real *parts = (const real *)s->parts + r * LS_SOFTMAX_PART;
    const int64_t stride = s->rows * LS_SOFTMAX_PART;
    double sum = 0;
    *largest = -HUGE_VAL, *at_label = 0;
    for (int64_t i = 0; i < s->slices; i++) {
        const double part_largest = (double)parts[i * stride];
        *largest = part_largest > *largest ? part_largest : *largest;
        *at_label += (double)parts[i * stride + 2];
    }
    for (int64_t i = 0; i < s->slices; i++)
        sum += (double)parts[i * stride + 1] * exp((double)parts[i * stride] - *largest);
    return sum;
}

static ls_status softmax_whole(const ls_softmax_whole_args *s)
{
    double total = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        const double scale = s->labels[r] < 0 ? 0 : ls_loss_scale(s->scale_at, s->scale);
        double largest, at_label;
        const double sum = softmax_row(s, r, &largest, &at_label);
        const double part_largest = (double)((const real *)s->parts)[(s->slice * s->rows + r) * 3];
        real *dz = s->dlogits ? (real *)s->dlogits + r * s->classes : NULL;
        if (s->labels[r] >= 0)
            total += log(sum) - (at_label - largest);
        for (int64_t c = 0; dz && c < s->classes; c++)
            dz[c] = (real)(scale * ((double)dz[c] * exp(part_largest - largest) / sum -
                                    (s->first + c == s->labels[r])));
    }
    if (s->loss)
        *s->loss = ls_loss_scale(s->scale_at, s->scale) * total;
    return LS_OK;
}

static ls_status count_parts(const ls_count_parts_args *a)
{
    const real *parts = a->parts;
    for (int64_t r = 0; r < a->rows && a->state->position + (uint64_t)(r / a->targets) < a->samples;
         r++) {
        int64_t best = r;
        for (int64_t i = r + a->rows; i < a->slices * a->rows; i += a->rows)
            best = parts[i * 3] > parts[best * 3] ? i : best;
        *a->correct += (int64_t)parts[best * 3 + 1] == a->labels[r];
    }
    return LS_OK;
}

static ls_status positions_forward(const ls_positions_forward_args *p)
{
    const real *x = p->x, *weight = p->weight;
    real *y = p->y;
    for (int64_t b = 0; b < p->rows; b++)
        for (int64_t i = 0; i < p->count; i++)
            y[b * p->count + i] = x[b * p->count + i] + weight[i];
    return LS_OK;
}

static ls_status positions_backward(const ls_positions_backward_args *p)
{
    const real *dy = p->dy;
    real *dweight = p->dweight;
    for (int64_t i = 0; i < p->count; i++) {
        double sum = 0;
        for (int64_t b = 0; b < p->rows; b++)
            sum += (double)dy[b * p->count + i];
        dweight[i] = (real)sum;
    }
    return LS_OK;
}

/* ---- Layer normalisation -------------------------------------------------------------------- */

static ls_status layer_norm_forward(const ls_layer_norm_forward_args *n)
{
    const int64_t C = n->width;
    const real *weight = n->weight, *bias = n->bias;
    for (int64_t r = 0; r < n->rows; r++) {
        const real *x = (const real *)n->x + r * C;
        real *y = (real *)n->y + r * C, *moments = (real *)n->moments + 2 * r;
        double mean = 0, variance = 0;
        for (int64_t c = 0; c < C; c++)
            mean += (double)x[c] / (double)C;
        for (int64_t c = 0; c < C; c++)
            variance += ((double)x[c] - mean) * ((double)x[c] - mean) / (double)C;
        const double rate = 1 / sqrt(variance + n->epsilon);
        for (int64_t c = 0; c < C; c++)
            y[c] = (real)(((double)x[c] - mean) * rate * (double)weight[c] + (double)bias[c]);
        moments[0] = (real)mean;
        moments[1] = (real)rate;
    }
    return LS_OK;
}

/* (x - mean) rate of row r, channel c. */
static double normalised(const ls_layer_norm_backward_args *n, int64_t r, int64_t c)
{
    const real *moments = (const real *)n->moments + 2 * r;
    return ((double)((const real *)n->x)[r * n->width + c] - (double)moments[0]) *
           (double)moments[1];
}

static ls_status layer_norm_backward(const ls_layer_norm_backward_args *n)
{
    const int64_t C = n->width;
    const real *weight = n->weight, *dy = n->dy;
    for (int64_t c = 0; c < C; c++) {
        double dweight = 0, dbias = 0;
        for (int64_t r = 0; r < n->rows; r++) {
            dweight += (double)dy[r * C + c] * normalised(n, r, c);
            dbias += (double)dy[r * C + c];
        }
        ((real *)n->dweight)[c] = (real)dweight;
        ((real *)n->dbias)[c] = (real)dbias;
    }
    for (int64_t r = 0; r < n->rows; r++) {
        const double rate = (double)((const real *)n->moments)[2 * r + 1];
        double mean_g = 0, mean_gn = 0;
        for (int64_t c = 0; c < C; c++) {
            const double g = (double)dy[r * C + c] * (double)weight[c];
            mean_g += g / (double)C;
            mean_gn += g * normalised(n, r, c) / (double)C;
        }
        for (int64_t c = 0; c < C; c++) {
            const double g = (double)dy[r * C + c] * (double)weight[c];
            const real dx = (real)(rate * (g - mean_g - normalised(n, r, c) * mean_gn));
            real *to = &((real *)n->dx)[r * C + c];
            if (!n->adds)
                *to = dx;
            else
                *to += n->rounds ? (real)ls_float_of_bf16(ls_bf16_of_float((float)dx)) : dx;
        }
    }
    return LS_OK;
}

/* ---- GELU ----------------------------------------------------------------------------------- */

static const double gelu_cubic = 0.044715, root_2_over_pi = 0.79788456080286535588;

static ls_status gelu_forward(const ls_gelu_forward_args *g)
{
    for (int64_t i = 0; i < g->count; i++) {
        const double x = (double)((const real *)g->x)[i];
        const double u = root_2_over_pi * (x + gelu_cubic * x * x * x);
        ((real *)g->y)[i] = (real)(0.5 * x * (1 + tanh(u)));
    }
    return LS_OK;
}

static ls_status gelu_backward(const ls_gelu_backward_args *g)
{
    for (int64_t i = 0; i < g->count; i++) {
        const double x = (double)((const real *)g->x)[i];
        const double t = tanh(root_2_over_pi * (x + gelu_cubic * x * x * x));
        const double du = root_2_over_pi * (1 + 3 * gelu_cubic * x * x);
        ((real *)g->dx)[i] =
            (real)((double)((const real *)g->dy)[i] * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * du));
    }
    return LS_OK;
}

/* ---- Dropout -------------------------------------------------------------------------------- */

static ls_status dropout(const ls_dropout_args *d)
{
    for (int64_t i = 0; i < d->rows * d->width; i++) {
        const uint64_t sample = *d->first + (uint64_t)(i / d->width);
        const uint64_t index = sample * (uint64_t)d->whole + (uint64_t)(d->begin + i % d->width);
        const bool stays = ls_random_word(d->random, index) >= d->threshold;
        ((real *)d->y)[i] = stays ? ((const real *)d->x)[i] * (real)d->factor : 0;
    }
    return LS_OK;
}

/* ---- Attention ------------------------------------------------------------------------------ */

/* One head of one sample: q, k and v of position p are at p * 3C, and y and dy at p * C. */
typedef struct reference_head {
    int64_t T, C, d;
    const real *q, *k, *v;
    double *share, *gradient;      /* [T] of one query: softmax(s[p]), and ds[p] / sqrt(d) */
    double *key_sums, *value_sums; /* [T,d] dk, dv */
} reference_head;

static double dot(const real *a, const real *b, int64_t d)
{
    double sum = 0;
    for (int64_t i = 0; i < d; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* share[j] = s[p,j] */
static void scores(const reference_head *h, int64_t p)
{
    for (int64_t j = 0; j <= p; j++)
        h->share[j] = dot(h->q + p * 3 * h->C, h->k + j * 3 * h->C, h->d) / sqrt((double)h->d);
}

static void attend(const reference_head *h, real *y, real *sums)
{
    for (int64_t p = 0; p < h->T; p++) {
        double largest = -HUGE_VAL, sum = 0;
        scores(h, p);
        for (int64_t j = 0; j <= p; j++)
            largest = h->share[j] > largest ? h->share[j] : largest;
        for (int64_t j = 0; j <= p; j++)
            sum += exp(h->share[j] - largest);
        for (int64_t i = 0; i < h->d; i++) {
            double value = 0;
            for (int64_t j = 0; j <= p; j++)
                value += exp(h->share[j] - largest) * (double)h->v[j * 3 * h->C + i];
            y[p * h->C + i] = (real)(value / sum);
        }
        sums[p] = (real)(largest + log(sum));
    }
}

/* Query p: dq, at [p * 3C], and what it adds to dk and dv. */
static void attend_back(const reference_head *h, int64_t p, const real *y, const real *dy,
                        double sum, real *dq)
{
    const double e = dot(dy, y, h->d);
    scores(h, p);
    for (int64_t j = 0; j <= p; j++) {
        h->share[j] = exp(h->share[j] - sum);
        h->gradient[j] =
            h->share[j] * (dot(dy, h->v + j * 3 * h->C, h->d) - e) / sqrt((double)h->d);
    }
    for (int64_t i = 0; i < h->d; i++) {
        double total = 0;
        for (int64_t j = 0; j <= p; j++) {
            total += h->gradient[j] * (double)h->k[j * 3 * h->C + i];
            h->key_sums[j * h->d + i] += h->gradient[j] * (double)h->q[p * 3 * h->C + i];
            h->value_sums[j * h->d + i] += h->share[j] * (double)dy[i];
        }
        dq[i] = (real)total;
    }
}

/* Opens head number `n` of all samples' heads; `memory`: see attention_memory. */
static reference_head head_open(const ls_attention_shape *s, const real *qkv, int64_t n,
                                double *memory)
{
    const int64_t C = s->width, d = C / s->heads, T = s->steps;
    const real *q = qkv + n / s->heads * T * 3 * C + n % s->heads * d;
    return (reference_head){
        T, C, d, q, q + C, q + 2 * C, memory, memory + T, memory + 2 * T, memory + 2 * T + T * d};
}

static size_t attention_memory(const ls_attention_shape *s)
{
    return (size_t)(s->steps * (2 + 2 * (s->width / s->heads)));
}

static ls_status attention_forward(const ls_attention_forward_args *a)
{
    const ls_attention_shape *s = &a->shape;
    double *memory;
    LS_TRY(ls_allocate("attention", &memory, attention_memory(s) + 1, sizeof *memory));
    for (int64_t n = 0; n < s->rows * s->heads; n++) {
        const reference_head h = head_open(s, a->qkv, n, memory);
        attend(&h, (real *)a->y + n / s->heads * h.T * h.C + n % s->heads * h.d,
               (real *)a->sums + n * h.T);
    }
    free(memory);
    return LS_OK;
}

static ls_status attention_backward(const ls_attention_backward_args *a)
{
    const ls_attention_shape *s = &a->shape;
    double *memory;
    LS_TRY(ls_allocate("attention", &memory, attention_memory(s) + 1, sizeof *memory));
    for (int64_t n = 0; n < s->rows * s->heads; n++) {
        const reference_head h = head_open(s, a->qkv, n, memory);
        const int64_t at = n / s->heads * h.T * h.C + n % s->heads * h.d;
        const real *sums = (const real *)a->sums + n * h.T;
        real *dq = (real *)a->dqkv + (h.q - (const real *)a->qkv);
        memset(h.key_sums, 0, (size_t)(2 * h.T * h.d) * sizeof *h.key_sums);
        for (int64_t p = 0; p < h.T; p++)
            attend_back(&h, p, (const real *)a->y + at + p * h.C,
                        (const real *)a->dy + at + p * h.C, (double)sums[p], dq + p * 3 * h.C);
        for (int64_t i = 0; i < h.T * h.d; i++) {
            dq[i / h.d * 3 * h.C + h.C + i % h.d] = (real)h.key_sums[i];
            dq[i / h.d * 3 * h.C + 2 * h.C + i % h.d] = (real)h.value_sums[i];
        }
    }
    free(memory);
    return LS_OK;
}
