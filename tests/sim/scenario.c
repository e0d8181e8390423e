/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/file.h"
#include "sim/moment.h"

#define FILE_BYTES_MAX (1U << 20)
#define VARIABLES_MAX 4
#define VALUES_MAX 16
#define CHECKS_MAX 16
#define QUIET_US (1000 * SIM_S) /* with moments nobody knows when the last one comes */

struct variable { /* for NAME in VALUES */
    char name[16];
    char values[VALUES_MAX][24];
    size_t count, at;
};

struct scenario {
    struct sim_schedule s;
    struct moments m;
    struct variable variables[VARIABLES_MAX];
    size_t variable_count;
    char checks[CHECKS_MAX][MOMENT_TEXT_BYTES]; /* in the end */
    unsigned check_lines[CHECKS_MAX];
    size_t check_count;
    struct buf head;     /* the file up to `expect` */
    struct buf training; /* lines of the job's section */
    bool evaluates;      /* one of them says when */
    bool expects;        /* a trace */
    const char *path;
    unsigned line;
    unsigned workers_min, workers_max, job_ps;
};

static void say_where(const struct scenario *c, unsigned line)
{
    printf("%s:%u: ", c->path, line);
    for (size_t i = 0; i < c->variable_count; i++) {
        const struct variable *v = &c->variables[i];
        printf("%s=%s: ", v->name, v->values[v->at]);
    }
}

static int wrong(const struct scenario *c, const char *why)
{
    say_where(c, c->line);
    printf("%s\n", why);
    return 2;
}

/* "master", "ps1", "worker2" → the number of the node; UINT32_MAX: no such one. */
static uint32_t node_named(const struct scenario *c, const char *name)
{
    unsigned n;
    if (strcmp(name, "master") == 0) {
        return 0;
    }
    if (sscanf(name, "ps%u", &n) == 1 && n >= 1 && n <= c->s.ps_count) {
        return n;
    }
    if (sscanf(name, "worker%u", &n) == 1 && n >= 1 && n <= c->s.worker_count + c->s.spare_count) {
        return c->s.ps_count + n;
    }
    return UINT32_MAX;
}

/* KIND [NODE [OTHER]] [for MS] [number N] [now] [key=value …] */
static int read_fault(struct scenario *c, char *line, uint64_t at_us)
{
    char *rest;
    char *word = strtok_r(line, " ", &rest);
    if (c->s.fault_count == SIM_FAULTS_MAX) {
        return wrong(c, "too many faults");
    }
    struct sim_fault *f = &c->s.faults[c->s.fault_count++];
    f->at_us = at_us;
    f->until_us = f->at_us;
    f->kind = FAULT_KIND_COUNT;
    for (int i = 0; word != NULL && i < FAULT_KIND_COUNT; i++) {
        f->kind = strcmp(word, sim_fault_names[i]) == 0 ? (enum sim_fault_kind)i : f->kind;
    }
    if (f->kind == FAULT_KIND_COUNT) {
        return wrong(c, "no such fault");
    }
    unsigned nodes = 0, changes = 0;
    while ((word = strtok_r(NULL, " ", &rest)) != NULL) {
        if (strcmp(word, "for") == 0 && (word = strtok_r(NULL, " ", &rest)) != NULL) {
            f->until_us = f->at_us + strtoull(word, NULL, 10) * SIM_MS;
        } else if (word != NULL && strcmp(word, "number") == 0 &&
                   (word = strtok_r(NULL, " ", &rest)) != NULL) {
            f->number = (uint32_t)strtoul(word, NULL, 10);
        } else if (word != NULL && strcmp(word, "now") == 0) {
            f->other = 1; /* of a cancel */
        } else if (word != NULL && strchr(word, '=') != NULL && changes < SIM_CHANGE_SETS) {
            snprintf(f->change[changes++], SIM_SET_BYTES, "%s", word);
        } else if (word != NULL && node_named(c, word) != UINT32_MAX && nodes < 2) {
            *(nodes++ == 0 ? &f->node : &f->other) = node_named(c, word);
        } else {
            return wrong(c, "what is this?");
        }
    }
    return 0;
}

static int read_check(struct scenario *c, const char *text)
{
    if (c->check_count == CHECKS_MAX || strlen(text) >= MOMENT_TEXT_BYTES) {
        return wrong(c, "too many checks, or too long a one");
    }
    c->check_lines[c->check_count] = c->line;
    strcpy(c->checks[c->check_count++], text);
    return 0;
}

