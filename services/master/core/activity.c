/* SPDX-License-Identifier: Apache-2.0 */
/* What a job waits for at the moment it is looked at, in words: calls that nobody has answered yet,
 * nodes that are silent, and what else keeps its nodes busy for longer than a moment. */
#include <inttypes.h>
#include <string.h>

#include "master/core/core.h"

#define SAID_MS 3000 /* a work or a call that takes longer is shown */
/* and one that has made no progress for so long is shown as standing still */
#define STILL_MS 60000

static void separate(struct buf *words)
{
    buf_add_str(words, words->len == 0 ? "" : "; ");
}

/* "a step" of a worker has a name of its own; everything else is a call's. */
static void say_work(const struct node_work *w, struct buf *words)
{
    buf_printf(words, "at %s%s", strcmp(w->what, "step") == 0 ? "a " : "", w->what);
}

static void say_progress(const struct node_work *w, uint64_t now_ms, struct buf *words)
{
    if (w->total > 0 && strcmp(w->unit, "bytes") == 0) {
        buf_printf(words, ", %.1f of %.1f MB", (double)w->done * 1e-6, (double)w->total * 1e-6);
    } else if (w->total > 0) {
        buf_printf(words, ", %" PRIu64 " of %" PRIu64 " %s", w->done, w->total, w->unit);
    }
    if (now_ms > w->moved_ms + STILL_MS) {
        buf_printf(words, ", and has not got on for %" PRIu64 " s", (now_ms - w->moved_ms) / 1000);
    }
}

static bool is_said(const struct call *c, const struct job *j, uint64_t now_ms)
{
    return c->job == j && c->begun && now_ms >= c->begun_ms + SAID_MS;
}

static void say_call(const struct call *c, uint64_t now_ms, struct buf *words)
{
    const struct node_work *w = call_work(c);
    const char *name = master_call_name(c->kind);
    separate(words);
    buf_printf(words, "%s on %s for %" PRIu64 " s", name, c->node->id,
               (now_ms - c->begun_ms) / 1000);
    if (w == NULL) {
        if (c->failure[0] != '\0') {
            buf_printf(words, " (%s)", c->failure);
        }
        return;
    }
    if (strcmp(w->what, name) != 0) {
        buf_add_str(words, ", which is ");
        say_work(w, words);
    }
    say_progress(w, now_ms, words);
}

static bool is_silent(const struct master *m, const struct node *n, uint64_t now_ms)
{
    return n == NULL /* it is gone */ ||
           (node_is_late(m, n, now_ms) && now_ms >= n->heartbeat_ms + SAID_MS);
}

static void say_silence(const struct master *m, const struct node *n, uint64_t now_ms,
                        struct buf *words)
{
    if (n == NULL || !is_silent(m, n, now_ms)) {
        return;
    }
    uint64_t until_s = node_patience_ms(m, n) / 1000;
    separate(words);
    buf_printf(words,
               "%s has been silent for %" PRIu64 " s; it is waited for until %" PRIu64
               ":%02" PRIu64,
               n->id, (now_ms - n->heartbeat_ms) / 1000, until_s / 60, until_s % 60);
}

/* Says what @n is at for @j; a node with an open call has been named with the call. */
static void say_node(const struct master *m, const struct job *j, const struct node *n,
                     uint64_t now_ms, struct buf *words)
{
    if (is_silent(m, n, now_ms)) {
        return; /* its work is older than the call */
    }
    for (size_t i = 0; n->work_count > 0 && i < m->calls.count; i++) {
        if (m->calls.rows[i].node == n && is_said(&m->calls.rows[i], j, now_ms)) {
            return;
        }
    }
    for (size_t i = 0; i < n->work_count; i++) {
        const struct node_work *w = &n->works[i];
        if (strcmp(w->job, j->record.id) == 0 && now_ms >= w->since_ms + SAID_MS) {
            separate(words);
            buf_printf(words, "%s, which is ", n->id);
            say_work(w, words);
            buf_printf(words, " for %" PRIu64 " s", (now_ms - w->since_ms) / 1000);
            say_progress(w, now_ms, words);
        }
    }
}

const char *activity_words(const struct master *m, const struct job *j, uint64_t now_ms,
                           struct buf *words)
{
    buf_reset(words);
    if (resize_is_wanted(j) && !j->resizing) {
        buf_printf(words, "wants %" PRId64 " parameter servers: %zu can serve it%s",
                   j->spec.cluster.ps, resize_servers(m, j),
                   j->cannot_save ? ", and no checkpoint can be written" : "");
    }
    for (size_t i = 0; i < j->worker_count; i++) {
        say_silence(m, j->workers[i].node, now_ms, words);
    }
    for (size_t i = 0; i < j->shard_count; i++) {
        say_silence(m, j->shards[i].node, now_ms, words);
    }
    for (size_t i = 0; i < m->calls.count; i++) {
        if (is_said(&m->calls.rows[i], j, now_ms)) {
            say_call(&m->calls.rows[i], now_ms, words);
        }
    }
    for (size_t i = 0; i < j->worker_count; i++) {
        say_node(m, j, j->workers[i].node, now_ms, words);
    }
    for (size_t i = 0; i < j->shard_count; i++) {
        say_node(m, j, j->shards[i].node, now_ms, words);
    }
    return buf_str(words);
}
