/* SPDX-License-Identifier: Apache-2.0 */
/* Shows a job's progress until the job ends, for run, watch and submit --watch, and handles Ctrl-C.
 * One thread polls for all that happens; gRPC's threads only leave messages for it. */
#include "cli/follow.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/find_job.h"
#include "cli/follow_events.h"
#include "cli/follow_inbox.h"
#include "cli/job_events.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/watch_lines.h"
#include "os/chrono.h"
#include "os/signals.h"
#include "wire/wire.h"

#define TICK_MS 200
#define PLAIN_PROGRESS_MS 5000 /* between progress lines when the output is no terminal */
/* without a word from the master for so long, the command gives up */
#define LOST_MS 15000
#define LOST_OWN_MS 600000 /* for a master of this process, whose end it would see */
#define REOPEN_MS 500
#define SETTLE_MS 2000 /* for reports of workers about an epoch after its evaluation */
#define PROGRESS_BYTES_MAX 1024

struct follower {
    const struct follow_options *options;
    struct client *client;
    struct inbox inbox;
    struct rpc_stream *stream;
    struct rpc_msg *shown; /* the last job seen */
    uint64_t lost_since_ms, reopen_ms;
    int signal_fd;
    uint64_t interrupted_ms; /* 0: not yet */
    bool terminal;
    bool line_open; /* a progress line without newline is on the terminal */
    uint64_t line_ms;
    uint64_t evaluation_step;
    size_t evaluations_shown;
    struct follow_events written;
    uint64_t newest_step, newest_since_ms; /* the newest evaluation; since_ms 0: none yet */
    int state_shown;
    char reason_shown[256];
    struct job_events events;
    struct watch_lines lines;
};

static sigset_t all_signals(bool suspends)
{
    sigset_t set = client_signals();
    struct sigaction stop;
    if (suspends && sigaction(SIGTSTP, NULL, &stop) == 0 && stop.sa_handler != SIG_IGN) {
        sigaddset(&set, SIGTSTP);
    }
    return set;
}

void follow_block_signals(bool suspends)
{
    const sigset_t set = all_signals(suspends);
    signals_block(&set);
}

static int open_stream(struct follower *f, struct err *err)
{
    Gradus__V1__GetJobRequest body = GRADUS__V1__GET_JOB_REQUEST__INIT;
    body.job = client_text(f->options->job);
    struct rpc_request request = {
        .service = &gradus__v1__jobs__descriptor,
        .method = "Watch",
        .body = &body.base,
        .terse = true,
    };
    f->inbox.ended = false;
    f->stream = rpc_stream_open(f->client->channel, &request, &inbox_stream_events, &f->inbox, err);
    return f->stream == NULL ? (err->code != 0 ? err->code : ERR_INTERNAL) : 0;
}

static bool in_lines(const struct follower *f)
{
    return f->options->result == FOLLOW_LINES;
}

/* ---- what people see ---- */

/* What a line on the terminal that stderr is may take: a "^C" must fit behind it. */
static size_t line_columns(void)
{
    size_t columns = terminal_columns(STDERR_FILENO);
    return columns == TERMINAL_ANY ? columns : columns - 3;
}

static void clear_line(struct follower *f)
{
    if (f->line_open) {
        (void)fputs("\r\033[K", stderr);
        f->line_open = false;
    }
}

/* The newest evaluation's train metrics may still lack what workers have not reported. */
static bool settled(struct follower *f, const Gradus__V1__Job *job)
{
    const Gradus__V1__Evaluation *newest = job->evaluations[job->n_evaluations - 1];
    uint64_t now = chrono_now_ms();
    if (f->newest_since_ms == 0 || newest->step != f->newest_step) {
        f->newest_step = newest->step;
        f->newest_since_ms = now;
    }
    return job_has_ended(job) || now >= f->newest_since_ms + SETTLE_MS;
}

/* What cannot be written ends no training. */
static void write_events(struct follower *f, const Gradus__V1__Job *job, size_t count)
{
    struct err err = {0};
    if (follow_events_write(&f->written, f->client, f->options, job, count, &err) != 0) {
        clear_line(f);
        cli_note("--tensorboard: %s; no more is written", err.msg);
    }
}

