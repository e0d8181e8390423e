/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#define FILE_BYTES_MAX (1U << 20)

struct scenario {
    struct sim_schedule s;
    struct buf head;     /* the file up to `expect` */
    struct buf training; /* lines of the job's section */
    const char *path;
    unsigned line;
    unsigned workers_min, workers_max, job_ps;
};

static int wrong(const struct scenario *c, const char *why)
{
    printf("%s:%u: %s\n", c->path, c->line, why);
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

/* at MS KIND [NODE [OTHER]] [for MS] [number N] [key=value …] */
static int read_fault(struct scenario *c, char *line)
{
    char *rest;
    char *word = strtok_r(line, " ", &rest);
    if (c->s.fault_count == SIM_FAULTS_MAX || word == NULL) {
        return wrong(c, "too many faults, or none");
    }
    struct sim_fault *f = &c->s.faults[c->s.fault_count++];
    f->at_us = strtoull(word, NULL, 10) * SIM_MS;
    f->until_us = f->at_us;
    f->kind = FAULT_KIND_COUNT;
    word = strtok_r(NULL, " ", &rest);
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

static int read_line(struct scenario *c, char *line)
{
    unsigned n;
    if (line[0] == '#' || line[0] == '\0') {
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
    } else if (strncmp(line, "training ", 9) == 0) {
        buf_printf(&c->training, "  %s\n", line + 9);
    } else if (strncmp(line, "at ", 3) == 0) {
        return read_fault(c, line + 3);
    } else {
        return wrong(c, "what is this?");
    }
    return 0;
}

static int read_scenario(struct scenario *c, char *text, const char **expected)
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
    c->workers_min = 1;
    c->workers_max = 1;
    c->job_ps = SIM_SHARDS_MAX;
    *expected = "";
    int rc = 0;
    char *next = text;
    while (rc == 0 && next != NULL && *next != '\0') {
        char *line = next;
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        c->line++;
        buf_printf(&c->head, "%s\n", line);
        if (strcmp(line, "expect") == 0) {
            *expected = next == NULL ? "" : next;
            break;
        }
        rc = read_line(c, line);
    }
    unsigned shards = c->job_ps > c->s.ps_count ? c->s.ps_count : c->job_ps;
    snprintf(
        c->s.jobs[0].text, sizeof c->s.jobs[0].text,
        "name: job\ndata:\n  train: {file: a.csv}\nmodel:\n  layers:\n    - dense: {units: 3}\n"
        "  loss: softmax_cross_entropy\n  metrics: [accuracy]\nupdate:\n  rule: momentum\n"
        "training:\n  batch_size: 3\n  split_batches: 4\n  evaluate_every: never\n%scluster:\n"
        "  workers: %u..%u\n  ps: %u\n  partitions: 3\n",
        buf_str(&c->training), c->workers_min, c->workers_max, shards);
    for (uint32_t i = 0; i < c->s.fault_count; i++) {
        uint64_t until = c->s.faults[i].until_us;
        c->s.quiet_us = until > c->s.quiet_us ? until : c->s.quiet_us;
    }
    c->s.quiet_us += 1 * SIM_S;
    return rc;
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

int scenario_run(struct world *w, const char *path, bool update)
{
    struct err err = {0};
    struct scenario c = {.path = path};
    struct buf text = {0}, came = {0};
    const char *expected;
    if (file_read(path, FILE_BYTES_MAX, &text, &err) != 0) {
        printf("%s\n", err.msg);
        return 2;
    }
    int rc = read_scenario(&c, text.data == NULL ? (char[1]){0} : text.data, &expected);
    if (rc == 0) {
        trace_line = add_line;
        trace_ctx = &came;
        (void)world_run(w, &c.s, true);
        if (update) {
            buf_add_str(&c.head, buf_str(&came));
            rc = file_write_atomic(path, c.head.data, c.head.len, &err) == 0 ? 0 : 2;
        } else if (strcmp(expected, buf_str(&came)) != 0) {
            show_difference(&c, expected, buf_str(&came));
            rc = 1;
        }
    }
    buf_release(&text);
    buf_release(&came);
    buf_release(&c.head);
    buf_release(&c.training);
    return rc;
}
