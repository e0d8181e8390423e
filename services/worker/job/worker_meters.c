/* SPDX-License-Identifier: Apache-2.0 */
/* The meters of a worker. */
#include "worker/job/worker_job.h"

void worker_meters_init(struct worker_meters *m, struct meter_registry *r)
{
    m->batches = meter_counter(r, "worker_batches_total", "Mini-batches computed", NULL, 0);
    m->examples = meter_counter(r, "worker_examples_total", "Training examples computed", NULL, 0);
    m->evaluations =
        meter_counter(r, "worker_evaluations_total", "Chunks of test records evaluated", NULL, 0);
    m->exchanges_failed = meter_counter(r, "worker_exchanges_failed_total",
                                        "Exchanges with shards that failed", NULL, 0);
    m->given_up = meter_counter(
        r, "worker_batches_given_up_total",
        "Mini-batches whose parameters did not all come; they are computed again", NULL, 0);
    m->bad_records = meter_counter(r, "worker_bad_records_total",
                                   "Bad records left out of data files (data.bad_records), each "
                                   "time that a file is read",
                                   NULL, 0);
    m->steps = meter_counter(r, "worker_steps_total",
                             "Steps begun: global ones in sync mode, else batches", NULL, 0);
    for (int part = 0; part < STEP_PART_COUNT; part++) {
        struct meter_label label = {"part", step_part_name((enum step_part)part)};
        m->step_seconds[part] =
            meter_total(r, "worker_step_seconds_total",
                        "What steps spent their time on; the parts add up to all of it", &label, 1);
    }
}
