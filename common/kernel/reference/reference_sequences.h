/* SPDX-License-Identifier: MIT */
/* The reference table's operations on sequences; part of reference_loops.h, which explains them. */
#pragma once

static double sigmoid(double z)
{
    return 1 / (1 + exp(-z));
}

/* ---- LSTM ----------------------------------------------------------------------------------- */

/* Kept of a sample's step: the gates i, f, g, o after their functions, c and h, H of each. */
enum { KEPT_CELL = 4, KEPT_STATE = 5 };

static real *kept_at(const ls_lstm_shape *s, void *kept, int64_t row, int64_t step)
{
    return (real *)kept + (row * s->steps + step) * LS_LSTM_KEPT * s->hidden;
}

/* z of gate g, state j. */
static double lstm_sum(const ls_lstm_forward_args *a, int64_t row, int64_t step, int64_t gate)
{
    const ls_lstm_shape *s = &a->shape;
    const real *x = (const real *)a->x + (row * s->steps + step) * s->inputs;
    const real *ih = (const real *)a->weight_ih + gate * s->inputs;
    const real *hh = (const real *)a->weight_hh + gate * s->hidden;
    double sum = (double)((const real *)a->bias)[gate];
    for (int64_t i = 0; i < s->inputs; i++)
        sum += (double)x[i] * (double)ih[i];
    for (int64_t j = 0; step && j < s->hidden; j++)
        sum +=
            (double)kept_at(s, a->kept, row, step - 1)[KEPT_STATE * s->hidden + j] * (double)hh[j];
    return sum;
}

static ls_status lstm_forward(const ls_lstm_forward_args *a)
{
    const ls_lstm_shape *s = &a->shape;
    const int64_t H = s->hidden;
    for (int64_t row = 0; row < s->rows; row++)
        for (int64_t t = 0; t < s->steps; t++) {
            real *kept = kept_at(s, a->kept, row, t), *y = a->y;
            for (int64_t j = 0; j < H; j++) {
                double i = sigmoid(lstm_sum(a, row, t, j));
                double f = sigmoid(lstm_sum(a, row, t, H + j));
                double g = tanh(lstm_sum(a, row, t, 2 * H + j));
                double o = sigmoid(lstm_sum(a, row, t, 3 * H + j));
                double before = t ? (double)kept_at(s, a->kept, row, t - 1)[KEPT_CELL * H + j] : 0;
                double c = f * before + i * g;
                const double values[] = {i, f, g, o, c, o * tanh(c)};
                for (int k = 0; k < LS_LSTM_KEPT; k++)
                    kept[k * H + j] = (real)values[k];
                if (!s->last)
                    y[(row * s->steps + t) * H + j] = kept[KEPT_STATE * H + j];
                else if (t + 1 == s->steps)
                    y[row * H + j] = kept[KEPT_STATE * H + j];
            }
        }
    return LS_OK;
}

/* The gradient of h_t, of one state: from y, and from the gates of the next step. */
static double state_gradient(const ls_lstm_backward_args *a, int64_t row, int64_t t, int64_t j)
{
    const ls_lstm_shape *s = &a->shape;
    const int64_t H = s->hidden;
    const real *dy = a->dy, *hh = a->weight_hh;
    double sum = 0;
    if (!s->last)
        sum = (double)dy[(row * s->steps + t) * H + j];
    else if (t + 1 == s->steps)
        sum = (double)dy[row * H + j];
    for (int64_t k = 0; t + 1 < s->steps && k < 4 * H; k++)
        sum += (double)kept_at(s, a->kept, row, t + 1)[k] * (double)hh[k * H + j];
    return sum;
}

/*
 * One step of one sample, after all later steps: in `kept` the gates are replaced by the gradients
 * of z, and c_t, once read, by f times its gradient, which is what reaches c_(t-1).
 */
