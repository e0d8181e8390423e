/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of small jobs whose values follow from where they are, in a directory with their
 * train data, for whoever computes with a trained model. */
#ifndef GRADUS_TESTS_UNIT_SAVED_SAVED_RIG_H
#define GRADUS_TESTS_UNIT_SAVED_SAVED_RIG_H

#include "support/test.h"
#include "support/tmp_dir.h"

#include <stdio.h>
#include <string.h>

#include "checkpoint/checkpoint_dir.h"
#include "saved/saved_predict.h"

#define SAVED_RIG_SHARDS 2
#define SAVED_RIG_ANSWERS_MAX 2048
#define SAVED_RIG_TABLES_MAX 2
#define SAVED_RIG_DIM_MAX 4
#define SAVED_RIG_KEYS 12 /* of each table: 0, 1, ... */

struct saved_rig {
    char *dir;
    char *checkpoints; /* a directory in it */
    bool keeps;        /* checkpoints keep what was measured on the train data */
    /* As tables of the last checkpoint read, of one whose servers are at one version. */
    float rows[SAVED_RIG_TABLES_MAX][SAVED_RIG_KEYS][SAVED_RIG_DIM_MAX];
};

struct saved_rig_answers {
    size_t width, calls, last; /* how many were in the last call */
    size_t count;
    float values[SAVED_RIG_ANSWERS_MAX];
};

int saved_rig_setup(void **state);
int saved_rig_teardown(void **state);
void saved_rig_file(const struct saved_rig *r, const char *name, const char *text);
/* Element @i of variable @v; what its moving average holds is one more. */
float saved_rig_value(size_t v, uint64_t i);
/* A job with the train file "train" in the rig's directory. @format: "csv", ...; @data, @model,
 * @update: further keys of the sections, each after a comma. Returned owned. */
char *saved_rig_job(const struct saved_rig *r, const char *format, const char *data,
                    const char *model, const char *update);
/* A checkpoint of the job @text, on SAVED_RIG_SHARDS servers, of which the last is @behind updates
 * before the others. Returns its path, owned. */
char *saved_rig_checkpoint(struct saved_rig *r, const char *text, uint64_t step, uint64_t behind);
/* It opens. */
struct saved_model *saved_rig_open(const char *path);
/* What it answers for the records of the file "test" with the lines @text. */
void saved_rig_predict(const struct saved_rig *r, struct saved_model *m, const char *text,
                       struct saved_rig_answers *out);
void saved_rig_near(float a, double b);

#endif