static void show_evaluation(struct follower *f, const Gradus__V1__Evaluation *e)
{
    struct buf line = {0};
    if (in_lines(f)) {
        watch_lines_evaluation(e);
        return;
    }
    clear_line(f);
    output_evaluation(e, terminal_columns(STDERR_FILENO), &line);
    (void)fprintf(stderr, "%s\n", buf_str(&line));
    buf_release(&line);
}

/* Shows each evaluation once. Returns true if any was shown. */
static bool show_evaluations(struct follower *f, const Gradus__V1__Job *job)
{
    size_t count = job->n_evaluations;
    if (count > 0 && !settled(f, job)) {
        count--;
    }
    write_events(f, job, count);
    size_t before = f->evaluations_shown;
    for (size_t i = 0; i < count; i++) {
        const Gradus__V1__Evaluation *e = job->evaluations[i];
        if (f->evaluations_shown > 0 && e->step <= f->evaluation_step) {
            continue;
        }
        f->evaluations_shown++;
        f->evaluation_step = e->step;
        show_evaluation(f, e);
    }
    return f->evaluations_shown > before;
}

/* What has happened to it, in lines of their own. */
static void show_events(struct follower *f, const Gradus__V1__Job *job)
{
    struct buf lines = {0}, wrapped = {0};
    job_events_look(&f->events, job, &lines);
    if (lines.len > 0 && !in_lines(f)) {
        clear_line(f);
        terminal_wrap(buf_str(&lines), terminal_columns(STDERR_FILENO), &wrapped);
        (void)fputs(buf_str(&wrapped), stderr);
    }
    if (f->events.back && f->evaluation_step > f->events.from) {
        f->evaluation_step = f->events.from; /* evaluations behind it are made again */
    }
    buf_release(&lines);
    buf_release(&wrapped);
}

static void show_progress(struct follower *f, const Gradus__V1__Job *job)
{
    uint64_t now = chrono_now_ms();
    struct buf line = {0};
    if (in_lines(f)) {
        watch_lines_job(&f->lines, job);
        return;
    }
    output_progress(job, &f->events, line_columns(), &line);
    if (f->terminal) {
        char shown[PROGRESS_BYTES_MAX];
        (void)fprintf(stderr, "\r\033[K%s",
                      output_fit(buf_str(&line), line_columns(), shown, sizeof shown));
        (void)fflush(stderr);
        f->line_open = true;
    } else {
        bool changed = (int)job->state != f->state_shown ||
                       (job->state != GRADUS__V1__JOB_STATE__RUNNING &&
                        strncmp(job->reason, f->reason_shown, sizeof f->reason_shown - 1) != 0);
        if (changed || now >= f->line_ms + PLAIN_PROGRESS_MS) {
            (void)fprintf(stderr, "%s\n", buf_str(&line));
            f->line_ms = now;
        }
    }
    f->state_shown = (int)job->state;
    text_copy(f->reason_shown, sizeof f->reason_shown, job->reason);
    buf_release(&line);
}

static int code_of(const Gradus__V1__Job *job)
{
    return job->state == GRADUS__V1__JOB_STATE__SUCCEEDED   ? CLI_OK
           : job->state == GRADUS__V1__JOB_STATE__CANCELLED ? CLI_CANCELLED
                                                            : CLI_FAILED;
}

int follow_ended(const Gradus__V1__Job *job, enum follow_result how)
{
    struct buf out = {0};
    if (how == FOLLOW_LINES) {
        watch_lines_end(job);
    } else if (how == FOLLOW_JSON) {
        output_message_json(&job->base, &out);
        (void)fputs(buf_str(&out), stdout);
    } else {
        output_result_text(job, &out);
        terminal_print(&out);
    }
    buf_release(&out);
    if (how != FOLLOW_TEXT && code_of(job) == CLI_FAILED) { /* as text, the result has said it */
        cli_note("job %s %s: %s", job->id, wire_state_name(job->state), job->reason);
    }
    return code_of(job);
}

