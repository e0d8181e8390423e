/* SPDX-License-Identifier: Apache-2.0 */
/* Mergeable metrics: sums in double, so that parts computed anywhere add up to the whole.
 * AUC is exact over logits rounded to METRIC_AUC_BINS bins between plus and minus
 * METRIC_AUC_LOGIT_MAX, and so is grouped AUC, which keeps every record's score. Plain data. */
#ifndef GRADUS_GRAPH_METRIC_H
#define GRADUS_GRAPH_METRIC_H

#include "graph/layer.h"
#include "graph/metric_group.h"

#define METRIC_AUC_BINS 4096
#define METRIC_AUC_LOGIT_MAX 16.0 /* a probability of 1e-7 */

struct metrics {
    unsigned kinds; /* bit set; set by metrics_init() */
    uint64_t examples;
    double loss_sum;
    double correct;
    double squared_error_sum;  /* in scaled units */
    double absolute_error_sum; /* likewise; with METRIC_MAE */
    double label_sum;          /* of labels 0 and 1; with METRIC_NORMALISED_ENTROPY */
    uint32_t *positives;       /* [METRIC_AUC_BINS] or NULL without AUC; owned */
    uint32_t *negatives;
    struct group_scores groups; /* with METRIC_GROUPED_AUC */
};
/* Those of @kinds that are measured of train records, too: what grouped AUC keeps of each record is
 * for the test records alone. */
unsigned metrics_of_training(unsigned kinds);
void metrics_init(struct metrics *m, unsigned kinds);
void metrics_release(struct metrics *m);
void metrics_reset(struct metrics *m);
void metrics_merge(struct metrics *into, const struct metrics *from);
/* The value of one metric; NaN without examples. @label_scale turns errors into the data's units.
 * Normalised entropy is the mean log loss over the entropy of the labels' base rate (He et al.,
 * "Practical Lessons from Predicting Clicks on Ads at Facebook", ADKDD 2014): 1 is a model that
 * knows the base rate alone; NaN when all labels are the same. */
double metrics_value(const struct metrics *m, enum metric_kind kind, double label_scale);
/* A flat form for the wire: doubles; the sums that not every job has, the bins and the scores of
 * records only where they are on. Returns the count; @out may be NULL. */
size_t metrics_pack(const struct metrics *m, double *out);
/* Errors: ERR_INVALID when the count does not fit the kinds. @m was initialised with its kinds. */
int metrics_unpack(struct metrics *m, const double *in, size_t count, struct err *err);

#endif
