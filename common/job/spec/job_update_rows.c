/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the update section beside its rules' hyperparameters. */
#include "job/spec/job_internal.h"

#define ACCUMULATE_MAX 1000000

static const char *const non_finite_names[] = {"fail", "skip", "apply", NULL};

#define SPEC_AT(member) offsetof(struct update_spec, member)
const struct field job_update_fields[] = {
    {.path = "clip_value",
     .type = FIELD_FLOAT,
     .offset = SPEC_AT(clip_value),
     .def = "0",
     .max = 1e30,
     .help = "Each value of the mean gradient is brought into plus or minus this; 0 is off"},
    {.path = "clip_norm",
     .type = FIELD_FLOAT,
     .offset = SPEC_AT(clip_norm),
     .def = "0",
     .max = 1e30,
     .help =
         "The gradient of each variable, and of each table, is scaled down to this norm; 0 is off"},
    {.path = "clip_global_norm",
     .type = FIELD_FLOAT,
     .offset = SPEC_AT(clip_global_norm),
     .def = "0",
     .max = 1e30,
     .help =
         "The gradient of all variables and tables together is scaled down to this norm; 0 is off"},
    {.path = "accumulate",
     .type = FIELD_INT,
     .offset = SPEC_AT(accumulate),
     .def = "1",
     .min = 1,
     .max = ACCUMULATE_MAX,
     .help = "Steps (async: pushes) whose gradients are summed before the rule runs once; the "
             "updates that schedules count are then so many times fewer"},
    {.path = "average",
     .type = FIELD_FLOAT,
     .offset = SPEC_AT(average),
     .def = "0",
     .max = 0.999999999,
     .help = "Keep an exponential moving average of the parameters with this decay; 0 is off"},
    {.path = "evaluate_average",
     .type = FIELD_BOOL,
     .offset = SPEC_AT(evaluate_average),
     .def = "false",
     .help = "Evaluate the moving average instead of the parameters, during the training, at its "
             "end, and with gradus evaluate"},
    {.path = "non_finite",
     .type = FIELD_ENUM,
     .offset = SPEC_AT(non_finite),
     .def = "fail",
     .choices = non_finite_names,
     .help = "What a gradient with infinity or NaN does: the job fails, the update is left out "
             "and counted, or it is applied"},
};
const size_t job_update_field_count = sizeof job_update_fields / sizeof job_update_fields[0];

/* For rules without hyperparameters of these names. */
const struct field job_penalty_fields[] = {
    {.path = "l1",
     .type = FIELD_FLOAT,
     .offset = SPEC_AT(l1),
     .def = "0",
     .max = 1e6,
     .help = "Times the sign of a parameter, added to its gradient"},
    {.path = "l2",
     .type = FIELD_FLOAT,
     .offset = SPEC_AT(l2),
     .def = "0",
     .max = 1e6,
     .help = "Times the parameter, added to its gradient"},
    {.path = "ridge",
     .type = FIELD_FLOAT,
     .offset = SPEC_AT(ridge),
     .def = "0",
     .max = 1e12,
     .help = "Half of this times the squares of the parameters is beside the sum of the losses of "
             "all train records, which is an l2 of this / train records: 1 is C = 1 elsewhere"},
    {.path = "weight_decay",
     .type = FIELD_FLOAT,
     .offset = SPEC_AT(weight_decay),
     .def = "0",
     .max = 1000,
     .help = "Share of a parameter that an update takes away, times the learning rate"},
};
const size_t job_penalty_field_count = sizeof job_penalty_fields / sizeof job_penalty_fields[0];

enum { ROW_MATCH, ROW_LEARNING_RATE, ROW_WEIGHT_DECAY, ROW_L1, ROW_L2, ROW_RIDGE, ROW_FROZEN };
#define PATTERN_AT(member) offsetof(struct update_pattern, member)
const struct field job_pattern_fields[] = {
    [ROW_MATCH] = {.path = "match",
                   .type = FIELD_STRING,
                   .offset = PATTERN_AT(match),
                   .help = "The names of variables, such as dense_1.bias; * is any text, ? is any "
                           "character"},
    [ROW_LEARNING_RATE] = {.path = "learning_rate",
                           .type = FIELD_FLOAT,
                           .offset = PATTERN_AT(learning_rate),
                           .def = "1",
                           .max = 1e6,
                           .help = "A multiplier of the learning rate"},
    [ROW_WEIGHT_DECAY] = {.path = "weight_decay",
                          .type = FIELD_FLOAT,
                          .offset = PATTERN_AT(weight_decay),
                          .def = "0",
                          .max = 1000,
                          .help = "In the place of update.weight_decay"},
    [ROW_L1] = {.path = "l1",
                .type = FIELD_FLOAT,
                .offset = PATTERN_AT(l1),
                .def = "0",
                .max = 1e6,
                .help = "In the place of update.l1"},
    [ROW_L2] = {.path = "l2",
                .type = FIELD_FLOAT,
                .offset = PATTERN_AT(l2),
                .def = "0",
                .max = 1e6,
                .help = "In the place of update.l2"},
    [ROW_RIDGE] = {.path = "ridge",
                   .type = FIELD_FLOAT,
                   .offset = PATTERN_AT(ridge),
                   .def = "0",
                   .max = 1e12,
                   .help = "In the place of update.ridge"},
    [ROW_FROZEN] = {.path = "frozen",
                    .type = FIELD_BOOL,
                    .offset = PATTERN_AT(frozen),
                    .def = "false",
                    .help = "The variables never change, and their gradients count nowhere"},
};
const size_t job_pattern_field_count = sizeof job_pattern_fields / sizeof job_pattern_fields[0];

bool job_pattern_inherits(const struct field *field)
{
    size_t row = (size_t)(field - job_pattern_fields);
    return row == ROW_WEIGHT_DECAY || row == ROW_L1 || row == ROW_L2 || row == ROW_RIDGE;
}

bool job_rule_has(const struct rule *rule, const char *name)
{
    return field_find(rule->fields, rule->field_count, name) != NULL;
}
