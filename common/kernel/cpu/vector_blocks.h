/* SPDX-License-Identifier: MIT */
/*
 * How many values the vector loops keep in registers, by instruction set, so that no inner loop
 * spills. A block of sums is rows times vectors; next to it there are the block's vectors and one
 * broadcast number. (AVX2: 6 x 2 sums, 2 vectors and a number are 15 of 16 registers.) A new
 * instruction set is a column here, with its operations in vector_lanes.h.
 */
#pragma once

#if defined(__AVX512F__) /* 32 registers of 16 floats */
enum {
    LS_VEC = 16,        /* floats of a vector */
    WINOGRAD_VECS = 4,  /* tiles by outputs: that many vectors, or a half or a quarter, */
    WINOGRAD_SUMS = 24, /* and sums; WINOGRAD_SUMS / vectors divides LS_WINOGRAD_TILES */
    GRADIENT_SUMS = 16, /* in a gradient of weights: channels by outputs */
    FEW_VECS = 1,       /* few channels: vectors of outputs, at most 16 floats, */
    FEW_TAPS = 15,      /* taps, next to one sum for each vector */
    CONV_MAX_VECS = 2,  /* outputs of a convolution with global max; filters stay, too */
    CONV_MAX_WIDE = 2,  /* vectors where filters are too many to stay */
    LSTM_VECS = 4,      /* LS_VECTOR_LSTM_ROWS samples by gates: 1, 2 or 4 */
    COLUMN_VECS = 4,    /* columns with four sums each */
    POOL_VECS = 4,      /* channels of a max pool: largest and where */
    PRODUCT_VECS = 2,   /* matrix products: columns, */
    PRODUCT_ROWS = 14,  /* and rows, even */
};
#elif defined(__AVX2__)     /* 16 registers of 8 floats */
enum {
    LS_VEC = 8,
    WINOGRAD_VECS = 2,
    WINOGRAD_SUMS = 12,
    GRADIENT_SUMS = 12,
    FEW_VECS = 2,
    FEW_TAPS = 5,
    CONV_MAX_VECS = 1,
    CONV_MAX_WIDE = 4,
    LSTM_VECS = 2,
    COLUMN_VECS = 3,
    POOL_VECS = 4,
    PRODUCT_VECS = 2,
    PRODUCT_ROWS = 6,
};
#else                       /* 16 registers of 4 floats */
enum {
    LS_VEC = 4,
    WINOGRAD_VECS = 4,
    WINOGRAD_SUMS = 12,
    GRADIENT_SUMS = 8,
    FEW_VECS = 4,
    FEW_TAPS = 2,
    CONV_MAX_VECS = 1,
    CONV_MAX_WIDE = 4,
    LSTM_VECS = 2,
    COLUMN_VECS = 2,
    POOL_VECS = 4,
#if defined(LS_VECTOR_NEON) /* 32 registers: only the products' table is its own */
    PRODUCT_VECS = 2,
    PRODUCT_ROWS = 12,
#else
    PRODUCT_VECS = 1,
    PRODUCT_ROWS = 4,
#endif
};
#endif