/* @rest: what happens, or is checked, at @x. */
static int read_moment(struct scenario *c, struct moment *x, char *rest)
{
    if (c->m.count == MOMENTS_MAX || strlen(rest) >= MOMENT_TEXT_BYTES) {
        return wrong(c, "too many moments, or too long a one");
    }
    x->line = c->line;
    x->fault = SIM_NONE;
    if (strncmp(rest, "check ", 6) == 0) {
        snprintf(x->check, sizeof x->check, "%s", rest + 6);
    } else {
        x->fault = c->s.fault_count;
        int rc = read_fault(c, rest, 0);
        if (rc != 0) {
            return rc;
        }
        c->s.faults[x->fault].off = true; /* until it has come */
    }
    c->m.items[c->m.count++] = *x;
    return 0;
}

/* at MS …, after MS …, when PLACE …, when "TEXT" … */
static int read_time(struct scenario *c, char *line)
{
    struct moment x = {.kind = MOMENT_AT};
    char *rest = strchr(line, ' ') + 1;
    if (strncmp(line, "when \"", 6) == 0) {
        char *end = strchr(++rest, '"');
        if (end == NULL || end[1] != ' ') {
            return wrong(c, "what is this?");
        }
        x.kind = MOMENT_SAID;
        snprintf(x.place, sizeof x.place, "%.*s", (int)(end - rest), rest);
        return read_moment(c, &x, end + 2);
    }
    char *next = strchr(rest, ' ');
    if (next == NULL) {
        return wrong(c, "what is this?");
    }
    *next++ = '\0';
    x.us = strtoull(rest, NULL, 10) * SIM_MS;
    if (line[0] == 'w') {
        x.kind = MOMENT_WHEN;
        snprintf(x.place, sizeof x.place, "%s", rest);
    } else if (strncmp(line, "after", 5) == 0) {
        x.kind = MOMENT_AFTER;
    } else if (strncmp(next, "check ", 6) != 0) {
        return read_fault(c, next, x.us);
    }
    return read_moment(c, &x, next);
}

static int read_line(struct scenario *c, char *line)
{
    unsigned n;
    if (line[0] == '#' || line[0] == '\0' || strncmp(line, "for ", 4) == 0) {
        return 0;
    }
    if (sscanf(line, "ps %u", &n) == 1 && n <= SIM_SHARDS_MAX) {
        c->s.ps_count = n;
        c->job_ps = c->job_ps > n ? n : c->job_ps;
    } else if (sscanf(line, "shards %u", &n) == 1) {
        c->job_ps = n;
    } else if (sscanf(line, "workers %u", &n) == 1 && n <= 4) {
        c->s.worker_count = n;
        c->workers_min = n;
        c->workers_max = n;
    } else if (sscanf(line, "spare %u", &n) == 1 && n <= 2) {
        c->s.spare_count = n;
    } else if (sscanf(line, "at_least %u", &n) == 1) {
        c->workers_min = n;
    } else if (sscanf(line, "at_most %u", &n) == 1) {
        c->workers_max = n;
    } else if (sscanf(line, "records %u", &n) == 1) {
        c->s.jobs[0].records = n;
    } else if (sscanf(line, "test_records %u", &n) == 1) {
        c->s.jobs[0].test_records = n;
    } else if (sscanf(line, "readers %u", &n) == 1) {
        c->s.knobs.readers_max = n;
        c->s.knobs.reader_part = 1000000;
        c->s.knobs.reader_us = 20000;
    } else if (sscanf(line, "memory %u", &n) == 1) {
        c->s.knobs.memory_tight = true;
        c->s.knobs.memory_more = n;
        c->s.knobs.memory_us = 4000;
    } else if (strcmp(line, "moves") == 0) { /* every shard, in every generation */
        c->s.knobs.moved_part = 1000000;
    } else if (strcmp(line, "given") == 0) { /* workers bring the initial values */
        c->s.jobs[0].given = true;
    } else if (strcmp(line, "standby") == 0) { /* shards have backups */
        c->s.jobs[0].standby = true;
    } else if (strncmp(line, "training ", 9) == 0) {
        buf_printf(&c->training, "  %s\n", line + 9);
        c->evaluates = c->evaluates || strncmp(line + 9, "evaluate_every:", 15) == 0;
    } else if (sscanf(line, "compute %u", &n) == 1) {
        c->s.knobs.compute_us = n * SIM_MS;
    } else if (sscanf(line, "ps_timeout %u", &n) == 1) {
        c->s.knobs.ps_timeout_ms = n;
    } else if (sscanf(line, "room_workers %u", &n) == 1) {
        c->s.knobs.room_workers = n;
    } else if (strncmp(line, "check ", 6) == 0) {
        return read_check(c, line + 6);
    } else if (strncmp(line, "at ", 3) == 0 || strncmp(line, "after ", 6) == 0 ||
               strncmp(line, "when ", 5) == 0) {
        return read_time(c, line);
    } else {
        return wrong(c, "what is this?");
    }
    return 0;
}

