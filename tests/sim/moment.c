/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of a scenario: when they come, and what can be checked there. */
#include "sim/moment.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is checked ---- */

static const struct job_record *record_of(struct world *w)
{
    const char *id = w->jobs[0].id;
    const struct job_record *r =
        w->master == NULL || !w->jobs[0].known ? NULL : master_job(w->master, id, node_ms(w, 0));
    return r != NULL ? r : disk_row(w, 0);
}

__attribute__((format(printf, 3, 4))) static void fails(struct moments *m, unsigned line,
                                                        const char *fmt, ...)
{
    if (m->line != 0) {
        return; /* the first one counts */
    }
    va_list args;
    va_start(args, fmt);
    vsnprintf(m->why, sizeof m->why, fmt, args);
    va_end(args);
    m->line = line;
}

static bool number_named(const struct world *w, const struct job_record *r, const char *key,
                         uint64_t *out)
{
    const char *dash = strrchr(r->checkpoint, '-'); /* "job-1/step-000000500" */
    const uint64_t saved = dash == NULL ? 0 : strtoull(dash + 1, NULL, 10);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"step", r->step},
        {"examples", r->examples},
        {"epoch", (uint64_t)r->epoch},
        {"evaluations", r->evaluation_count},
        {"recoveries", r->recoveries},
        {"adoptions", r->adoptions},
        {"generation", r->generation},
        {"workers", r->workers.count},
        {"servers", r->ps.count},
        {"replicas", r->consistency.replicas},
        {"left", r->steps_total - r->step},
        {"saved", saved},
        {"unsaved", r->step - saved},
        {"ms", w->now_us / SIM_MS},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(numbers[i].key, key) == 0) {
            *out = numbers[i].value;
            return true;
        }
    }
    return false;
}

static bool compares(uint64_t a, const char *op, uint64_t b)
{
    if (strcmp(op, "<") == 0) {
        return a < b;
    }
    if (strcmp(op, "<=") == 0) {
        return a <= b;
    }
    if (strcmp(op, ">") == 0) {
        return a > b;
    }
    if (strcmp(op, ">=") == 0) {
        return a >= b;
    }
    return strcmp(op, "!=") == 0 ? a != b : a == b;
}

/* "is WORD", or "has TEXT"; without a text it must be empty. */
static const char *text_named(const struct world *w, const struct job_record *r, const char *key,
                              bool *whole)
{
    static const char *const MODES[] = {"sync", "async", "bounded"};
    const bool there = w->master != NULL;
    *whole = true;
    if (strcmp(key, "state") == 0) {
        return job_state_name(r->state);
    }
    if (strcmp(key, "mode") == 0) {
        return MODES[r->consistency.mode];
    }
    if (strcmp(key, "phase") == 0) {
        return there ? master_job_phase(w->master, r->id) : "";
    }
    if (strcmp(key, "checkpoint") == 0) {
        return r->checkpoint;
    }
    *whole = false;
    return strcmp(key, "reason") == 0     ? r->reason
           : strcmp(key, "activity") == 0 ? r->activity
                                          : NULL;
}

static uint64_t lines_with(const struct moments *m, const char *text)
{
    uint64_t count = 0;
    const char *at = buf_str(m->trace);
    while ((at = strstr(at, text)) != NULL) {
        count++;
        at += strcspn(at, "\n");
    }
    return count;
}

static bool check_trace(struct moments *m, const char *key, const char *value, unsigned line)
{
    char *text;
    const bool none = strcmp(key, "no") == 0;
    if (strcmp(key, "count") == 0) {
        const uint64_t wanted = strtoull(value, &text, 10);
        const uint64_t came = lines_with(m, text + strspn(text, " "));
        if (came != wanted) {
            fails(m, line, "%llu lines have \"%s\"", (unsigned long long)came,
                  text + strspn(text, " "));
        }
        return true;
    }
    if (!none && strcmp(key, "trace") != 0) {
        return false;
    }
    if ((lines_with(m, value) == 0) != none) {
        fails(m, line, "%s line has \"%s\"", none ? "a" : "no", value);
    }
    return true;
}

