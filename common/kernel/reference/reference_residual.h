/* SPDX-License-Identifier: MIT */
/* Loops of residual networks' operations. Part of reference_loops.h, which explains them. */

/* ---- Batch normalisation -------------------------------------------------------------------- */

static void set_moments(const double *sums, int64_t C, double count, double epsilon, real *moments)
{
    for (int64_t c = 0; c < C; c++) {
        double mean, variance;
        ls_bn_moment(sums[c], sums[C + c], count, &mean, &variance);
        moments[c] = (real)mean;
        moments[C + c] = (real)ls_bn_rate(variance, epsilon);
    }
}

static ls_status bn_sums(const ls_bn_sums_args *b)
{
    const real *x = b->x;
    for (int64_t c = 0; c < b->channels; c++) {
        double sum = 0, squares = 0;
        for (int64_t p = 0; p < b->pixels; p++) {
            double value = (double)x[p * b->channels + c];
            sum += value;
            squares += value * value;
        }
        b->sums[c] = sum;
        b->sums[b->channels + c] = squares;
    }
    if (b->moments)
        set_moments(b->sums, b->channels, b->pixels ? (double)b->pixels : 1, b->epsilon,
                    b->moments);
    return LS_OK;
}

static ls_status bn_moments(const ls_bn_moments_args *b)
{
    set_moments(b->sums, b->channels, (double)b->count, b->epsilon, b->moments);
    return LS_OK;
}

static ls_status bn_moving_moments(const ls_bn_moving_moments_args *b)
{
    const real *mean = b->mean, *variance = b->variance;
    real *moments = b->moments;
    for (int64_t c = 0; c < b->channels; c++) {
        moments[c] = mean[c];
        moments[b->channels + c] = (real)ls_bn_rate((double)variance[c], b->epsilon);
    }
    return LS_OK;
}

/* The output before the shortcut and the ReLU. */
static double bn_value(double x, const real *const of_channel[4], int64_t c)
{
    const real *mean = of_channel[0], *rate = of_channel[1];
    return (x - (double)mean[c]) * ((double)of_channel[2][c] * (double)rate[c]) +
           (double)of_channel[3][c];
}

static ls_status bn_forward(const ls_bn_forward_args *b)
{
    const int64_t C = b->channels;
    const real *x = b->x, *z = b->z, *moments = b->moments;
    const real *const of_channel[4] = {moments, moments + C, b->weight, b->bias};
    real *y = b->y;
    for (int64_t i = 0; i < b->pixels * C; i++) {
        double value = bn_value((double)x[i], of_channel, i % C);
        value += z ? (double)z[i] : 0;
        y[i] = (real)(b->activation == LS_ACTIVATION_RELU && !(value > 0) ? 0 : value);
    }
    return LS_OK;
}

static ls_status bn_backward_sums(const ls_bn_backward_sums_args *b)
{
    const int64_t C = b->channels;
    const real *x = b->x, *y = b->y, *dy = b->dy, *moments = b->moments;
    const real *const of_channel[4] = {moments, moments + C, b->weight, b->bias};
    real *dz = b->dz;
    for (int64_t c = 0; c < C; c++) {
        double sum = 0, with = 0;
        for (int64_t i = c; i < b->pixels * C; i += C) {
            double out = y ? (double)y[i] : bn_value((double)x[i], of_channel, c);
            double g = b->activation == LS_ACTIVATION_RELU && !(out > 0) ? 0 : (double)dy[i];
            sum += g;
            with += g * (((double)x[i] - (double)moments[c]) * (double)moments[C + c]);
            if (dz)
                dz[i] = (real)g;
        }
        b->sums[c] = sum;
        b->sums[C + c] = with;
        ((real *)b->dbias)[c] = (real)sum;
        ((real *)b->dweight)[c] = (real)with;
        double mean, variance;
        ls_bn_share(b, c, &mean, &variance);
        ((real *)b->mean)[c] = (real)mean;
        ((real *)b->variance)[c] = (real)variance;
    }
    return LS_OK;
}

