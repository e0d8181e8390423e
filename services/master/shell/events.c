/* SPDX-License-Identifier: Apache-2.0 */
#include "master/shell/events.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "gradus/v1/page.pb-c.h"
#include "json/json_write.h"
#include "master/shell/job_wire.h"
#include "master/shell/node_wire.h"
#include "os/chrono.h"
#include "os/log.h"
#include "wire/wire_json.h"

#define TURN_MS 1000
#define SOON_MS 100               /* after a change that is more than progress */
#define PROGRESS_MS 2000          /* of all jobs */
#define SILENCE_MS 15000          /* then comes a comment */
#define STUCK_MS 30000            /* without reading a byte */
#define LIFE_MS 300000            /* then it has to ask again, and may not be allowed to any more */
#define GRACE_MS 60000            /* changes are noted for who comes back */
#define UNSENT_MAX 65536          /* with more it hears nothing new */
#define TURN_BYTES_MAX (1u << 18) /* told at once */

struct events_reader {
    struct http_call *stream;
    char *job; /* NULL: all */
    struct news_place place;
    uint64_t logged; /* the number of the last line that it was told */
    uint64_t since_ms, progress_ms, told_ms, unsent_ms;
    struct events_reader *next;
};

/* ---- what is noted ---- */

static bool notes(const struct shell *s)
{
    return s->events.active;
}

static void start_notes(struct shell *s)
{
    uint32_t run = 0;
    if (!s->events.active) {
        if (getrandom(&run, sizeof run, 0) != (ssize_t)sizeof run) {
            run = (uint32_t)chrono_wall_ms(); /* another one than before will do */
        }
        news_reset(&s->events.news, run);
        s->events.active = true;
    }
}

static void on_turn(void *ctx);

static void turn_at(struct shell *s, uint64_t at_ms)
{
    struct loop_timer *timer = &s->events.timer;
    if (timer->slot == 0 || at_ms < timer->deadline_ms) {
        loop_timer_set(s->loop, timer, at_ms, on_turn, s);
    }
}

static void noted(struct shell *s, const struct news_thing *t)
{
    if (s->events.readers != NULL && t->said == t->changed) {
        turn_at(s, chrono_now_ms() + SOON_MS);
    }
}

void events_changed(struct shell *s, const struct job_record *r)
{
    const size_t evaluations = r->evaluation_count;
    if (!notes(s)) {
        return;
    }
    const uint64_t parts[] = {(uint64_t)r->state,
                              r->paused,
                              checksum_of(r->reason, strlen(r->reason)),
                              checksum_of(r->checkpoint, strlen(r->checkpoint)),
                              evaluations,
                              evaluations > 0 ? r->evaluations[evaluations - 1].step : 0,
                              r->history.change_count,
                              r->generation,
                              r->recoveries,
                              r->queue_position,
                              r->workers.count,
                              r->ps.count};
    noted(s, news_touch(&s->events.news, NEWS_JOB, r->id, checksum_of(parts, sizeof parts)));
}

void events_removed(struct shell *s, const char *job)
{
    if (notes(s)) {
        news_remove(&s->events.news, NEWS_JOB, job);
        turn_at(s, chrono_now_ms() + SOON_MS);
    }
}

void events_logged(struct shell *s, const struct master_log *line)
{
    if (notes(s)) {
        news_log(&s->events.news, chrono_wall_ms(), line->level, line->event, line->text);
    }
}

static uint64_t node_key(const struct master_node_info *n)
{
    const uint64_t parts[] = {n->incarnation, n->alive,
                              n->draining,    n->pid,
                              n->job_count,   checksum_of(n->address, strlen(n->address))};
    uint64_t key = checksum_of(parts, sizeof parts);
    for (size_t i = 0; i < n->job_count; i++) {
        key = key * 31 + checksum_of(n->jobs[i], strlen(n->jobs[i]));
    }
    return key;
}