static void lstm_step_backward(const ls_lstm_backward_args *a, int64_t row, int64_t t)
{
    const ls_lstm_shape *s = &a->shape;
    const int64_t H = s->hidden;
    real *kept = kept_at(s, a->kept, row, t);
    for (int64_t j = 0; j < H; j++) {
        double i = (double)kept[j], f = (double)kept[H + j], g = (double)kept[2 * H + j];
        double o = (double)kept[3 * H + j], tc = tanh((double)kept[KEPT_CELL * H + j]);
        double before = t ? (double)kept_at(s, a->kept, row, t - 1)[KEPT_CELL * H + j] : 0;
        double dh = state_gradient(a, row, t, j);
        double dc = dh * o * (1 - tc * tc);
        if (t + 1 < s->steps)
            dc += (double)kept_at(s, a->kept, row, t + 1)[KEPT_CELL * H + j];
        kept[j] = (real)(dc * g * i * (1 - i));
        kept[H + j] = (real)(dc * before * f * (1 - f));
        kept[2 * H + j] = (real)(dc * i * (1 - g * g));
        kept[3 * H + j] = (real)(dh * tc * o * (1 - o));
        kept[KEPT_CELL * H + j] = (real)(dc * f);
    }
}

/* dweight[k, i] = sum over rows and steps of dz[k] times a value: x_t, h_(t-1), or 1. */
static void lstm_weights(const ls_lstm_backward_args *a, int64_t k)
{
    const ls_lstm_shape *s = &a->shape;
    const int64_t H = s->hidden, I = s->inputs;
    for (int64_t i = 0; i < I + H + 1; i++) {
        double sum = 0;
        for (int64_t n = 0; n < s->rows * s->steps; n++) {
            int64_t row = n / s->steps, t = n % s->steps;
            double value = 1;
            if (i < I)
                value = (double)((const real *)a->x)[n * I + i];
            else if (i < I + H)
                value = t ? (double)kept_at(s, a->kept, row, t - 1)[KEPT_STATE * H + i - I] : 0;
            sum += (double)kept_at(s, a->kept, row, t)[k] * value;
        }
        if (i < I)
            ((real *)a->dweight_ih)[k * I + i] = (real)sum;
        else if (i < I + H)
            ((real *)a->dweight_hh)[k * H + i - I] = (real)sum;
        else
            ((real *)a->dbias)[k] = (real)sum;
    }
}

static ls_status lstm_backward(const ls_lstm_backward_args *a)
{
    const ls_lstm_shape *s = &a->shape;
    const real *ih = a->weight_ih;
    for (int64_t row = 0; ih && row < s->rows; row++)
        for (int64_t t = s->steps; t-- > 0;)
            lstm_step_backward(a, row, t);
    for (int64_t k = 0; a->dweight_ih && k < 4 * s->hidden; k++)
        lstm_weights(a, k);
    for (int64_t n = 0; a->dx && n < s->rows * s->steps; n++)
        for (int64_t i = 0; i < s->inputs; i++) {
            double sum = 0;
            for (int64_t k = 0; k < 4 * s->hidden; k++)
                sum += (double)kept_at(s, a->kept, n / s->steps, n % s->steps)[k] *
                       (double)ih[k * s->inputs + i];
            ((real *)a->dx)[n * s->inputs + i] = (real)sum;
        }
    return LS_OK;
}

/* ---- Logistic loss, columns ----------------------------------------------------------------- */

static ls_status logistic_loss(const ls_logistic_loss_args *l)
{
    double total = 0;
    for (int64_t b = 0; b < l->rows; b++) {
        double z = (double)((const real *)l->logits)[b], y = l->labels[b];
        if (l->labels[b] < 0 || l->labels[b] > 1)
            return ls_label_fail("logistic_loss", b, l->labels[b], 2);
        total += (z > 0 ? z : 0) - y * z + log1p(exp(-fabs(z)));
        if (l->dlogits)
            ((real *)l->dlogits)[b] = (real)(l->scale * (sigmoid(z) - y));
    }
    if (l->loss)
        *l->loss = l->scale * total;
    return LS_OK;
}

static ls_status copy_columns(const ls_copy_columns_args *c)
{
    for (int64_t b = 0; b < c->rows; b++)
        for (int64_t i = 0; i < c->width; i++)
            ((real *)c->y)[b * c->y_pitch + i] = ((const real *)c->x)[b * c->x_pitch + i];
    return LS_OK;
}
