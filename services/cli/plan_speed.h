/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `gradus plan` about time: the predicted time of a step, its parts, and whether the
 * servers keep up with the workers. */
#ifndef GRADUS_CLI_PLAN_SPEED_H
#define GRADUS_CLI_PLAN_SPEED_H

#include <stddef.h>

#include "base/buf.h"
#include "config/field.h"
#include "data/dataset.h"
#include "graph/model.h"
#include "job/plan/forecast.h"
#include "json/json_write.h"

/* The options about machines, as they were typed. */
struct plan_speed_options {
    char *step_compute; /* "": tried out */
    char *link, *server_link, *round_trip;
    int64_t processors;
};
#define PLAN_SPEED_PROCESSORS_MAX 1000000
#define PLAN_SPEED_ROWS(owner, member)                                                             \
    {.path = "step_compute",                                                                       \
     .type = FIELD_STRING,                                                                         \
     .offset = offsetof(owner, member.step_compute),                                               \
     .def = "",                                                                                    \
     .help = "What a worker's computation of one mini-batch takes, such as 5ms or 800us; empty: "  \
             "it is tried out on this machine, where the data are"},                               \
        {.path = "link",                                                                           \
         .type = FIELD_STRING,                                                                     \
         .offset = offsetof(owner, member.link),                                                   \
         .def = "10Gbit",                                                                          \
         .help = "Link of each node, such as 100Mbit or 25Gbit a second each way; none: without "  \
                 "a limit"},                                                                       \
        {.path = "server_link",                                                                    \
         .type = FIELD_STRING,                                                                     \
         .offset = offsetof(owner, member.server_link),                                            \
         .def = "",                                                                                \
         .help = "That of the servers; empty: as the others"},                                     \
        {.path = "round_trip",                                                                     \
         .type = FIELD_STRING,                                                                     \
         .offset = offsetof(owner, member.round_trip),                                             \
         .def = "100us",                                                                           \
         .help = "What the network takes there and back, such as 100us or 2ms"},                   \
    {                                                                                              \
        .path = "processors", .type = FIELD_INT, .offset = offsetof(owner, member.processors),     \
        .def = "0", .min = 0, .max = PLAN_SPEED_PROCESSORS_MAX,                                    \
        .help = "Processors of one machine that all nodes share; 0: each has a machine of its own" \
    }

struct plan_speed {
    struct forecast_job job;
    struct forecast forecast; /* zeros when the computation is not known */
    bool known, stated;       /* stated: by --step-compute */
    bool tables;              /* the model has tables, whose rows are not counted */
    /* so many servers would keep up; 0: as many as there are, or not known */
    uint64_t servers;
    struct err why; /* it is not known */
};

/* "5ms", "1.5 s", "800us", or a number of milliseconds; false for others, and for what is not above
 * 0 (but "0" with @zero). */
bool plan_speed_seconds(const char *text, bool zero, double *seconds);
/* "1Gbit", "2.5 Gbit/s", "100Mbit"; 0 for "none". */
bool plan_speed_bits(const char *text, double *bits);

/* Predicts the time of a step. A computation that can be neither tried out nor is stated is not
 * known, which is no error. Errors: ERR_INVALID an option; those of the data. */
int plan_speed_of(const struct plan_speed_options *o, const struct job_spec *spec,
                  const struct plan *plan, const struct model *model, const struct dataset *train,
                  struct plan_speed *out, struct err *err);
/* An object, or null where the computation is not known; milliseconds. Owned by the caller. */
json_t *plan_speed_json(const struct plan_speed *speed);
void plan_speed_text(const struct plan_speed *speed, struct buf *out);

#endif