/* Of two nodes of one name the one that lives counts. Nodes that left in order are gone. */
static void note_nodes(struct shell *s, bool alive)
{
    struct news *f = &s->events.news;
    struct master_node_info info;
    for (size_t i = 0; master_node_at(s->master, i, chrono_now_ms(), &info); i++) {
        struct news_thing *t = news_find(f, NEWS_NODE, info.id);
        if (info.alive != alive || info.gone ||
            (!alive && t != NULL && t->sweep == s->events.sweep)) {
            continue;
        }
        const uint64_t key = node_key(&info);
        if (t == NULL || t->gone || t->key != key) {
            t = news_touch(f, NEWS_NODE, info.id, key);
        }
        t->sweep = s->events.sweep;
    }
}

static void sweep_nodes(struct shell *s)
{
    struct news *f = &s->events.news;
    s->events.sweep++;
    note_nodes(s, true);
    note_nodes(s, false);
    for (size_t i = 0; i < f->things[NEWS_NODE].capacity; i++) {
        const struct name_slot *slot = &f->things[NEWS_NODE].slots[i];
        const struct news_thing *t = slot->name != NULL ? slot->object : NULL;
        if (t != NULL && t->sweep != s->events.sweep) {
            news_remove(f, NEWS_NODE, t->id); /* its slot stays */
        }
    }
}

/* ---- what is told ---- */

static void add_event(struct buf *out, const char *type, const char *json)
{
    buf_printf(out, "event: %s\ndata: ", type);
    buf_add_str(out, json);
    buf_add_str(out, "\n\n");
}

static char *job_text(struct shell *s, const char *id)
{
    struct buf json = {0};
    struct job_wire w;
    const struct job_record *record = master_job(s->master, id, chrono_now_ms());
    if (record != NULL) {
        job_wire_init(&w, record, JOB_WIRE_BRIEF);
        wire_json(&w.job.base, &json);
        job_wire_release(&w);
    }
    return record != NULL ? buf_take(&json) : NULL;
}

static char *node_text(struct shell *s, const char *id)
{
    struct buf json = {0};
    struct master_node_info info;
    const bool found = shell_find_node(s, id, &info);
    if (found) {
        node_wire_json(&info, &json);
    }
    return found ? buf_take(&json) : NULL;
}

static void add_thing(struct shell *s, struct news_thing *t, bool progress, struct buf *out)
{
    static const char *const names[NEWS_KINDS][2] = {{"job", "job-removed"}, {"node", "node-left"}};
    static const char *const keys[NEWS_KINDS] = {"job", "node"};
    if (t->text == NULL && !t->gone) {
        t->text = t->kind == NEWS_JOB ? job_text(s, t->id) : node_text(s, t->id);
    }
    if (t->text != NULL && !t->gone) {
        add_event(out, progress ? "progress" : names[t->kind][0], t->text);
    } else if (t->gone) {
        struct buf json = {0};
        buf_printf(&json, "{\"%s\":", keys[t->kind]);
        json_add_string(&json, t->id);
        buf_add_char(&json, '}');
        add_event(out, names[t->kind][1], buf_str(&json));
        buf_release(&json);
    } /* else the master has forgotten it since */
}

/* "job=digits-1" as a word of its own. */
static bool speaks_of(const char *text, const char *job)
{
    const size_t n = strlen(job);
    for (const char *at = text; (at = strstr(at, "job=")) != NULL;) {
        const bool begins = at == text || at[-1] == ' ';
        at += strlen("job=");
        if (begins && strncmp(at, job, n) == 0 && (at[n] == ' ' || at[n] == '\0')) {
            return true;
        }
    }
    return false;
}

