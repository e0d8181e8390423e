/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of records at a backup: references, the list of its shard, their end with that; and what
 * a standby shard says of itself. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"
#include "os/chrono.h"
#include "os/log.h"
#include "ps/rpc/ps_standby.h"

void ps_record_stream_unref(struct ps_record_stream *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1) {
        return;
    }
    ps_shared_memory_unref(s->memory);
    if (s->shard != NULL) {
        ps_shard_unref(s->shard);
    }
    rpc_call_unref(s->call);
    free(s);
}

static void end(struct ps_record_stream *s)
{
    struct err err;
    (void)err_set(&err, ERR_NOT_FOUND, "closed");
    (void)ps_shard_wrap(s->shard, &err);
    (void)rpc_abandon(s->call, &err);
}

void ps_record_stream_begin(struct ps_record_stream *s)
{
    struct ps_shard *shard = s->shard;
    if (shard->let_go) {
        end(s);
        return;
    }
    s->next = shard->record_streams;
    s->link = &shard->record_streams;
    if (s->next != NULL) {
        s->next->link = &s->next;
    }
    shard->record_streams = s;
}

void ps_record_stream_unlink(struct ps_record_stream *s)
{
    if (s->link == NULL) {
        return;
    }
    *s->link = s->next;
    if (s->next != NULL) {
        s->next->link = s->link;
    }
    s->link = NULL;
}

void ps_record_streams_end(struct ps_shard *shard)
{
    while (shard->record_streams != NULL) {
        struct ps_record_stream *s = shard->record_streams;
        ps_record_stream_unlink(s);
        end(s);
    }
}

/* ---- what it says of itself ---- */

#define STREAMS_MAX 4 /* that begin anew without a receipt, and count as progress */

/* @s->standby is about another backup than before: its records are numbered anew. */
static void begin_about(struct ps_standby *said, uint64_t backup)
{
    if (said->backup != backup) {
        said->backup = backup;
        said->stream = said->received = 0;
        said->sent_number = said->sent_end = said->sent_ms = 0;
        said->begun = 0;
    }
}

void ps_standby_show(struct ps_shard *s, const struct shard_info *info, const char *problem,
                     uint64_t state_bytes)
{
    if (info->role == SHARD_ALONE && s->standby == NULL) {
        return;
    }
    pthread_mutex_lock(&s->standby_lock);
    if (s->standby == NULL) {
        s->standby = mem_new(1, sizeof *s->standby);
    }
    const bool new = info->follows && !s->standby->follows &&state_bytes > 0;
    begin_about(s->standby, info->role == SHARD_PRIMARY ? info->backup : 0);
    const bool joins = info->role == SHARD_PRIMARY && !info->follows && !info->closed;
    meter_change(s->ps->meters.joining, (double)joins - (double)s->standby->joins);
    s->standby->joins = joins;
    s->standby->role = info->role;
    s->standby->follows = info->follows;
    s->standby->state_bytes = state_bytes;
    s->standby->records = info->records;
    s->standby->begun = info->received > s->standby->received ? 0 : s->standby->begun;
    s->standby->received = info->received;
    s->standby->since_ms = info->unreceived_ms;
    s->standby->copies = s->slots_to != NULL;
    text_copy(s->standby->problem, sizeof s->standby->problem,
              info->broken != NULL ? info->broken->msg : problem);
    pthread_mutex_unlock(&s->standby_lock);
    if (new) {
        log_info("backup_follows", "job=%s shard=%" PRIu32 " bytes=%" PRIu64, s->job, s->number,
                 state_bytes);
    }
}

void ps_standby_get(struct ps_shard *s, struct ps_standby *out)
{
    *out = (struct ps_standby){.role = SHARD_ALONE};
    pthread_mutex_lock(&s->standby_lock);
    if (s->standby != NULL) {
        *out = *s->standby;
    }
    pthread_mutex_unlock(&s->standby_lock);
}

uint64_t ps_standby_begin(struct ps_shard *s)
{
    pthread_mutex_lock(&s->standby_lock);
    struct ps_standby *said = s->standby; /* shown before anything was connected */
    said->stream = ++said->streams;
    if (said->begun < STREAMS_MAX) {
        said->begun++;
        said->sent_number = said->sent_end = 0;
    }
    const uint64_t stream = said->stream;
    pthread_mutex_unlock(&s->standby_lock);
    return stream;
}

void ps_standby_sent(struct ps_shard *s, uint64_t stream, uint64_t number, uint64_t end)
{
    pthread_mutex_lock(&s->standby_lock);
    struct ps_standby *said = s->standby;
    const bool further =
        said != NULL && said->stream == stream &&
        (number > said->sent_number || (number == said->sent_number && end > said->sent_end));
    if (further) {
        said->sent_number = number;
        said->sent_end = end;
        said->sent_ms = chrono_now_ms();
    }
    pthread_mutex_unlock(&s->standby_lock);
}

void ps_standby_copied(struct ps_shard *s)
{
    pthread_mutex_lock(&s->standby_lock);
    if (s->standby != NULL) {
        s->standby->copies = false;
        s->standby->sent_ms = chrono_now_ms();
    }
    pthread_mutex_unlock(&s->standby_lock);
}

uint64_t ps_standby_waits_ms(const struct ps_standby *said)
{
    const uint64_t now_ms = chrono_now_ms();
    const uint64_t since_ms = said->sent_ms > said->since_ms ? said->sent_ms : said->since_ms;
    return said->since_ms == 0 || said->copies || now_ms <= since_ms ? 0 : now_ms - since_ms;
}

uint64_t ps_standby_state_sent(const struct ps_standby *said)
{
    uint64_t bytes = said->sent_number == 1 ? said->sent_end * sizeof(float) : 0;
    bytes =
        bytes < said->state_bytes ? bytes : said->state_bytes; /* with tables it is about that */
    return said->received > 0 || said->sent_number > 1 ? said->state_bytes : bytes;
}
