/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Logs: what is kept of the log lines about a job. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/job_logs.h"
#include "master/shell/shell.h"
#include "os/chrono.h"

#define BEATS 2             /* after its end a job's nodes have told all that they have to tell */
#define SETTLE_MS_MAX 10000 /* however long that takes */

struct answer {
    Gradus__V1__LogsResponse message;
    const struct job_log_line **found;
    char **gone;
    size_t count, gone_count, gone_capacity;
};

static bool has_name(const struct job_names *names, const char *node)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->items[i], node) == 0) {
            return true;
        }
    }
    return false;
}

/* Is @node one that has, or had, to do with the job? @record, @log: NULL if there is none. */
static int check_node(struct shell *s, const struct job_record *record, const struct job_log *log,
                      const Gradus__V1__LogsRequest *q, struct err *err)
{
    struct master_node_info info;
    if (q->node[0] == '\0' || strcmp(q->node, JOB_LOG_OWN) == 0 ||
        (record != NULL &&
         (has_name(&record->workers, q->node) || has_name(&record->ps, q->node)))) {
        return 0;
    }
    const struct job_log_line *line = log == NULL ? NULL : log->oldest;
    for (; line != NULL; line = line->next) {
        if (strcmp(line->node, q->node) == 0) {
            return 0;
        }
    }
    return shell_find_node(s, q->node, &info)
               ? err_set(err, ERR_STATE, "node %.128s is not one of job %.128s", q->node, q->job)
               : err_set(err, ERR_NOT_FOUND, "no node %.128s; no line of it is kept for job %.128s",
                         q->node, q->job);
}

static int check_known(struct shell *s, const char *job, struct err *err)
{
    struct buf row = {0};
    const int rc = s->store->ops->get(s->store, job, &row, err);
    buf_release(&row);
    return rc == ERR_NOT_FOUND ? err_set(err, rc, "no job %.128s", job) : rc;
}

static int by_time(const void *a, const void *b)
{
    const struct job_log_line *x = *(const struct job_log_line *const *)a;
    const struct job_log_line *y = *(const struct job_log_line *const *)b;
    if (x->time_ms != y->time_ms) {
        return x->time_ms < y->time_ms ? -1 : 1;
    }
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Notes that @node has died, if it has, once. */
static void look_after(struct shell *s, struct answer *a, char *node)
{
    struct master_node_info info;
    for (size_t i = 0; i < a->gone_count; i++) {
        if (strcmp(a->gone[i], node) == 0) {
            return;
        }
    }
    if (strcmp(node, JOB_LOG_OWN) != 0 && shell_find_node(s, node, &info) && !info.alive &&
        !info.gone) {
        a->gone = mem_grow(a->gone, &a->gone_capacity, a->gone_count + 1, sizeof *a->gone);
        a->gone[a->gone_count++] = node;
    }
}

static void find_lines(struct shell *s, const struct job_log *log, const Gradus__V1__LogsRequest *q,
                       struct answer *a)
{
    const char *seen = ""; /* of one node there are many lines behind each other */
    a->found = mem_new(log->count + 1, sizeof(struct job_log_line *));
    a->message.next = log->newest != NULL ? log->newest->number : q->after;
    a->message.forgotten = log->forgotten > q->after;
    for (const struct job_log_line *line = log->oldest; line != NULL; line = line->next) {
        if (q->node[0] != '\0' && strcmp(q->node, line->node) != 0) {
            continue;
        }
        if (strcmp(seen, line->node) != 0) {
            look_after(s, a, line->node);
            seen = line->node;
        }
        if (line->number > q->after) {
            a->found[a->count++] = line;
        }
    }
    qsort(a->found, a->count, sizeof *a->found, by_time);
}

static void reply(struct request *r, struct answer *a)
{
    static char levels[][6] = {"DEBUG", "INFO", "WARN", "ERROR"};
    Gradus__V1__JobLine *lines = mem_new(a->count + 1, sizeof *lines);
    a->message.lines = mem_new(a->count + 1, sizeof *a->message.lines);
    a->message.n_lines = a->count;
    a->message.gone = a->gone;
    a->message.n_gone = a->gone_count;
    for (size_t i = 0; i < a->count; i++) {
        const struct job_log_line *from = a->found[i];
        Gradus__V1__JobLine *to = a->message.lines[i] = &lines[i];
        gradus__v1__job_line__init(to);
        to->time_ms = from->time_ms;
        to->node = from->node;
        to->level = levels[from->level];
        to->event = from->event;
        to->text = from->text;
        to->lost = from->lost;
    }
    request_reply(r, &a->message.base);
    free(a->message.lines);
    free(lines);
}

/* Nothing will come of @record any more, which has ended; NULL: long ago. */
static bool is_complete(const struct shell *s, const struct job_record *record)
{
    const struct master_config beats = {
        .heartbeat_timeout_ms = (uint64_t)s->settings->heartbeat_timeout_ms,
        .heartbeat_interval_ms = (uint64_t)s->settings->heartbeat_interval_ms,
    };
    const uint64_t told_ms = BEATS * master_beat_ms(&beats);
    const int64_t settle_ms = (int64_t)(told_ms < SETTLE_MS_MAX ? told_ms : SETTLE_MS_MAX);
    return record == NULL || (job_state_is_final(record->state) &&
                              chrono_wall_ms() - record->finished_ms > settle_ms);
}

void run_logs(struct request *r)
{
    const Gradus__V1__LogsRequest *q = (const Gradus__V1__LogsRequest *)r->msg->body;
    struct shell *s = r->shell;
    const struct job_record *record = master_job(s->master, q->job, chrono_now_ms());
    const struct job_log *log = job_logs_find(s, q->job);
    struct answer a = {.message = GRADUS__V1__LOGS_RESPONSE__INIT};
    struct err err = {0};
    int rc = record != NULL ? 0 : check_known(s, q->job, &err);
    rc = rc < 0 ? rc : check_node(s, record, log, q, &err);
    if (rc < 0) {
        request_fail(r, &err);
        return;
    }
    a.message.next = q->after;
    a.message.complete = is_complete(s, record);
    if (log != NULL) {
        find_lines(s, log, q, &a);
    }
    reply(r, &a);
    free(a.found);
    free(a.gone);
}