void moments_check(struct moments *m, struct world *w, const char *check, unsigned line)
{
    char key[24], op[4] = "=";
    const size_t length = strcspn(check, " ");
    const char *value = check + length + (check[length] != '\0');
    snprintf(key, sizeof key, "%.*s", (int)length, check);
    if (check_trace(m, key, value, line)) {
        return;
    }
    const struct job_record *r = record_of(w);
    if (r == NULL) {
        fails(m, line, "there is no job yet");
        return;
    }
    uint64_t number;
    if (number_named(w, r, key, &number)) {
        const size_t operator= strspn(value, "<>=!");
        if (operator> 0 && operator<sizeof op) {
            snprintf(op, sizeof op, "%.*s", (int)operator, value);
        }
        if (!compares(number, op, strtoull(value + operator, NULL, 10))) {
            fails(m, line, "at %llu ms %s is %llu; the job is %s (%s)",
                  (unsigned long long)(w->now_us / SIM_MS), key, (unsigned long long)number,
                  job_state_name(r->state), r->reason);
        }
        return;
    }
    bool whole;
    const char *text = text_named(w, r, key, &whole);
    if (text == NULL) {
        fails(m, line, "there is no '%s' to check", key);
    } else if (whole || value[0] == '\0' ? strcmp(text, value) != 0 : strstr(text, value) == NULL) {
        fails(m, line, "at %llu ms %s is \"%s\"; the job is %s (%s)",
              (unsigned long long)(w->now_us / SIM_MS), key, text, job_state_name(r->state),
              r->reason);
    }
}

/* ---- when they come ---- */

static bool has_come(const struct moments *m, const struct moment *x, const struct world *w)
{
    const char *id = w->jobs[0].id;
    switch (x->kind) {
    case MOMENT_AT:
        return w->now_us >= x->us;
    case MOMENT_AFTER:
        return w->now_us >= m->last_us + x->us;
    case MOMENT_WHEN:
        return w->jobs[0].known && w->master != NULL &&
               (strcmp(master_job_phase(w->master, id), x->place) == 0 ||
                strcmp(master_job_work(w->master, id), x->place) == 0 ||
                strcmp(job_state_name(w->jobs[0].state), x->place) == 0);
    case MOMENT_SAID:
        return strstr(buf_str(m->trace), x->place) != NULL;
    }
    return false;
}

/* Clients ask whatever they want after the job's end, too, when nothing else goes wrong. */
static void happens(struct world *w, uint32_t fault)
{
    const struct sim_fault *f = &w->schedule->faults[fault];
    if (f->kind == FAULT_CANCEL || f->kind == FAULT_CHECKPOINT || f->kind == FAULT_SET) {
        master_client(w, f);
    } else {
        fault_begin(w, fault);
    }
}

static void look(struct world *w)
{
    struct moments *m = w->look_ctx;
    w->look_us = UINT64_MAX;
    w->look_waits = false;
    while (m->next < m->count) {
        const struct moment *x = &m->items[m->next];
        if (!has_come(m, x, w)) {
            w->look_us = x->kind == MOMENT_AT      ? x->us
                         : x->kind == MOMENT_AFTER ? m->last_us + x->us
                                                   : UINT64_MAX;
            w->look_waits = w->look_us != UINT64_MAX;
            return;
        }
        m->next++;
        m->last_us = w->now_us;
        if (x->fault == SIM_NONE) {
            moments_check(m, w, x->check, x->line);
        } else {
            struct sim_fault *f = &m->schedule->faults[x->fault];
            f->until_us += w->now_us - f->at_us;
            f->at_us = w->now_us;
            happens(w, x->fault);
        }
    }
}

void moments_begin(struct moments *m, struct world *w)
{
    w->look = look;
    w->look_ctx = m;
    w->look_us = UINT64_MAX;
}

void moments_end(struct moments *m, struct world *w)
{
    w->look = NULL;
    if (m->next < m->count) {
        const struct moment *x = &m->items[m->next];
        fails(m, x->line, "this moment did not come; the job is %s (%s)",
              job_state_name(w->jobs[0].state), w->jobs[0].reason);
    }
}
