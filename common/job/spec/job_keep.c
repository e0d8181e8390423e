/* SPDX-License-Identifier: Apache-2.0 */
/* training.checkpoints_keep: a number alone stands for a section with that number as `last`. */
#include <string.h>

#include "job/spec/job_internal.h"

#define KEEP "checkpoints_keep"

/* Makes {last: @alone} of the value of @entry. */
static void expand(struct yaml_entry *entry)
{
    struct yaml_node *alone = entry->value;
    struct yaml_node *section = yaml_mapping();
    section->source = alone->source;
    section->line = alone->line;
    section->column = alone->column;
    struct yaml_entry *last = yaml_put(section, "last", alone);
    last->source = entry->source;
    last->line = entry->line;
    last->column = entry->column;
    entry->value = section;
}

void job_keep_expand(struct yaml_node *root)
{
    struct yaml_entry *training = yaml_find(root, "training");
    struct yaml_entry *keep = training == NULL || training->value->kind != YAML_MAPPING
                                  ? NULL
                                  : yaml_find(training->value, KEEP);
    if (keep != NULL && keep->value->kind == YAML_SCALAR) {
        expand(keep);
    }
}

void job_keep_check(const struct job_reader *r)
{
    const struct yaml_entry *training = yaml_find(r->root, "training");
    const struct yaml_entry *old = training == NULL || training->value->kind != YAML_MAPPING
                                       ? NULL
                                       : yaml_find(training->value, JOB_KEEP_BEST_OLD);
    const bool off =
        old != NULL && old->value->kind == YAML_SCALAR && strcmp(old->value->text, "false") == 0;
    if (old != NULL && !off) {
        yaml_diag_key(r->diags, r->file, old,
                      "training." JOB_KEEP_BEST_OLD " is now a part of training." KEEP
                      "; write " KEEP ": {best: METRIC}, where METRIC is loss or one of "
                      "model.metrics");
    }
}
