/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a job's evaluations was the best, by training.stop or training.checkpoints_keep.best,
 * and whether training ends for want of a better one. Plain data, a function of the evaluations in
 * their order: a job that goes back to a checkpoint takes what it was there (manifest.h). */
#ifndef GRADUS_JOB_PROGRESS_BEST_H
#define GRADUS_JOB_PROGRESS_BEST_H

#include "base/buf.h"
#include "job/spec/job_spec.h"

/* Zeroed: nothing was evaluated. */
struct best {
    enum metric_kind metric;
    uint64_t count; /* evaluations that were counted */
    uint64_t last;  /* the step of the last evaluation */
    bool known;     /* an evaluation had a number: */
    double value;
    uint64_t step;
    uint64_t without; /* evaluations after the best one, or all, none of which was better */
    bool stops;       /* training ends at `last`, for that reason */
    bool kept;        /* there is a checkpoint of the best version, or of an earlier best one: */
    uint64_t kept_step;
};

int best_metric(const struct training_spec *t);     /* enum metric_kind, plus 1; 0: none */
bool best_is_wanted(const struct training_spec *t); /* there is a metric to judge by */
bool best_is_kept(const struct training_spec *t);   /* its checkpoint */
/* Training ends for want of a better evaluation: after the last one, or perhaps the next. */
bool best_is_passed(const struct best *b, const struct training_spec *t);
bool best_may_stop(const struct best *b, const struct training_spec *t);
/* Counts the evaluation at @step with the value @value (NaN: no number, which is never better). An
 * evaluation that was counted before changes nothing. Another metric than before begins anew. True:
 * it is the best. */
bool best_count(struct best *b, const struct training_spec *t, uint64_t step, double value);
/* Training goes on although it was to end: with the same best version, and new patience. */
void best_go_on(struct best *b);
/* Append "stopped early: no better accuracy than 0.971 of step 400 for 3 evaluations". */
void best_words(const struct best *b, struct buf *out);

#endif