static void begin(struct scenario *c)
{
    c->s = (struct sim_schedule){.seed = 1,
                                 .ps_count = 1,
                                 .worker_count = 1,
                                 .job_count = 1,
                                 .live_us = 300 * SIM_S,
                                 .knobs = {.delay_us = 1000,
                                           .compute_us = 5000,
                                           .load_us = 10000,
                                           .file_us = 20000,
                                           .reader_us = 1,
                                           .readers_max = 8,
                                           .even = true}};
    c->s.jobs[0].submit_us = 10 * SIM_MS;
    c->s.jobs[0].records = 24;
    c->m = (struct moments){.schedule = &c->s};
    c->workers_min = 1;
    c->workers_max = 1;
    c->job_ps = SIM_SHARDS_MAX;
    c->line = 0;
    c->check_count = 0;
    c->evaluates = c->expects = false;
    buf_reset(&c->head);
    buf_reset(&c->training);
}

/* @line with the values of the variables in it. */
static void substitute(const struct scenario *c, const char *line, struct buf *out)
{
    buf_reset(out);
    while (*line != '\0') {
        size_t skip = 0;
        for (size_t i = 0; i < c->variable_count && *line == '$' && skip == 0; i++) {
            const struct variable *v = &c->variables[i];
            if (strncmp(line + 1, v->name, strlen(v->name)) == 0) {
                buf_add_str(out, v->values[v->at]);
                skip = 1 + strlen(v->name);
            }
        }
        if (skip == 0) {
            buf_add_char(out, *line);
            skip = 1;
        }
        line += skip;
    }
}

static void write_job(struct scenario *c)
{
    unsigned shards = c->job_ps > c->s.ps_count ? c->s.ps_count : c->job_ps;
    snprintf(c->s.jobs[0].text, sizeof c->s.jobs[0].text,
             "name: job\ndata:\n  train: {file: a.csv}\nmodel:\n%s"
             "  metrics: [accuracy]\nupdate:\n  rule: momentum\n  learning_rate: 0.125\n"
             "training:\n  batch_size: 3\n  split_batches: 4\n%s%scluster:\n"
             "  workers: %u..%u\n  ps: %u\n  partitions: 3\n%s",
             given_models[c->s.jobs[0].given], c->evaluates ? "" : "  evaluate_every: never\n",
             buf_str(&c->training), c->workers_min, c->workers_max, shards,
             c->s.jobs[0].standby ? "  standby: follower\n" : "");
}

static int read_scenario(struct scenario *c, const char *text, const char **expected)
{
    begin(c);
    *expected = "";
    int rc = 0;
    struct buf line = {0}, with = {0};
    while (rc == 0 && *text != '\0' && !c->expects) {
        const size_t length = strcspn(text, "\n");
        buf_reset(&line);
        buf_printf(&line, "%.*s", (int)length, text);
        text += length + (text[length] != '\0');
        c->line++;
        buf_printf(&c->head, "%s\n", buf_str(&line));
        c->expects = strcmp(buf_str(&line), "expect") == 0;
        if (!c->expects) {
            substitute(c, buf_str(&line), &with);
            rc = with.data == NULL ? 0 : read_line(c, with.data);
        }
    }
    *expected = text;
    buf_release(&line);
    buf_release(&with);
    write_job(c);
    for (uint32_t i = 0; i < c->s.fault_count; i++) {
        uint64_t until = c->s.faults[i].until_us;
        c->s.quiet_us = until > c->s.quiet_us ? until : c->s.quiet_us;
    }
    c->s.quiet_us += c->m.count > 0 ? QUIET_US : 1 * SIM_S;
    return rc;
}