int follow_fail(const struct err *err, enum follow_result how)
{
    const int code = cli_fail(err);
    if (how == FOLLOW_LINES) {
        watch_lines_error(err->msg);
        cli_remembered(code, false);
    }
    return code;
}

static int finish(struct follower *f, const Gradus__V1__Job *job)
{
    clear_line(f);
    return f->options->look != NULL ? code_of(job) : follow_ended(job, f->options->result);
}

/* ---- events ---- */

/* Does not wait, so that a second Ctrl-C is heard whatever the master does. */
static void cancel(struct follower *f)
{
    Gradus__V1__CancelRequest body = GRADUS__V1__CANCEL_REQUEST__INIT;
    body.job = client_text(f->options->job);
    struct rpc_request request = {
        .service = &gradus__v1__jobs__descriptor,
        .method = "Cancel",
        .body = &body.base,
        .terse = true,
        .timeout_ms = client_timeout_ms(),
        .wait_for_ready = true,
    };
    struct err err = {0};
    if (rpc_call_start(f->client->channel, &request, inbox_cancelled, &f->inbox, &err) != 0) {
        cli_note("cancel: %s", err.msg);
    }
}

/* Ctrl-Z: what belongs to this process stops before it and goes on after it. */
static void suspend(struct follower *f)
{
    clear_line(f);
    cli_say("suspended, and with it the local cluster; `fg` or `bg` lets both go on");
    f->options->suspend(f->options->ctx, true);
    (void)raise(SIGSTOP);
    f->options->suspend(f->options->ctx, false);
}

/* Returns an exit code, or -1 to go on. */
static int on_signal(struct follower *f)
{
    int signal = signals_read(f->signal_fd);
    uint64_t now_ms = chrono_now_ms();
    bool again = f->interrupted_ms != 0;
    if (signal == SIGTSTP) {
        suspend(f);
        return -1;
    }
    /* A terminal that closes tells it twice: by itself and by the shell. */
    if (signal == 0 ||
        (again && (signal == SIGHUP || signals_repeats(signal, now_ms - f->interrupted_ms)))) {
        return -1;
    }
    f->interrupted_ms = now_ms;
    clear_line(f);
    if (f->options->interrupt == FOLLOW_DETACH) {
        cli_note(
            "job %s goes on; `gradus watch %s%s` watches it again, `gradus cancel %s%s` stops it",
            f->options->job, f->options->job, f->options->where, f->options->job,
            f->options->where);
        return FOLLOW_STOPPED;
    }
    if (again) {
        cli_say("stopped at once; nothing more was saved");
        return FOLLOW_STOPPED;
    }
    cli_say("cancelling; a checkpoint is being left. Ctrl-C again stops at once.");
    f->events.cancelled = true;
    cancel(f);
    return -1;
}

static int on_job(struct follower *f, struct rpc_msg *newest)
{
    rpc_msg_unref(f->shown);
    f->shown = newest;
    f->lost_since_ms = 0;
    const Gradus__V1__Job *job = (const Gradus__V1__Job *)newest->body;
    if (f->options->look != NULL) {
        f->options->look(f->options->ctx, newest);
    }
    (void)show_evaluations(f, job);
    if (job_has_ended(job)) {
        return finish(f, job);
    }
    show_progress(f, job);
    return -1;
}

/* Who watches over the processes of the cluster itself knows that they live. */
static uint64_t lost_ms(const struct follower *f)
{
    return f->options->tick != NULL ? LOST_OWN_MS : LOST_MS;
}

static int on_stream_end(struct follower *f, const struct err *err)
{
    rpc_stream_free(f->stream);
    f->stream = NULL;
    uint64_t now = chrono_now_ms();
    f->reopen_ms = now + REOPEN_MS;
    bool first = f->lost_since_ms == 0;
    if (first) {
        f->lost_since_ms = now;
    }
    bool passing = err->code == 0 || err->code == ERR_UNAVAILABLE || err->code == ERR_TIMEOUT;
    if (!passing || now >= f->lost_since_ms + lost_ms(f)) {
        clear_line(f);
        int code = follow_fail(err, f->options->result);
        if (passing && f->options->interrupt == FOLLOW_DETACH) {
            cli_note("the job may well go on; `gradus watch %s%s` watches it again",
                     f->options->job, f->options->where);
        }
        return code;
    }
    if (first && err->code != 0) {
        clear_line(f);
        cli_note("no word from the master; trying again for %" PRIu64 " s: %s", lost_ms(f) / 1000,
                 err->msg);
    }
    return -1;
}

