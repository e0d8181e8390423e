/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluations of a job's model on a worker, batch by batch of its test records. */
#include <inttypes.h>

#include "worker/job/worker_model_program.h"

static int fetch_rows(struct worker_model *m, size_t n, const struct worker_model_fetch *fetch,
                      struct err *err)
{
    if (m->rows.count == 0) {
        return 0;
    }
    int rc = m->by_program != NULL ? model_program_keys_of_test(m, n, err)
                                   : worker_rows_find(&m->rows, &m->test_batch.lists, err);
    rc = rc != 0 ? rc : fetch->call(fetch->ctx, err);
    return rc != 0 ? rc : worker_rows_come(&m->rows, NULL, err);
}

int worker_model_evaluate(struct worker_model *m, uint64_t first, uint64_t count,
                          const struct worker_model_fetch *fetch, struct metrics *metrics,
                          struct err *err)
{
    const uint64_t records = m->test_info.records;
    if (records == 0) {
        return err_set(err, ERR_STATE, "the job has no test data");
    }
    if (first > records || count > records - first) {
        return err_set(err, ERR_RANGE, "test records %" PRIu64 "+%" PRIu64 " of %" PRIu64, first,
                       count, records);
    }
    worker_model_point(m, WORKER_SET_EVALUATION);
    while (count > 0) {
        size_t n = count < m->runner_batch ? (size_t)count : m->runner_batch;
        for (size_t i = 0; i < n; i++) {
            m->records[i] = first + i;
        }
        int rc = m->test == NULL ? 0 : dataset_read(m->test, m->records, n, &m->test_batch, err);
        rc = rc != 0 ? rc : fetch_rows(m, n, fetch, err);
        if (rc == 0 && m->by_program != NULL) {
            rc = model_program_evaluate(m, n, metrics, err);
        }
        if (rc != 0) {
            return rc;
        }
        if (m->by_program == NULL) {
            runner_evaluate(m->runner, m->values, &m->test_batch, metrics);
        }
        first += n;
        count -= n;
    }
    return 0;
}
