/* SPDX-License-Identifier: Apache-2.0 */
/* Mergeable metrics: sums in double, so that parts computed anywhere add up to the whole. Each
 * record counts as much as its weight (data.weight), as sample_weight of scikit-learn has it.
 * AUC is exact over logits rounded to METRIC_AUC_BINS bins between plus and minus
 * METRIC_AUC_LOGIT_MAX, and so is grouped AUC, which keeps every record's score. Counters come with
 * the first record, which says how many classes there are. Plain data.
 *
 * Test records are cut into fixed chunks whose sums are merged in the order of chunks, so a result
 * does not depend on who computed what (decision 9). Those of train records are merged as they
 * come: batches are set apart (metrics_open()), and sums keep what rounding would take from them,
 * so their order does not show, but in R² and in counters of weighted records. Bins are of the
 * logit, because bins of the probability would make ties of most pairs where one class is rare. */
#ifndef GRADUS_GRAPH_METRIC_H
#define GRADUS_GRAPH_METRIC_H

#include "graph/layer.h"
#include "graph/metric_group.h"
#include "graph/metric_tally.h"

#define METRIC_AUC_BINS 4096
#define METRIC_AUC_LOGIT_MAX 16.0 /* a probability of 1e-7 */
#define METRIC_ECE_BINS 15        /* bins of one width between 0 and 1 (Guo et al., ICML 2017) */
/* Classes that auc and confusion_matrix can be of: so many rows of counters. */
#define METRIC_CLASSES_MAX 256U

/* Sums of weights for each class. */
enum { METRIC_CLASS_HITS, METRIC_CLASS_PREDICTED, METRIC_CLASS_LABELLED, METRIC_CLASS_COUNTS };
/* Sums in each bin of the calibration error. */
enum { METRIC_ECE_RECORDS, METRIC_ECE_PROBABILITY, METRIC_ECE_RIGHT, METRIC_ECE_SUMS };

/* weight, loss_sum and so on, one after the other; all but those of R² */
#define METRIC_SUM_COUNT (8 + METRIC_ECE_BINS * METRIC_ECE_SUMS)
#define METRIC_RESTS 2 /* with the sum itself some 150 bits: more than sums of losses span */

struct metrics {
    unsigned kinds;    /* bit set; set by metrics_init() */
    uint64_t examples; /* records */
    double weight;     /* theirs, together; without weights as many as examples */
    double loss_sum;   /* of losses times weights, as all that follows */
    double correct;
    double squared_error_sum;  /* in scaled units */
    double absolute_error_sum; /* with METRIC_MAE */
    double label_sum;          /* of labels 0 and 1; for normalised entropy and calibration */
    double probability_sum;    /* of label 1; with METRIC_CALIBRATION */
    double top_correct;        /* with METRIC_TOP_K_ACCURACY */
    double ece[METRIC_ECE_BINS][METRIC_ECE_SUMS];
    double label_mean, label_m2; /* of real labels, and their squared distances from it; for R² */
    /* [rows][2][METRIC_AUC_BINS] positives and negatives: one row for two classes, else one for
     * each class; with METRIC_AUC */
    struct metric_tally scores;
    struct metric_tally classes;   /* [classes][METRIC_CLASS_COUNTS]; precision, recall and F1 */
    struct metric_tally confusion; /* [classes][classes] by label, then prediction */
    struct group_scores groups;    /* with METRIC_GROUPED_AUC */
    /* What is to be added to each sum that has come together of several: it is below the last bit
     * of the sum. */
    double rest[METRIC_SUM_COUNT][METRIC_RESTS];
};
/* The sums of earlier batches while one is added. */
struct metrics_before {
    double sums[METRIC_SUM_COUNT], label_mean, label_m2;
};
/* The metrics of @kinds that are measured of train records, too: what grouped AUC keeps of each
 * record is for the test records alone. */
unsigned metrics_of_training(unsigned kinds);
void metrics_init(struct metrics *m, unsigned kinds);
void metrics_release(struct metrics *m);
void metrics_reset(struct metrics *m);
/* Sums come out the same in any order of merges, as long as none is infinite. */
void metrics_merge(struct metrics *into, const struct metrics *from);
/* What is added between the two is one summand, as if it were merged. */
void metrics_open(struct metrics *m, struct metrics_before *before);
void metrics_close(struct metrics *m, const struct metrics_before *before);
/* Adds real labels that weigh @weight together, with that mean, whose squared distances from it add
 * up to @m2, before their weight is added. */
void metrics_add_labels(struct metrics *m, double weight, double mean, double m2);
/* The number of classes of the confusion matrix; 0: there is none. */
size_t metrics_confusion_classes(const struct metrics *m);
/* The value of one metric; NaN without examples, of examples without weight, and of the confusion
 * matrix. @label_scale turns errors into the data's units. Precision, recall and F1 are those of
 * class 1 of two, else the means over all classes that some record has or is said to have; 0 where
 * there is nothing to divide by, as in scikit-learn. AUC of more than two classes is the mean over
 * the classes of each against the rest; of those alone that some records have, and not all.
 * Normalised entropy is the mean log loss over the entropy of the labels' base rate (He et al.,
 * "Practical Lessons from Predicting Clicks on Ads at Facebook", ADKDD 2014): 1 is a model that
 * knows the base rate alone; NaN when all labels are the same. */
double metrics_value(const struct metrics *m, enum metric_kind kind, double label_scale);
/* A flat form for the wire: doubles; the sums that not every job has, counters and the scores of
 * records only where they are on. Returns the count; @out may be NULL. */
size_t metrics_pack(const struct metrics *m, double *out);
/* Errors: ERR_INVALID when the count does not fit the kinds. @m was initialised with its kinds. */
int metrics_unpack(struct metrics *m, const double *in, size_t count, struct err *err);

#endif
