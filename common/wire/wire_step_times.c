/* SPDX-License-Identifier: Apache-2.0 */
/* The times of steps as a message and back: nanoseconds here, microseconds there. Numbers that are
 * too large to make sense are cut, so that adding some of them cannot overflow. */
#include "wire/wire.h"

#define NS_PER_US 1000
#define US_MAX (UINT64_MAX / 16 / NS_PER_US) /* so that a few of them can be added up */

void wire_step_times_to_proto(const struct step_times *t, Gradus__V1__StepTimes *out)
{
    gradus__v1__step_times__init(out);
    out->steps = t->steps;
    out->load_us = t->ns[STEP_LOAD] / NS_PER_US;
    out->compute_us = t->ns[STEP_COMPUTE] / NS_PER_US;
    out->wire_us = t->ns[STEP_WIRE] / NS_PER_US;
    out->apply_us = t->ns[STEP_APPLY] / NS_PER_US;
    out->wait_us = t->ns[STEP_WAIT] / NS_PER_US;
}

static uint64_t to_ns(uint64_t us)
{
    return (us < US_MAX ? us : US_MAX) * NS_PER_US;
}

void wire_step_times_from_proto(const Gradus__V1__StepTimes *in, struct step_times *out)
{
    *out = (struct step_times){0};
    if (in == NULL) {
        return;
    }
    out->steps = in->steps;
    out->ns[STEP_LOAD] = to_ns(in->load_us);
    out->ns[STEP_COMPUTE] = to_ns(in->compute_us);
    out->ns[STEP_WIRE] = to_ns(in->wire_us);
    out->ns[STEP_APPLY] = to_ns(in->apply_us);
    out->ns[STEP_WAIT] = to_ns(in->wait_us);
}
