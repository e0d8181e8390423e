/* SPDX-License-Identifier: Apache-2.0 */
/* The meters of a server of answers. */
#ifndef GRADUS_SERVE_SERVE_METERS_H
#define GRADUS_SERVE_SERVE_METERS_H

#include "metrics/meter.h"

struct serve_meters {
    struct meter *requests, *failures, *records, *batches, *batch_records, *seconds, *waiting,
        *version, *swaps;
};
void serve_meters_init(struct serve_meters *m, struct meter_registry *r);

#endif
