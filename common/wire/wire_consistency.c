/* SPDX-License-Identifier: Apache-2.0 */
/* The consistency of a job as a message and back. A peer's message goes through the same check as a
 * job file. */
#include "wire/wire.h"

void wire_consistency_to_proto(const struct consistency *c, Gradus__V1__Consistency *out)
{
    gradus__v1__consistency__init(out);
    out->mode = wire_mode_to_proto(c->mode);
    out->replicas = c->replicas;
    out->aggregate = c->aggregate;
    out->speculate = c->speculate;
    out->staleness = c->staleness;
    out->policy = wire_policy_to_proto(c->policy);
    out->max_staleness = c->max_staleness;
    out->lambda = c->lambda;
    out->push_every = c->push_every;
    out->pull_every = c->pull_every;
    out->overlap = c->overlap;
}

int wire_consistency_from_proto(const Gradus__V1__Consistency *in, struct consistency *out,
                                struct err *err)
{
    if (in == NULL) {
        return err_set(err, ERR_INVALID, "consistency: missing");
    }
    struct consistency c = {
        .replicas = in->replicas,
        .aggregate = in->aggregate,
        .speculate = in->speculate,
        .staleness = in->staleness,
        .max_staleness = in->max_staleness,
        .lambda = in->lambda,
        .push_every = in->push_every,
        .pull_every = in->pull_every,
        .overlap = in->overlap,
    };
    int rc = wire_mode_from_proto(in->mode, &c.mode, err);
    if (rc == 0) {
        rc = wire_policy_from_proto(in->policy, &c.policy, err);
    }
    if (rc == 0) {
        rc = consistency_check(&c, err);
    }
    if (rc != 0) {
        return err_wrap(err, "consistency");
    }
    *out = c;
    return 0;
}
