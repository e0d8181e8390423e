/* SPDX-License-Identifier: Apache-2.0 */
/* A job in the middle of its training, and what is printed of it. */
#ifndef GRADUS_TESTS_OUTPUT_RIG_H
#define GRADUS_TESTS_OUTPUT_RIG_H

#include "support/test.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/text_times.h"

/* A job in the middle of its training. */
struct sample {
    Gradus__V1__Job job;
    Gradus__V1__MetricValue loss, accuracy;
    Gradus__V1__MetricValue *metrics[2];
    Gradus__V1__Evaluation evaluations[14];
    Gradus__V1__Evaluation *list[14];
    char id[16], loss_name[8], accuracy_name[16], worker[16], server[16];
    char *workers[2], *ps[1];
};

/* Two shards: one with a ledger, one that has said nothing. */
struct shards_sample {
    struct sample s;
    Gradus__V1__ShardProgress shards[2];
    Gradus__V1__ShardProgress *list[2];
    Gradus__V1__Ledger ledger;
    uint32_t done[3];
};

void sample_init(struct sample *s);
json_t *output_parse(struct buf *out);
void output_assert_text(struct buf *out, const char *expected);
void shards_init(struct shards_sample *x);
json_int_t output_number_at(const json_t *o, const char *key);

#endif