static ls_status bn_backward(const ls_bn_backward_args *b)
{
    const int64_t C = b->channels;
    const double count = (double)b->count;
    const real *x = b->x, *dy = b->dy, *moments = b->moments, *weight = b->weight;
    const real *const of_channel[4] = {moments, moments + C, b->weight, b->bias};
    real *dx = b->dx;
    for (int64_t i = 0; i < b->pixels * C; i++) {
        const int64_t c = i % C;
        double n = ((double)x[i] - (double)moments[c]) * (double)moments[C + c];
        bool cut =
            b->activation == LS_ACTIVATION_RELU && !(bn_value((double)x[i], of_channel, c) > 0);
        double g = (cut ? 0 : (double)dy[i]) - b->sums[c] / count - n * (b->sums[C + c] / count);
        dx[i] = (real)((double)weight[c] * (double)moments[C + c] * g);
    }
    return LS_OK;
}

/* ---- Shortcuts ------------------------------------------------------------------------------ */

/* Copies between the larger image and the smaller one; what has no partner becomes 0. */
static void shortcut_copy(const ls_shortcut_shape *s, bool forward, const real *from, real *to)
{
    const int64_t height = (s->in_height + s->stride - 1) / s->stride;
    const int64_t width = (s->in_width + s->stride - 1) / s->stride;
    const int64_t large = s->in_height * s->in_width * s->channels;
    const int64_t small = height * width * s->outputs;
    for (int64_t i = 0; i < s->rows * (forward ? small : large); i++)
        to[i] = 0;
    for (int64_t i = 0; i < s->rows * small; i++) {
        const int64_t b = i / small, pixel = i % small / s->outputs, c = i % s->outputs;
        const int64_t y = pixel / width * s->stride, x = pixel % width * s->stride;
        const int64_t at = b * large + (y * s->in_width + x) * s->channels + c;
        if (c < s->channels)
            to[forward ? i : at] = from[forward ? at : i];
    }
}

static ls_status shortcut_forward(const ls_shortcut_forward_args *s)
{
    shortcut_copy(&s->shape, true, s->x, s->y);
    return LS_OK;
}

static ls_status shortcut_backward(const ls_shortcut_backward_args *s)
{
    shortcut_copy(&s->shape, false, s->dy, s->dx);
    return LS_OK;
}

/* ---- Means ---------------------------------------------------------------------------------- */

static ls_status mean_pool_forward(const ls_mean_pool_forward_args *m)
{
    const int64_t C = m->channels;
    for (int64_t b = 0; b < m->rows; b++)
        for (int64_t c = 0; c < C; c++) {
            double sum = 0;
            for (int64_t p = 0; p < m->pixels; p++)
                sum += (double)((const real *)m->x)[(b * m->pixels + p) * C + c];
            ((real *)m->y)[b * C + c] = (real)(sum / (double)m->pixels);
        }
    return LS_OK;
}

static ls_status mean_pool_backward(const ls_mean_pool_backward_args *m)
{
    const int64_t C = m->channels;
    for (int64_t i = 0; i < m->rows * m->pixels * C; i++) {
        const double dy = (double)((const real *)m->dy)[i / (m->pixels * C) * C + i % C];
        ((real *)m->dx)[i] = (real)(dy / (double)m->pixels);
    }
    return LS_OK;
}

static ls_status moving_average(const ls_moving_average_args *m)
{
    const double rate = 1 - ls_moving_average_decay(m);
    const real *value = m->value;
    real *average = m->average;
    for (int64_t i = 0; i < m->count; i++)
        average[i] = (real)((double)average[i] + rate * ((double)value[i] - (double)average[i]));
    return LS_OK;
}

static ls_status add_sums(const ls_add_sums_args *a)
{
    for (int64_t i = 0; i < a->count; i++)
        a->out[i] = a->b ? a->a[i] + a->b[i] : a->a[i];
    return LS_OK;
}
