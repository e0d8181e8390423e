/* SPDX-License-Identifier: Apache-2.0 */
#include "master/shell/job_logs.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "os/chrono.h"
#include "os/log.h"
#include "os/log_secret.h"
#include "os/log_tail.h"

#define NUMBERS_OF_MS 65536 /* lines in a millisecond: more no master has */

static void drop_line(struct shell *s, struct job_log *log)
{
    struct job_log_line *line = log->oldest;
    log->oldest = line->next;
    *(log->oldest == NULL ? &log->newest : &log->oldest->prev) = NULL;
    log->count--;
    log->bytes -= line->bytes;
    s->logs.bytes -= line->bytes;
    log->forgotten = line->number;
    free(line->node);
    free(line->event);
    free(line->text);
    free(line);
}

static void drop_log(struct shell *s, struct job_log *log)
{
    while (log->oldest != NULL) {
        drop_line(s, log);
    }
    s->logs.bytes -= sizeof *log;
    name_index_remove(&s->logs.index, log->job);
    free(log->job);
    free(log);
}

const struct job_log *job_logs_find(const struct shell *s, const char *job)
{
    return name_index_find(&s->logs.index, job);
}

void job_logs_forget(struct shell *s, const char *job)
{
    struct job_log *log = name_index_find(&s->logs.index, job);
    if (log != NULL) {
        drop_log(s, log);
    }
}

static uint64_t newest_of(const struct job_log *log)
{
    return log->newest != NULL ? log->newest->number : 0;
}

/* Makes room for all that there is, @kept in any case. */
static void make_room(struct shell *s, const struct job_log *kept)
{
    while (s->logs.bytes > JOB_LOGS_BYTES && s->logs.index.count > 1) {
        struct job_log *oldest = NULL;
        for (size_t i = 0; i < s->logs.index.capacity; i++) {
            const struct name_slot *slot = &s->logs.index.slots[i];
            struct job_log *log = slot->name != NULL ? slot->object : NULL;
            if (log != NULL && log != kept &&
                (oldest == NULL || newest_of(log) < newest_of(oldest))) {
                oldest = log;
            }
        }
        drop_log(s, oldest);
    }
}

static struct job_log *log_of(struct shell *s, const char *job)
{
    struct job_log *log = name_index_find(&s->logs.index, job);
    if (log == NULL) {
        log = mem_new(1, sizeof *log);
        log->job = mem_strdup(job);
        s->logs.bytes += sizeof *log;
        name_index_put(&s->logs.index, log->job, log);
    }
    return log;
}

/* What a node sends is not trusted to be short, or fit to be shown. */
static char *shown(const char *text, size_t bytes)
{
    char plain[LOG_TAIL_TEXT_BYTES * 4], out[LOG_TAIL_TEXT_BYTES];
    text_utf8(text, plain, sizeof plain);
    text_plain(plain, strlen(plain));
    return mem_strdup(text_shown(plain, out, bytes));
}

static void add(struct shell *s, const char *job, const struct job_log_line *from)
{
    struct job_log *log = log_of(s, job);
    if (s->logs.number == 0) {
        s->logs.number = (uint64_t)chrono_wall_ms() * NUMBERS_OF_MS;
    }
    struct job_log_line *line = mem_new(1, sizeof *line);
    *line = *from;
    line->number = ++s->logs.number;
    line->node = shown(from->node, LOG_TAIL_JOB_BYTES);
    line->event = shown(from->event, LOG_TAIL_EVENT_BYTES);
    line->text =
        shown(log_has_secret(from->text) ? LOG_SECRET_SHOWN : from->text, LOG_TAIL_TEXT_BYTES);
    line->bytes = sizeof *line + strlen(line->node) + strlen(line->event) + strlen(line->text) + 3;
    line->prev = log->newest;
    line->next = NULL;
    *(log->newest == NULL ? &log->oldest : &log->newest->next) = line;
    log->newest = line;
    log->count++;
    log->bytes += line->bytes;
    s->logs.bytes += line->bytes;
    while (log->count > JOB_LOG_LINES || log->bytes > JOB_LOG_BYTES) {
        drop_line(s, log);
    }
    make_room(s, log);
}

void job_logs_add_own(struct shell *s, const struct master_log *line)
{
    char job[LOG_TAIL_JOB_BYTES], own[] = JOB_LOG_OWN;
    if (!log_job_of(line->text, job) || master_job(s->master, job, chrono_now_ms()) == NULL) {
        return;
    }
    add(s, job,
        &(struct job_log_line){.time_ms = chrono_wall_ms(),
                               .level = line->level,
                               .node = own,
                               .event = (char *)(uintptr_t)line->event,
                               .text = (char *)(uintptr_t)line->text});
}

static int level_of(const char *name)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};
    for (int i = LOG_LEVEL_DEBUG; i <= LOG_LEVEL_ERROR; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return LOG_LEVEL_INFO;
}

/* The answer to the heartbeat that brought it was lost, and it comes again. */
static bool is_there(const struct shell *s, const struct job_log_line *line, const char *job)
{
    const struct job_log *log = job_logs_find(s, job);
    const struct job_log_line *other = log == NULL ? NULL : log->newest;
    for (; other != NULL; other = other->prev) {
        if (other->incarnation == line->incarnation && strcmp(other->node, line->node) == 0) {
            return other->told >= line->told;
        }
    }
    return false;
}

void job_logs_heard(struct shell *s, const Gradus__V1__NodeRef *node,
                    Gradus__V1__NodeLine *const *lines, size_t count)
{
    for (size_t i = 0; i < count && i < LOG_TAIL_LINES; i++) {
        const Gradus__V1__NodeLine *l = lines[i];
        const struct job_log_line line = {.incarnation = node->incarnation,
                                          .told = l->number,
                                          .time_ms = l->time_ms,
                                          .level = level_of(l->level),
                                          .node = node->id,
                                          .event = l->event,
                                          .text = l->text,
                                          .lost = l->lost};
        if (master_job(s->master, l->job, chrono_now_ms()) != NULL && !is_there(s, &line, l->job)) {
            add(s, l->job, &line);
        }
    }
}

void job_logs_release(struct shell *s)
{
    for (size_t i = 0; i < s->logs.index.capacity; i++) {
        while (s->logs.index.slots[i].name != NULL) { /* another one may move here */
            drop_log(s, s->logs.index.slots[i].object);
        }
    }
    name_index_release(&s->logs.index);
}
