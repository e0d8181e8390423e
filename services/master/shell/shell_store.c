/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the store ↔ jobs of the core. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "master/shell/job_wire.h"
#include "master/shell/shell.h"
#include "os/log.h"

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
        .ended_ms = job_state_is_final(record->state) ? record->finished_ms : 0,
        .job = packed.data,
        .job_bytes = packed.len,
    };
    int rc = s->store->ops->put(s->store, &row, err);
    buf_release(&packed);
    return rc;
}

void shell_store_is(struct shell *s, const struct err *err)
{
    bool well = err == NULL;
    if (well == s->store_well) {
        return;
    }
    s->store_well = well;
    meter_set(s->meters.store_writable, well ? 1 : 0);
    if (well) {
        log_info("store_writable", "jobs are stored again");
        s->store_problem[0] = '\0';
    } else {
        char quoted[1200];
        (void)snprintf(s->store_problem, sizeof s->store_problem,
                       "the state of jobs cannot be stored: %s", err->msg);
        log_error("store_not_writable", "reason=%s", log_quote(err->msg, quoted, sizeof quoted));
    }
    shell_health(s);
}

void shell_health(struct shell *s)
{
    bool two = s->store_problem[0] != '\0' && s->root_problem[0] != '\0';
    char *both = mem_printf("%s%s%s", s->store_problem, two ? "; " : "", s->root_problem);
    service_set_unhealthy(s->sc, both[0] == '\0' ? NULL : both);
    free(both);
}

/* The rows are collected first: restoring a job may write its row. */
struct rows {
    struct job_record *items;
    size_t count, capacity;
    size_t set_aside;
};

static int unpack(const struct store_row *row, struct job_record *record, struct err *err)
{
    if (row->damage != NULL) {
        return err_set(err, ERR_CORRUPT, "%s", row->damage);
    }
    int rc = job_wire_unpack(row->job, row->job_bytes, record, err);
    if (rc == 0 && (strcmp(record->id, row->id) != 0 || (int)record->state != row->state)) {
        rc = err_set(err, ERR_CORRUPT, "its content is of job %.128s, state %d", record->id,
                     (int)record->state);
        job_record_release(record);
    }
    return rc;
}

/* A row that cannot be read stays where it is: a later version may know it, a person may mend it,
 * and its number and its request are not given to another job. */
static int collect(void *ctx, const struct store_row *row, struct err *err)
{
    (void)err;
    struct rows *rows = ctx;
    struct job_record record;
    struct err why = {0};
    if (unpack(row, &record, &why) < 0) {
        char id[192], quoted[1200];
        log_error("row_set_aside", "job=%s reason=%s", log_quote(row->id, id, sizeof id),
                  log_quote(why.msg, quoted, sizeof quoted));
        rows->set_aside++;
        return 0;
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
    e.restore.hold = s->settings->unfinished == MASTER_UNFINISHED_HOLD;
    owner_restore(s, record);
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
    shell_trim(s);
    int rc = s->store->ops->load(s->store, (size_t)s->settings->finished_max, collect, &rows, err);
    for (size_t i = 0; i < rows.count; i++) {
        if (rc == 0) {
            restore(s, &rows.items[i]);
        }
        job_record_release(&rows.items[i]);
    }
    free(rows.items);
    if (rc == 0) {
        meter_set(s->meters.rows_unreadable, (double)rows.set_aside);
        log_info("restored", "jobs=%zu set_aside=%zu", rows.count, rows.set_aside);
    }
    return rc;
}
