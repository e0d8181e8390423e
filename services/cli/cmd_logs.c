/* SPDX-License-Identifier: Apache-2.0 */
/* gradus logs: the log lines about a job, of its master and its nodes, once, or until it has ended.
 * The master has them (Jobs.Logs); nothing is read from nodes. */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/find_job.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "os/chrono.h"
#include "os/file.h"

#define POLL_MS 500
#define LOST_MS 15000 /* without an answer for so long, -f gives up */
#define TAIL_MAX 1000000
#define LOG_BYTES_MAX (64U << 20)
#define STAMP_BYTES 15 /* 20260131-235959 */

struct options {
    struct cli_common common;
    bool follow;
    int64_t tail;
};

static const struct field fields[] = {
    {.path = "follow",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, follow),
     .def = "false",
     .help = "Go on until the job has ended, also -f"},
    {.path = "tail",
     .type = FIELD_INT,
     .offset = offsetof(struct options, tail),
     .def = "0",
     .min = 0,
     .max = TAIL_MAX,
     .help = "Begin with the last so many lines; 0: with all that are kept"},
};

struct view {
    const char *job;
    bool json;
    char **gone; /* nodes that were told of */
    size_t gone_count, gone_capacity;
};

/* @text without the name of the job, with which most lines begin. */
static const char *without_job(const char *text, const char *job)
{
    const size_t n = strlen(job);
    if (strncmp(text, "job=", 4) != 0 || strncmp(text + 4, job, n) != 0) {
        return text;
    }
    const char *rest = text + 4 + n;
    return *rest == ' ' ? rest + 1 : *rest == '\0' ? rest : text;
}