/* The lines `for NAME in VALUES`. */
static int read_variables(struct scenario *c, const char *text)
{
    while (*text != '\0' && strncmp(text, "expect\n", 7) != 0) {
        const size_t length = strcspn(text, "\n");
        c->line++;
        if (strncmp(text, "for ", 4) == 0) {
            char line[256], *rest;
            snprintf(line, sizeof line, "%.*s", (int)length, text);
            (void)strtok_r(line, " ", &rest);
            const char *name = strtok_r(NULL, " ", &rest);
            const char *in = strtok_r(NULL, " ", &rest);
            if (name == NULL || in == NULL || strcmp(in, "in") != 0 || length >= sizeof line ||
                c->variable_count == VARIABLES_MAX) {
                return wrong(c, "what is this?");
            }
            struct variable *v = &c->variables[c->variable_count++];
            snprintf(v->name, sizeof v->name, "%s", name);
            for (char *word; (word = strtok_r(NULL, " ", &rest)) != NULL;) {
                if (v->count == VALUES_MAX) {
                    return wrong(c, "too many values");
                }
                snprintf(v->values[v->count++], sizeof v->values[0], "%s", word);
            }
        }
        text += length + (text[length] != '\0');
    }
    return 0;
}

/* The next values of the variables; false: all were had. */
static bool advance(struct scenario *c)
{
    for (size_t i = c->variable_count; i-- > 0;) {
        if (++c->variables[i].at < c->variables[i].count) {
            return true;
        }
        c->variables[i].at = 0;
    }
    return false;
}

static void add_line(void *ctx, const char *line)
{
    if (strstr(line, "Heartbeat") == NULL && strstr(line, "Join") == NULL) {
        buf_printf(ctx, "%s\n", line);
    }
}

static void show_difference(const struct scenario *c, const char *expected, const char *came)
{
    unsigned line = c->line + 1;
    while (*expected != '\0' || *came != '\0') {
        size_t a = strcspn(expected, "\n");
        size_t b = strcspn(came, "\n");
        if (a != b || strncmp(expected, came, a) != 0) {
            printf("%s:%u: expected: %.*s\n%s:%u: came:     %.*s\n", c->path, line, (int)a,
                   expected, c->path, line, (int)b, came);
            return;
        }
        expected += a + (expected[a] != '\0');
        came += b + (came[b] != '\0');
        line++;
    }
}

/* Without an expected trace: everything held, all moments came, and all checks hold. */
static int run_checks(struct world *w, struct scenario *c)
{
    moments_begin(&c->m, w);
    const bool held = world_run(w, &c->s, true);
    moments_end(&c->m, w);
    for (size_t i = 0; i < c->check_count && held; i++) {
        moments_check(&c->m, w, c->checks[i], c->check_lines[i]);
    }
    if (c->m.line != 0) {
        say_where(c, c->m.line);
        printf("%s\n", c->m.why);
    }
    if (!held && !c->expects) {
        say_where(c, c->line);
        printf("violates %s: %s\n", sim_invariant_names[w->broken], w->why);
        return 1;
    }
    return c->m.line != 0;
}

/* With the present values of the variables. */
static int run_one(struct world *w, struct scenario *c, const char *text, bool update)
{
    struct buf came = {0};
    struct err err = {0};
    const char *expected;
    int rc = read_scenario(c, text, &expected);
    if (rc == 0 && c->expects && c->variable_count > 0) {
        rc = wrong(c, "many runs have no one trace");
    }
    if (rc == 0) {
        c->m.trace = &came;
        trace_line = add_line;
        trace_ctx = &came;
        rc = run_checks(w, c);
        if (c->expects && update) {
            buf_add_str(&c->head, buf_str(&came));
            rc = file_write_atomic(c->path, c->head.data, c->head.len, &err) == 0 ? 0 : 2;
        } else if (c->expects && strcmp(expected, buf_str(&came)) != 0) {
            show_difference(c, expected, buf_str(&came));
            rc = 1;
        }
        if (rc != 0 && getenv("SIM_TRACE") != NULL) {
            printf("%s", buf_str(&came));
        }
    }
    buf_release(&came);
    return rc;
}

int scenario_run(struct world *w, const char *path, bool update)
{
    struct err err = {0};
    struct scenario c = {.path = path};
    struct buf text = {0};
    if (file_read(path, FILE_BYTES_MAX, &text, &err) != 0) {
        printf("%s\n", err.msg);
        return 2;
    }
    int rc = read_variables(&c, buf_str(&text));
    if (rc == 0) {
        do {
            const int one = run_one(w, &c, buf_str(&text), update);
            rc = one > rc ? one : rc;
        } while (advance(&c));
    }
    buf_release(&text);
    buf_release(&c.head);
    buf_release(&c.training);
    return rc;
}
