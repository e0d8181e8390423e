/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/rpc/serve_meters.h"

void serve_meters_init(struct serve_meters *m, struct meter_registry *r)
{
    static const double batch_bounds[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
    m->requests = meter_counter(r, "serve_requests_total", "Requests answered", NULL, 0);
    m->failures =
        meter_counter(r, "serve_failures_total", "Requests refused, or that failed", NULL, 0);
    m->records = meter_counter(r, "serve_records_total", "Records computed", NULL, 0);
    m->batches = meter_counter(r, "serve_batches_total", "Batches computed", NULL, 0);
    m->batch_records = meter_histogram(r, "serve_batch_records", "Records of a batch", batch_bounds,
                                       sizeof batch_bounds / sizeof batch_bounds[0], NULL, 0);
    m->seconds = meter_histogram(r, "serve_seconds", "From a request to its answer", METER_SECONDS,
                                 METER_SECONDS_COUNT, NULL, 0);
    m->waiting = meter_gauge(r, "serve_waiting", "Requests that wait", NULL, 0);
    m->version = meter_gauge(r, "serve_version", "Step of the checkpoint that is served", NULL, 0);
    m->swaps =
        meter_counter(r, "serve_swaps_total", "Versions that took the place of others", NULL, 0);
}