static void line_text(const Gradus__V1__JobLine *line, const char *job, struct buf *out)
{
    char when[32] = "";
    const time_t seconds = (time_t)(line->time_ms / 1000);
    struct tm utc;
    if (line->time_ms >= 0 && gmtime_r(&seconds, &utc) != NULL) {
        (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
    }
    if (line->lost > 0) {
        buf_printf(out, "(%" PRIu64 " lines of %s are lost: it had no room for them)\n", line->lost,
                   line->node);
    }
    buf_printf(out, "%s.%03dZ  %s  %-5s  %s", when, (int)(line->time_ms % 1000), line->node,
               line->level, line->event);
    const char *text = without_job(line->text, job);
    if (text[0] != '\0') {
        buf_printf(out, "  %s", text);
    }
    buf_add_char(out, '\n');
}

static void show(const struct view *v, const Gradus__V1__LogsResponse *r, size_t from)
{
    struct buf out = {0};
    for (size_t i = from; i < r->n_lines; i++) {
        if (v->json) {
            output_message_json(&r->lines[i]->base, &out);
        } else {
            line_text(r->lines[i], v->job, &out);
        }
    }
    if (v->json) {
        (void)fputs(buf_str(&out), stdout);
    } else {
        terminal_print(&out);
    }
    (void)fflush(stdout);
    buf_release(&out);
}

/* Tells once of each node that died. */
static void note_gone(struct view *v, const Gradus__V1__LogsResponse *r)
{
    for (size_t i = 0; i < r->n_gone; i++) {
        bool told = false;
        for (size_t k = 0; k < v->gone_count; k++) {
            told = told || strcmp(v->gone[k], r->gone[i]) == 0;
        }
        if (!told) {
            v->gone = mem_grow(v->gone, &v->gone_capacity, v->gone_count + 1, sizeof *v->gone);
            v->gone[v->gone_count++] = mem_strdup(r->gone[i]);
            cli_note("note: %s has died; lines that it wrote after its last heartbeat are in its "
                     "own log alone",
                     r->gone[i]);
        }
    }
}

static void first(struct view *v, const Gradus__V1__LogsResponse *r, const struct options *o)
{
    const size_t tail = o->tail == 0 ? r->n_lines : (size_t)o->tail;
    if (r->n_lines == 0 && !(o->follow && !r->complete)) {
        cli_note("note: no lines are kept; the master has them in memory, and one that was started "
                 "again has none of before");
    } else if (r->forgotten && tail >= r->n_lines) {
        cli_note("note: older lines are not kept any more");
    }
    show(v, r, r->n_lines > tail ? r->n_lines - tail : 0);
    note_gone(v, r);
}

static void next(struct view *v, const Gradus__V1__LogsResponse *r)
{
    if (r->forgotten) {
        cli_note("note: there were more lines than are kept; some are missing here");
    }
    show(v, r, 0);
    note_gone(v, r);
}

static bool is_away(int rc)
{
    return rc == ERR_UNAVAILABLE || rc == ERR_TIMEOUT;
}

/* Shows the lines behind those that were shown, until the job has ended. */
static int follow_lines(struct client *client, Gradus__V1__LogsRequest *request, struct view *v,
                        struct err *err)
{
    uint64_t heard_ms = chrono_now_ms();
    for (bool complete = false; !complete;) {
        const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
        struct rpc_msg *reply = NULL;
        (void)nanosleep(&pause, NULL);
        const int rc =
            client_call(client, "Logs", &request->base, client_timeout_ms(), &reply, err);
        if (rc == 0) {
            const Gradus__V1__LogsResponse *r = (const Gradus__V1__LogsResponse *)reply->body;
            next(v, r);
            request->after = r->next;
            complete = r->complete;
            heard_ms = chrono_now_ms();
            rpc_msg_unref(reply);
        } else if (!is_away(rc) || chrono_now_ms() - heard_ms >= LOST_MS) {
            return rc;
        }
    }
    return 0;
}

static int logs(const struct options *o, const struct cli_args *args, struct found_job *found,
                struct err *err)
{
    Gradus__V1__LogsRequest request = GRADUS__V1__LOGS_REQUEST__INIT;
    struct view v = {.job = args->positional[0], .json = o->common.json};
    struct rpc_msg *reply = NULL;
    request.job = client_text(args->positional[0]);
    request.node = client_text(args->positional_count > 1 ? args->positional[1] : "");
    int rc = client_call(&found->client, "Logs", &request.base, client_timeout_ms(), &reply, err);
    if (rc == 0) {
        const Gradus__V1__LogsResponse *r = (const Gradus__V1__LogsResponse *)reply->body;
        first(&v, r, o);
        request.after = r->next;
        rc = o->follow && !r->complete ? follow_lines(&found->client, &request, &v, err) : 0;
    }
    rpc_msg_unref(reply);
    for (size_t i = 0; i < v.gone_count; i++) {
        free(v.gone[i]);
    }
    free(v.gone);
    return rc;
}

/* Did the processes that wrote into @dir have the job? Of a log that is too long to read: maybe. */
static bool is_of_job(const char *all, const char *dir, const char *job)
{
    char *path = mem_printf("%s/%s/master.log", all, dir), *wanted = mem_printf("job=%s ", job);
    struct buf text = {0};
    const int rc = file_read(path, LOG_BYTES_MAX, &text, NULL);
    const bool is = rc == ERR_EXHAUSTED || (rc == 0 && strstr(buf_str(&text), wanted) != NULL);
    buf_release(&text);
    free(wanted);
    free(path);
    return is;
}

/* Where the processes of a run wrote, which is named after its beginning (local.c): the newest that
 * began before the job ended. Returns owned; NULL: there is none. */
static char *dir_of_run(const char *state_dir, const Gradus__V1__Job *job)
{
    char *all = file_join(state_dir, "logs"), ended[STAMP_BYTES + 1] = "9", *newest = NULL;
    const time_t seconds = (time_t)(job->finished_ms / 1000);
    struct tm utc;
    if (job->finished_ms > 0 && gmtime_r(&seconds, &utc) != NULL) {
        (void)strftime(ended, sizeof ended, "%Y%m%d-%H%M%S", &utc);
    }
    DIR *dir = opendir(all);
    for (const struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        const bool begins = e->d_name[0] != '.' && strncmp(e->d_name, ended, strlen(ended)) <= 0;
        if (begins && (newest == NULL || strcmp(e->d_name, newest) > 0) &&
            is_of_job(all, e->d_name, job->id)) {
            free(newest);
            newest = mem_strdup(e->d_name);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    char *path = newest != NULL ? file_join(all, newest) : NULL;
    free(newest);
    free(all);
    return path;
}

static int no_master(const char *id, const struct found_job *found, struct err *err)
{
    char *dir = found->row != NULL ? dir_of_run(found->state_dir, found->row) : NULL;
    const int rc = err_set(
        err, ERR_STATE, "job %s: its lines were with its master, which does not run any more%s%s",
        id, dir != NULL ? "; its processes wrote into " : "", dir != NULL ? dir : "");
    free(dir);
    return rc;
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct found_job found = {0};
    struct err err = {0};
    int rc = find_live_job(&o->common, args->positional[0], &found, &err);
    if (rc == ERR_STATE) {
        rc = no_master(args->positional[0], &found, &err);
    }
    rc = rc != 0 ? rc : logs(o, args, &found, &err);
    found_job_release(&found);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

const struct cli_command cmd_logs = {
    .name = "logs",
    .summary = "Show the log lines about a job, of its master and nodes",
    .usage = "JOB [NODE]",
    .examples = "  gradus logs digits-1\n"
                "  gradus logs digits-1 worker-2 --tail 20 -f\n"
                "  gradus logs digits-1 --json | jq -c 'select(.level == \"WARN\")'\n",
    .notes =
        "With NODE only the lines of that node, or of master. What a program of the job prints "
        "has the event `printed`. Lines come with heartbeats, so a moment late; the master "
        "keeps the last 1,000 of a job in memory, at most 256 KiB, and none over its own end. "
        "Lines that look as if a secret stood in them are not shown. Times are UTC. With "
        "--json each line is an object. Ctrl-C ends -f; the job goes on.",
    .shares = CLI_MASTER | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 2,
    .run = run,
};