static int on_inbox(struct follower *f)
{
    struct inbox_content in;
    int code = -1;
    inbox_take(&f->inbox, &in);
    for (size_t i = 0; i < in.count; i++) {
        show_events(f, (const Gradus__V1__Job *)in.jobs[i]->body);
        if (i + 1 < in.count) {
            if (in_lines(f)) {
                watch_lines_job(&f->lines, (const Gradus__V1__Job *)in.jobs[i]->body);
            }
            rpc_msg_unref(in.jobs[i]);
        }
    }
    if (in.count > 0) {
        code = on_job(f, in.jobs[in.count - 1]);
    }
    if (code < 0 && in.cancel_failed) {
        clear_line(f);
        cli_note("cancel: %s", in.cancel_err.msg);
    }
    if (code < 0 && in.ended && f->stream != NULL) {
        code = on_stream_end(f, &in.err);
    }
    return code;
}

static int run_tick(struct follower *f)
{
    struct buf notices = {0};
    struct err err = {0};
    int rc = f->options->tick(f->options->ctx, &notices, &err);
    if (rc != 0 || notices.len > 0) {
        clear_line(f);
        (void)fputs(buf_str(&notices), stderr);
    }
    buf_release(&notices);
    return rc != 0 ? follow_fail(&err, f->options->result) : -1;
}

static int on_tick(struct follower *f)
{
    struct err err = {0};
    if (f->stream == NULL && chrono_now_ms() >= f->reopen_ms) {
        f->reopen_ms = chrono_now_ms() + REOPEN_MS;
        if (open_stream(f, &err) != 0) {
            clear_line(f);
            return follow_fail(&err, f->options->result);
        }
    }
    if (f->shown != NULL) {
        const Gradus__V1__Job *job = (const Gradus__V1__Job *)f->shown->body;
        bool line_open = f->line_open;
        if (show_evaluations(f, job) && line_open) {
            show_progress(f, job);
        }
    }
    return f->options->tick != NULL ? run_tick(f) : -1;
}

static int loop(struct follower *f)
{
    for (;;) {
        struct pollfd fds[2] = {
            {.fd = f->inbox.event_fd, .events = POLLIN},
            {.fd = f->signal_fd, .events = POLLIN},
        };
        int ready = poll(fds, 2, TICK_MS);
        int code = -1;
        if (ready > 0 && (fds[1].revents & POLLIN) != 0) {
            code = on_signal(f);
        }
        if (code < 0 && ready > 0 && (fds[0].revents & POLLIN) != 0) {
            code = on_inbox(f);
        }
        if (code < 0) {
            code = on_tick(f);
        }
        if (code >= 0) {
            return code;
        }
    }
}

int follow(struct client *client, const struct follow_options *options)
{
    const sigset_t set = all_signals(options->suspend != NULL);
    const char *term = getenv("TERM");
    struct follower f = {
        .options = options,
        .client = client,
        .terminal = isatty(STDERR_FILENO) != 0 && (term == NULL || strcmp(term, "dumb") != 0),
        .state_shown = -1,
    };
    inbox_init(&f.inbox);
    struct err err = {0};
    f.signal_fd = signals_open(&set, &err);
    int code = f.signal_fd < 0 || open_stream(&f, &err) != 0 ? follow_fail(&err, options->result)
                                                             : loop(&f);
    if (f.stream != NULL) {
        rpc_stream_free(f.stream);
    }
    /* The callbacks of the stream end with the channel; nothing of it is touched after this. */
    client_close(client);
    rpc_msg_unref(f.shown);
    inbox_release(&f.inbox);
    job_events_release(&f.events);
    watch_lines_release(&f.lines);
    if (f.signal_fd >= 0) {
        (void)close(f.signal_fd);
    }
    return code;
}
