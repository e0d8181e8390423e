/* SPDX-License-Identifier: Apache-2.0 */
/* Readers' pins: versions that readers of a running job keep for a time. A reader may die, so each
 * pin ends by itself; nothing waits for a reader, and a reader changes nothing that training reads.
 */
#include <inttypes.h>
#include <string.h>

#include "base/mutant.h"
#include "base/text.h"
#include "ps/core/shard_internal.h"

static struct shard_reader *find(struct shard *s, const char *id)
{
    for (size_t i = 0; i < SHARD_READERS_MAX; i++) {
        if (s->readers[i].id[0] != 0 && strcmp(s->readers[i].id, id) == 0) {
            return &s->readers[i];
        }
    }
    return NULL;
}

static struct shard_reader *free_reader(struct shard *s)
{
    for (size_t i = 0; i < SHARD_READERS_MAX; i++) {
        if (s->readers[i].id[0] == 0) {
            return &s->readers[i];
        }
    }
    return NULL;
}

static void release(struct shard_reader *r, struct shard_actions *out)
{
    if (r->pinned) {
        struct shard_action *a = shard_act(out, SHARD_FORGET);
        a->version = r->version;
        a->reader = true;
    }
    *r = (struct shard_reader){0};
}

static void reply(const struct shard *s, uint64_t version, void *tag, struct shard_actions *out)
{
    struct shard_action *a = shard_act(out, SHARD_REPLY);
    a->tag = tag;
    a->version = version;
    a->generation = s->generation;
}

/* The pin goes on for as long as the reader asks, but not for ever. */
static void extend(struct shard_reader *r, uint64_t now_ms)
{
    const uint64_t last_ms = r->since_ms + SHARD_READER_ALL_MS_MAX;
    r->ends_ms = now_ms + r->ms < last_ms ? now_ms + r->ms : last_ms;
}

static void pin(struct shard *s, struct shard_reader *r, uint64_t now_ms, struct shard_actions *out)
{
    r->pinned = true;
    r->version = s->version;
    r->since_ms = now_ms;
    extend(r, now_ms);
    struct shard_action *a = shard_act(out, SHARD_KEEP);
    a->version = r->version;
    a->reader = true;
    reply(s, r->version, r->tag, out);
    r->tag = NULL;
}

static int check_id(const struct shard_event *e, struct err *err)
{
    const size_t length = e->pin_id == NULL ? 0 : strnlen(e->pin_id, SHARD_PIN_ID_BYTES);
    if (length == 0 || length == SHARD_PIN_ID_BYTES) {
        return err_set(err, ERR_INVALID, "a pin_id must have 1 to %d bytes",
                       SHARD_PIN_ID_BYTES - 1);
    }
    if (e->read.kind != SHARD_READ_END && (e->read.ms == 0 || e->read.ms > SHARD_READER_MS_MAX)) {
        return err_set(err, ERR_INVALID, "a reader's pin for %" PRIu64 " ms; 1 to %d are possible",
                       e->read.ms, SHARD_READER_MS_MAX);
    }
    return 0;
}

static int check_pin(struct shard *s, const struct shard_event *e, struct err *err)
{
    char shown[64];
    int rc = shard_check_generation(s, e->generation, err);
    rc = rc != 0 ? rc : shard_check_filled(s, err);
    if (rc != 0) {
        return rc;
    }
    if (find(s, e->pin_id) != NULL) {
        return err_set(err, ERR_EXISTS, "a reader's pin is called '%s' already",
                       text_shown(e->pin_id, shown, sizeof shown));
    }
    if (e->read.exact && e->read.version < s->version) {
        return err_set(err, ERR_RANGE,
                       "version %" PRIu64 ", which is gone; the shard is at %" PRIu64,
                       e->read.version, s->version);
    }
    if (free_reader(s) == NULL) {
        return err_set(err, ERR_EXHAUSTED, "%d readers have pinned versions already; try again",
                       SHARD_READERS_MAX);
    }
    return 0;
}

