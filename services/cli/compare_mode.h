/* SPDX-License-Identifier: Apache-2.0 */
/* The modes that `gradus compare` trains a job in. */
#ifndef GRADUS_CLI_COMPARE_MODE_H
#define GRADUS_CLI_COMPARE_MODE_H

#include "base/err.h"
#include "job/spec/job_spec.h"

#define COMPARE_MODES_MAX 8
#define COMPARE_SETS_MAX 4

struct compare_mode {
    char name[32]; /* as it was asked for: "sync+backup" */
    char sets[COMPARE_SETS_MAX][80];
    size_t set_count;
    const char *gradients,
        *tuning; /* what it does to gradients, and to settings: a sentence each */
};

/* @list: sync, sync+backup (a step is complete with all replicas but one), sync+speculation,
 * bounded, bounded:N, async; separated by commas. @spec says how many replicas there are. Returns
 * the number of modes. Errors: ERR_INVALID a mode that is unknown, or cannot be for this job. */
int compare_modes_parse(const char *list, const struct job_spec *spec,
                        struct compare_mode modes[COMPARE_MODES_MAX], size_t *count,
                        struct err *err);

#endif
