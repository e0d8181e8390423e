/* SPDX-License-Identifier: Apache-2.0 */
/* What grouped AUC is made of: of each record its group, the bin of its score, its label and its
 * weight. AUC of each group, averaged with the weights of the groups' records; groups that have one
 * label alone say nothing and are left out (Zhou et al., "Deep Interest Network for Click-Through
 * Rate Prediction", KDD 2018). Plain data.
 *
 * It keeps 16 bytes of every test record, because groups are many and small, and sorts them before
 * it counts, so no order of parts shows. The number of records has a limit, which is checked before
 * the first step; train records of an epoch may be any number, so they have no grouped AUC. */
#ifndef GRADUS_GRAPH_METRIC_GROUP_H
#define GRADUS_GRAPH_METRIC_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Records that can be measured at once: each takes 16 bytes. */
#define METRIC_GROUPED_RECORDS_MAX 4194304U
#define GROUP_SCORE_DOUBLES 3 /* doubles of one record in the wire form */

struct group_score {
    uint64_t group;
    float weight; /* finite, from 0 on */
    uint16_t bin;
    bool positive;
};
struct group_scores { /* a zeroed struct is empty */
    struct group_score *items;
    size_t count, capacity;
    bool full; /* there were more than METRIC_GROUPED_RECORDS_MAX: the value is NaN */
};
void group_scores_release(struct group_scores *s);
void group_scores_reset(struct group_scores *s);
void group_scores_add(struct group_scores *s, const struct group_score *score);
void group_scores_merge(struct group_scores *into, const struct group_scores *from);
/* The same for any order of the same records; NaN when no group has both labels. */
double group_scores_value(const struct group_scores *s);
/* [count × GROUP_SCORE_DOUBLES] */
void group_scores_pack(const struct group_scores *s, double *out);
/* Replaces the scores by those of @in. Errors: ERR_INVALID; nothing changes. */
int group_scores_unpack(struct group_scores *s, const double *in, size_t count, uint32_t bins,
                        struct err *err);

#endif