static void take_pin(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (check_pin(s, e, &out->err) != 0) {
        shard_refuse(s, e->tag, out);
        return;
    }
    struct shard_reader *r = free_reader(s);
    memcpy(r->id, e->pin_id, strlen(e->pin_id) + 1);
    r->tag = e->tag;
    r->ms = e->read.ms;
    r->version = e->read.version;
    if (!e->read.exact) {
        r->version = s->version; /* or a later one, where it waits */
    }
    if (shard_unreceived(s)) {
        return;
    }
    if (r->version == s->version || MUTANT(reader_pins_any)) {
        pin(s, r, e->now_ms, out);
    }
}

void shard_on_read(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (check_id(e, &out->err) != 0) {
        shard_refuse(s, e->tag, out);
        return;
    }
    if (e->read.kind == SHARD_READ_PIN) {
        take_pin(s, e, out);
        return;
    }
    struct shard_reader *r = find(s, e->pin_id);
    if (e->read.kind == SHARD_READ_END) {
        if (r != NULL && r->pinned) {
            release(r, out);
        }
        reply(s, shard_shown(s), e->tag, out);
        return;
    }
    if (r == NULL || !r->pinned) {
        char shown[64];
        (void)err_set(&out->err, ERR_NOT_FOUND, "no reader's pin is called '%s', or it has ended",
                      text_shown(e->pin_id, shown, sizeof shown));
        shard_refuse(s, e->tag, out);
        return;
    }
    r->ms = e->read.ms;
    extend(r, e->now_ms);
    reply(s, MUTANT(reader_reads_present) ? s->version : r->version, e->tag, out);
}

/* ---- from other events ---- */

void shard_readers_pass(struct shard *s, uint64_t now_ms, struct shard_actions *out)
{
    for (size_t i = 0; i < SHARD_READERS_MAX && !MUTANT(reader_for_ever); i++) {
        struct shard_reader *r = &s->readers[i];
        if (r->pinned && r->ends_ms <= now_ms) {
            release(r, out);
        }
    }
}

void shard_readers_wake(struct shard *s, uint64_t now_ms, struct shard_actions *out)
{
    for (size_t i = 0; i < SHARD_READERS_MAX && !shard_unreceived(s); i++) {
        struct shard_reader *r = &s->readers[i];
        if (r->tag != NULL && r->version + MUTANT(reader_pins_late) <= s->version) {
            pin(s, r, now_ms, out);
        }
    }
}

void shard_readers_refuse(struct shard *s, struct shard_actions *out)
{
    for (size_t i = 0; i < SHARD_READERS_MAX; i++) {
        struct shard_reader *r = &s->readers[i];
        if (r->tag != NULL) {
            shard_refuse(s, r->tag, out);
            release(r, out);
        }
    }
}

bool shard_readers_gone(struct shard *s, const void *tag, struct shard_actions *out)
{
    for (size_t i = 0; i < SHARD_READERS_MAX; i++) {
        if (s->readers[i].tag == tag && tag != NULL) {
            release(&s->readers[i], out);
            return true;
        }
    }
    return false;
}

void shard_readers_release(struct shard *s, struct shard_actions *out)
{
    for (size_t i = 0; i < SHARD_READERS_MAX; i++) {
        release(&s->readers[i], out);
    }
}

size_t shard_readers_count(const struct shard *s)
{
    size_t count = 0;
    for (size_t i = 0; i < SHARD_READERS_MAX; i++) {
        count += s->readers[i].id[0] != 0;
    }
    return count;
}

bool shard_reads(const struct shard *s, uint64_t version)
{
    bool pinned = false;
    for (size_t i = 0; i < SHARD_READERS_MAX; i++) {
        pinned = pinned || (s->readers[i].pinned && s->readers[i].version == version);
    }
    return pinned;
}
