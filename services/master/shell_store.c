/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the store ↔ jobs of the core. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "master/job_wire.h"
#include "master/shell.h"

int shell_store_put(struct shell *s, const struct job_record *record, struct err *err)
{
    struct buf packed = {0};
    job_wire_pack(record, &packed);
    const char *number = strrchr(record->id, '-');
    struct store_row row = {
        .id = record->id,
        .name = record->name,
        .request_id = record->request_id,
        .number = number == NULL ? 0 : strtoull(number + 1, NULL, 10),
        .state = (int)record->state,
        .submitted_ms = record->submitted_ms,
        .job = packed.data,
        .job_bytes = packed.len,
    };
    int rc = s->store->ops->put(s->store, &row, err);
    buf_release(&packed);
    return rc;
}

/* The rows are collected first: restoring a job may write its row. */
struct rows {
    struct job_record *items;
    size_t count, capacity;
};

static int collect(void *ctx, const struct store_row *row, struct err *err)
{
    struct rows *rows = ctx;
    struct job_record record;
    int rc = job_wire_unpack(row->job, row->job_bytes, &record, err);
    if (rc < 0) {
        return err_wrap(err, "job %s", row->id);
    }
    job_record_set(&record.request_id, row->request_id);
    rows->items = mem_grow(rows->items, &rows->capacity, rows->count + 1, sizeof *rows->items);
    rows->items[rows->count++] = record;
    return 0;
}

static void restore(struct shell *s, struct job_record *record)
{
    struct job_spec spec = {0};
    struct diags diags = {0};
    struct buf why = {0};
    struct master_event e = {.kind = MASTER_RESTORE};
    e.restore.record = record;
    if (!job_state_is_final(record->state)) {
        if (job_spec_parse(record->text, strlen(record->text), record->id, NULL, 0, &spec,
                           &diags) == 0) {
            e.restore.spec = &spec;
        } else {
            diags_format(&diags, &why);
            e.restore.spec_error = buf_str(&why);
        }
    }
    shell_event(s, &e);
    job_spec_release(&spec);
    diags_release(&diags);
    buf_release(&why);
}

int shell_restore(struct shell *s, struct err *err)
{
    struct rows rows = {0};
    size_t limit = (size_t)(s->settings->jobs_max + s->settings->finished_max);
    int rc = s->store->ops->load(s->store, limit, collect, &rows, err);
    for (size_t i = 0; i < rows.count; i++) {
        if (rc == 0) {
            restore(s, &rows.items[i]);
        }
        job_record_release(&rows.items[i]);
    }
    free(rows.items);
    if (rc == 0) {
        log_info("restored", "jobs=%zu", rows.count);
    }
    return rc;
}