static void add_lines(struct events_reader *v, const struct news *f, struct buf *out)
{
    static const char *const levels[] = {"DEBUG", "INFO", "WARN", "ERROR"};
    const struct news_line *line;
    while ((line = news_line_after(f, v->logged)) != NULL && out->len < TURN_BYTES_MAX) {
        v->logged = line->number;
        if (v->job != NULL && !speaks_of(line->text, v->job)) {
            continue;
        }
        struct buf json = {0};
        Gradus__V1__LogLine message = GRADUS__V1__LOG_LINE__INIT;
        char *level = mem_strdup(levels[line->level]);
        message.time_ms = line->time_ms;
        message.level = level;
        message.event = line->event;
        message.text = line->text;
        wire_json(&message.base, &json);
        add_event(out, "log", buf_str(&json));
        buf_release(&json);
        free(level);
    }
}

static bool concerns(const struct events_reader *v, const struct news_thing *t)
{
    return v->job == NULL || (t->kind == NEWS_JOB && strcmp(t->id, v->job) == 0);
}

/* Things that changed after @from; @progress: those alone that made only progress. Returns how far
 * it came. */
static uint64_t add_things(struct shell *s, const struct events_reader *v, uint64_t from,
                           bool progress, struct buf *out)
{
    for (struct news_thing *t = news_after(&s->events.news, from); t != NULL; t = t->newer) {
        if (out->len >= TURN_BYTES_MAX) {
            return from;
        }
        if (concerns(v, t) && (progress ? t->said != t->changed : t->said > from)) {
            add_thing(s, t, progress, out);
        }
        from = t->changed;
    }
    return s->events.news.number;
}

/* What it is to be told now. */
static void add_news(struct shell *s, struct events_reader *v, uint64_t now_ms, struct buf *out)
{
    const struct news *f = &s->events.news;
    char place[NEWS_PLACE_BYTES];
    if (v->place.run != f->run) { /* there was too much: it has to look at everything again */
        v->place = (struct news_place){.run = f->run, .said = f->number, .progressed = f->number};
        v->logged = v->job == NULL ? f->number : 0; /* of its job, what is known still */
        add_event(out, "start", "{}");
    }
    add_lines(v, f, out);
    v->place.said = add_things(s, v, v->place.said, false, out);
    if (now_ms - v->progress_ms >= (v->job == NULL ? PROGRESS_MS : TURN_MS)) {
        v->place.progressed = add_things(s, v, v->place.progressed, true, out);
        v->progress_ms = now_ms;
    }
    if (out->len > 0) {
        news_place_format(&v->place, place);
        buf_printf(out, "id: %s\n\n", place);
    } else if (now_ms - v->told_ms >= SILENCE_MS) {
        buf_add_str(out, ":\n\n");
    }
}

/* False: the stream is to end. */
static bool tell(struct shell *s, struct events_reader *v, uint64_t now_ms)
{
    struct buf out = {0};
    const size_t unsent = http_stream_unsent(v->stream);
    v->unsent_ms = unsent == 0 ? now_ms : v->unsent_ms;
    if (now_ms - v->since_ms >= LIFE_MS || now_ms - v->unsent_ms >= STUCK_MS) {
        return false;
    }
    if (unsent <= UNSENT_MAX) {
        add_news(s, v, now_ms, &out);
    }
    const bool well = out.len == 0 || http_stream_send(v->stream, out.data, out.len);
    v->told_ms = out.len > 0 ? now_ms : v->told_ms;
    if (out.len >= TURN_BYTES_MAX) {
        turn_at(s, now_ms + SOON_MS);
    }
    buf_release(&out);
    return well;
}

static void reader_end(struct shell *s, struct events_reader **at)
{
    struct events_reader *v = *at;
    *at = v->next;
    s->events.reader_count--;
    http_stream_end(v->stream);
    free(v->job);
    free(v);
}

