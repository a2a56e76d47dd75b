/* SPDX-License-Identifier: MIT */
/* Facts of a case before it is resolved: which options apply to it, and the job that it asks
 * for. */
#pragma once

#include "bench/case/case.h"

/** Notes what follows from the model's file, or that it is from none. */
void ls_case_note_model(ls_case *one, const ls_model *model);

/** Whether an option that a strategy, a model or a data set declares applies to the case. */
bool ls_case_has(const ls_case *one, const ls_declared_option *option);

enum { LS_DECLARED_HAD = 32 }; /**< declared options that apply to one case, at most */

/** The declared options that apply to the case; how many there are. */
size_t ls_case_own(const ls_case *one, const ls_declared_option *out[LS_DECLARED_HAD]);

double ls_case_dropout(const ls_case *one); /**< 0 means no dropout */

/** Whether an option of accumulation that the strategy has, if not this case, is taken and changes
 * nothing, since there is one piece. */
bool ls_case_ignores(const ls_case *one, const ls_declared_option *option);

/** Sets options that change nothing in this case to their defaults, so that it is the same as one
 * without them. */
void ls_case_settle(ls_case *one);

bool ls_case_lr_decays(const ls_case *one); /**< its learning rate falls, as --lr-schedule says */
bool ls_case_lr_is_wsd(const ls_case *one);
bool ls_case_is_exact(const ls_case *one);
bool ls_case_convolves(const ls_case *one);
bool ls_case_has_buckets(const ls_case *one); /**< exact mode reduces everything at once */
size_t ls_case_devices(const ls_case *one);   /**< --devices: a number, or names joined by + */
bool ls_case_has_links(const ls_case *one);   /**< there is, or could be, more than one device */
bool ls_case_has_timeout(const ls_case *one);
bool ls_case_is_elastic(const ls_case *one); /**< replicas leave, join, or may die */
bool ls_case_by_arrival(const ls_case *one); /**< servers serve in the order of arrival */

/** The words for an enumeration's values, by value; NULL-terminated. */
extern const char *const ls_scaling_words[],
    *const ls_reduce_words[], *const ls_math_words[], *const ls_precision_words[],
                                                          *const ls_convolution_words[];

/** The case with `single` as its strategy, on its first device, without faults on purpose; options
 * that `single` does not have get their defaults. Cases of one configuration have the same one. */
ls_case ls_case_single(const ls_case *one);

/** Whether two cases are equal, texts compared by content. */
bool ls_case_same(const ls_case *a, const ls_case *b);

/** A hash that is the same in every process for equal cases. */
uint64_t ls_case_hash(const ls_case *one);

/** Sets the fields of the job that the case alone decides; the others do not change. */
void ls_case_job(const ls_case *one, ls_job *job);

/** What the strategy's check sees; each rank has `devices` devices. Borrows the case and the job.
 */
ls_outline ls_case_outline(const ls_case *one, const ls_job *job, size_t devices, int hosts);