static void on_turn(void *ctx)
{
    struct shell *s = ctx;
    const uint64_t now_ms = chrono_now_ms();
    if (now_ms - s->events.swept_ms >= TURN_MS) {
        s->events.swept_ms = now_ms;
        sweep_nodes(s);
    }
    for (struct events_reader **at = &s->events.readers; *at != NULL;) {
        if (tell(s, *at, now_ms)) {
            at = &(*at)->next;
        } else {
            reader_end(s, at);
        }
    }
    if (s->events.readers != NULL) {
        s->events.read_ms = now_ms;
    }
    if (now_ms - s->events.read_ms < GRACE_MS) {
        turn_at(s, now_ms + TURN_MS);
    } else {
        s->events.active = false;
        news_reset(&s->events.news, 0);
    }
}

/* ---- beginnings and ends ---- */

struct opening {
    struct shell *shell;
    struct http_call *call;
    char *job, *last; /* NULL: none */
};

static void opening_free(struct opening *o)
{
    free(o->job);
    free(o->last);
    free(o);
}

static int check_job(struct shell *s, const char *job, struct err *err)
{
    struct buf row = {0};
    if (job == NULL || master_job(s->master, job, chrono_now_ms()) != NULL) {
        return 0;
    }
    const int rc = s->store->ops->get(s->store, job, &row, err);
    buf_release(&row);
    return rc == ERR_NOT_FOUND ? err_set(err, rc, "no job %.128s", job) : rc;
}

static int check_room(const struct shell *s, struct err *err)
{
    return s->events.reader_count < EVENTS_READERS_MAX
               ? 0
               : err_set(err, ERR_EXHAUSTED, "%d readers of events are there already; ask again",
                         EVENTS_READERS_MAX);
}

static int begin(struct shell *s, struct opening *o, struct err *err)
{
    const struct http_answer head = {
        .status = 200, .type = "text/event-stream", .header = "Cache-Control", .more = "no-store"};
    int rc = loop_discarding(s->loop) || atomic_load(&s->ending)
                 ? err_set(err, ERR_UNAVAILABLE, "the master is stopping")
                 : check_job(s, o->job, err);
    rc = rc < 0 ? rc : check_room(s, err);
    if (rc == 0 && !http_call_stream(o->call, &head)) {
        rc = err_set(err, ERR_EXHAUSTED, "this port has %d streams already; ask again",
                     HTTP_STREAMS_MAX);
    }
    return rc;
}

static void opened(void *ctx)
{
    struct opening *o = ctx;
    struct shell *s = o->shell;
    struct err err = {0};
    if (begin(s, o, &err) < 0) {
        page_fail(o->call, &err);
        opening_free(o);
        return;
    }
    const uint64_t now_ms = chrono_now_ms();
    start_notes(s);
    struct events_reader *v = mem_new(1, sizeof *v);
    *v = (struct events_reader){.stream = o->call,
                                .job = o->job,
                                .since_ms = now_ms,
                                .told_ms = now_ms,
                                .unsent_ms = now_ms,
                                .next = s->events.readers};
    if (o->last == NULL || !news_place_parse(&s->events.news, o->last, &v->place)) {
        v->place.run = s->events.news.run + 1; /* of no run: it is told to begin */
    }
    v->logged = v->place.said;
    s->events.readers = v;
    s->events.reader_count++;
    s->events.read_ms = now_ms;
    o->job = NULL;
    opening_free(o);
    turn_at(s, now_ms);
}

void events_open(struct shell *s, struct http_call *call, const char *job)
{
    struct opening *o = mem_new(1, sizeof *o);
    struct err err = {0};
    const char *last = http_call_header(call, "Last-Event-ID");
    *o = (struct opening){.shell = s,
                          .call = call,
                          .job = job != NULL ? mem_strdup(job) : NULL,
                          .last = last != NULL ? mem_strdup(last) : NULL};
    if (loop_post(s->loop, opened, o, &err) < 0) {
        page_fail(call, &err);
        opening_free(o);
    }
}

void events_end(struct shell *s)
{
    while (s->events.readers != NULL) {
        reader_end(s, &s->events.readers);
    }
    loop_timer_clear(s->loop, &s->events.timer);
}

void events_release(struct shell *s)
{
    news_reset(&s->events.news, 0);
}
