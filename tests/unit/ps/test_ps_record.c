/* SPDX-License-Identifier: Apache-2.0 */
/* Record: what a backup makes of a stream of records that is not as it should be. */
#include "ps_rig.h"

#include <inttypes.h>

#include "ps/rpc/ps_shell.h"
#include "support/wait_until.h"

#define BACKUP UINT64_C(8)
#define CHANGES 200
#define AHEAD 50 /* more than there are copies of slots */

static char job[] = "a-1";
static uint8_t secret[] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 8, 7, 6, 5, 4, 3};
static float gradient[ELEMENTS];

/* A stream of records, and what came of it. */
struct says {
    struct rpc_stream *stream;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t receipts, received;
    bool over;
    struct err err;
};

static void on_receipt(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct says *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->receipts++;
    s->received = ((const Gradus__V1__RecordResponse *)msg->body)->received;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void on_over(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct says *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->over = true;
    s->err = status->err;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void says_begin(struct says *s, struct ps_rig *rig)
{
    static const struct rpc_stream_events events = {.message = on_receipt, .done = on_over};
    struct err err;
    const struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                        .method = "Record",
                                        .request_bulk = VALUES,
                                        .wait_for_ready = true};
    *s = (struct says){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    s->stream = rpc_stream_open(rig->channel, &request, &events, s, &err);
    assert_non_null(s->stream);
}

static void say(struct says *s, const Gradus__V1__RecordRequest *m, size_t floats)
{
    struct err err;
    struct rpc_piece piece = {gradient, floats * sizeof(float)};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    (void)rpc_stream_send(s->stream, &m->base, floats > 0 ? &blob : NULL, &err); /* or it is over */
}

/* Names the shard, and waits for what it has. */
static void greet(struct says *s, struct ps_rig *rig, uint64_t opening)
{
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    says_begin(s, rig);
    ref.opening = opening;
    ref.secret = (ProtobufCBinaryData){sizeof secret, secret};
    m.shard = &ref;
    say(s, &m, 0);
    pthread_mutex_lock(&s->lock);
    wait_until_signalled(s->receipts > 0 || s->over, &s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void wait_received(struct says *s, uint64_t receipts, uint64_t received)
{
    pthread_mutex_lock(&s->lock);
    wait_until_signalled(s->receipts == receipts || s->over, &s->changed, &s->lock);
    assert_int_equal(s->received, received);
    assert_false(s->over);
    pthread_mutex_unlock(&s->lock);
}

static uint64_t received(struct says *s)
{
    pthread_mutex_lock(&s->lock);
    const uint64_t n = s->received;
    ps_rig_expect(s->over ? s->err.code : 0, 0, &s->err, "");
    pthread_mutex_unlock(&s->lock);
    return n;
}

static void says_end(struct says *s)
{
    rpc_stream_cancel(s->stream);
    pthread_mutex_lock(&s->lock);
    wait_until_signalled(s->over, &s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    rpc_stream_free(s->stream);
}

/* It ends with this error. */
static void refused(struct says *s, int code, const char *words)
{
    pthread_mutex_lock(&s->lock);
    wait_until_signalled(s->over, &s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    ps_rig_expect(s->err.code, code, &s->err, words);
    rpc_stream_free(s->stream);
}

static struct ps_rig_opening opening(const char *rule, bool backup)
{
    return (struct ps_rig_opening){.job = job,
                                   .rule = rule,
                                   .generation = 1,
                                   .opening = BACKUP,
                                   .secret = {sizeof secret, secret},
                                   .is_backup = backup,
                                   .consistency = ps_rig_consistency("sync", 1)};
}

static void open_shard(struct ps_rig *rig, bool backup)
{
    const struct ps_rig_opening o = opening("sgd", backup);
    struct err err;
    ps_rig_expect(ps_rig_open_as(rig, &o, NULL, &err), 0, &err, "");
}

static int promote(struct ps_rig *rig, uint64_t generation, struct err *err)
{
    Gradus__V1__SetMembershipRequest q = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, generation);
    ref.opening = BACKUP;
    ref.secret = (ProtobufCBinaryData){sizeof secret, secret};
    q.shard = &ref;
    q.promote = true;
    return ps_rig_call(rig, "SetMembership", &q.base, NULL, 0, NULL, err);
}

static Gradus__V1__RecordRequest update(uint64_t number, uint64_t version,
                                        Gradus__V1__UpdateRecord *room)
{
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    gradus__v1__update_record__init(room);
    room->examples = 10;
    room->pushes = 1;
    m.number = number;
    m.generation = 1;
    m.version = version;
    m.what_case = GRADUS__V1__RECORD_REQUEST__WHAT_UPDATE;
    m.update = room;
    m.total = ELEMENTS;
    return m;
}

/* A whole one, in two messages. */
static void say_update(struct says *s, uint64_t number, uint64_t version, uint64_t generation)
{
    Gradus__V1__UpdateRecord room;
    Gradus__V1__RecordRequest m = update(number, version, &room);
    m.generation = generation;
    say(s, &m, ELEMENTS / 2);
    m.what_case = GRADUS__V1__RECORD_REQUEST__WHAT__NOT_SET;
    m.offset = ELEMENTS / 2;
    say(s, &m, ELEMENTS / 2);
}

static void each_record_counts_once(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct says s;
    struct err err;
    ps_rig_start(&rig, 0);
    open_shard(&rig, true);
    greet(&s, &rig, BACKUP);
    wait_received(&s, 1, 0);
    say_update(&s, 1, 0, 1);
    wait_received(&s, 2, 1);
    say_update(&s, 1, 0, 1); /* again */
    wait_received(&s, 3, 1);
    say_update(&s, 2, 1, 1);
    wait_received(&s, 4, 2);
    says_end(&s);
    greet(&s, &rig, BACKUP); /* after a break it says what it has */
    wait_received(&s, 1, 2);
    say_update(&s, 4, 3, 1);
    refused(&s, ERR_RANGE, "record 4, but the next one is 3");
    ps_rig_expect(promote(&rig, 2, &err), 0, &err, "");
    greet(&s, &rig, BACKUP);
    refused(&s, ERR_ABORTED, "this shard is a primary");
    ps_rig_stop(&rig);
}

static void strangers_are_refused(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct says s;
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    ps_rig_start(&rig, 0);
    says_begin(&s, &rig);
    say(&s, &m, 0);
    refused(&s, ERR_INVALID, "does not name a shard");
    greet(&s, &rig, BACKUP);
    refused(&s, ERR_NOT_FOUND, "not on this server");
    open_shard(&rig, true);
    greet(&s, &rig, BACKUP + 1);
    refused(&s, ERR_ABORTED, "");
    secret[0]++;
    greet(&s, &rig, BACKUP);
    secret[0]--;
    refused(&s, ERR_UNAUTHENTICATED, "");
    ps_rig_stop(&rig);
}

static void shards_that_are_no_backup_refuse(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct says s;
    ps_rig_start(&rig, 0);
    open_shard(&rig, false);
    greet(&s, &rig, BACKUP);
    refused(&s, ERR_ABORTED, "this shard is a primary");
    ps_rig_stop(&rig);
}

/* The shard is as it was: nothing of such a record is taken. */
static void what_is_no_record_is_refused(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct says s;
    struct err err;
    Gradus__V1__UpdateRecord room;
    ps_rig_start(&rig, 0);
    open_shard(&rig, true);

    greet(&s, &rig, BACKUP);
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    m.number = 1;
    say(&s, &m, 0);
    refused(&s, ERR_INVALID, "record 1 says nothing that this server knows");

    greet(&s, &rig, BACKUP);
    m = update(1, 0, &room);
    m.total = ELEMENTS + 1;
    say(&s, &m, 1);
    refused(&s, ERR_INVALID, "the shard has");

    greet(&s, &rig, BACKUP);
    m = update(1, 0, &room);
    m.offset = 1;
    say(&s, &m, ELEMENTS - 1);
    refused(&s, ERR_INVALID, "the next one is 0");

    greet(&s, &rig, BACKUP);
    m = update(1, 0, &room);
    say(&s, &m, 0);
    refused(&s, ERR_INVALID, "0 bytes of values");

    greet(&s, &rig, BACKUP);
    m = update(1, 0, &room);
    say(&s, &m, ELEMENTS / 2);
    m.number = 2;
    say(&s, &m, ELEMENTS / 2);
    refused(&s, ERR_INVALID, "record 2 before the end of record 1");

    greet(&s, &rig, BACKUP);
    m = update(1, 0, &room);
    say(&s, &m, ELEMENTS / 2);
    says_end(&s); /* half of one: its memory is free again */

    greet(&s, &rig, BACKUP);
    say_update(&s, 1, 0, 1);
    wait_received(&s, 2, 1);
    says_end(&s);
    ps_rig_expect(promote(&rig, 2, &err), 0, &err, "");
    ps_rig_stop(&rig);
}

/* From then on it is of no use. */
static void what_it_cannot_follow_breaks_it(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct says s;
    struct err err;
    Gradus__V1__UpdateRecord room;
    ps_rig_start(&rig, 0);
    open_shard(&rig, true);
    greet(&s, &rig, BACKUP);
    Gradus__V1__RecordRequest m = update(1, 0, &room);
    m.total = 0;
    say(&s, &m, 0);
    refused(&s, ERR_CORRUPT, "an update with 0 elements");
    greet(&s, &rig, BACKUP);
    refused(&s, ERR_CORRUPT, "does not follow any more");
    ps_rig_expect(promote(&rig, 2, &err), ERR_CORRUPT, &err, "this backup cannot be the primary");
    ps_rig_stop(&rig);
}

/* Record @number: a generation with another update section, which begins where the shard is. */
static void say_change(struct says *s, uint64_t number, uint64_t generation)
{
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    Gradus__V1__SetMembershipRequest q = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__Consistency c;
    Gradus__V1__Ledger l;
    Gradus__V1__Era era = GRADUS__V1__ERA__INIT, *eras[] = {&era};
    char *workers[] = {(char[]){"w0"}}, update[] = "update: {rule: adam, learning_rate: 0.5}\n";
    const struct ps_rig_opening o = opening("adam", true);
    struct ledger ledger;
    ps_rig_ledger(&o, &ledger);
    wire_consistency_to_proto(&o.consistency, &c);
    wire_ledger_to_proto(&ledger, &l);
    era.update = update;
    q.workers = workers;
    q.n_workers = 1;
    q.consistency = &c;
    q.ledger = &l;
    q.eras = eras;
    q.n_eras = 1;
    m.number = number;
    m.generation = generation;
    m.generation_next = generation + 1;
    m.what_case = GRADUS__V1__RECORD_REQUEST__WHAT_MEMBERSHIP;
    m.membership = &q;
    say(s, &m, 0);
    ledger_release(&ledger);
}

static void say_pin(struct says *s, uint64_t number, uint64_t generation, bool pins)
{
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    Gradus__V1__PinRequest q = GRADUS__V1__PIN_REQUEST__INIT;
    char id[32];
    (void)snprintf(id, sizeof id, "of %" PRIu64, generation);
    q.pin_id = id;
    q.slots = true;
    m.number = number;
    m.generation = generation;
    m.what_case =
        pins ? GRADUS__V1__RECORD_REQUEST__WHAT_PIN : GRADUS__V1__RECORD_REQUEST__WHAT_UNPIN;
    m.pin = &q;
    say(s, &m, 0);
}

/* A shard with slots, and three records for each of so many generations. */
struct changes {
    struct ps_rig rig;
    struct says says;
    struct ps_shard *shard;
    uint64_t said;
    struct strand_task task;
    pthread_t tester;
    atomic_uint runs;
    bool whole;
};

static void changes_begin(struct changes *c)
{
    struct err err;
    const struct ps_rig_opening o = opening("adam", true);
    const Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    *c = (struct changes){.tester = pthread_self()};
    ps_rig_start(&c->rig, 0);
    ps_rig_expect(ps_rig_open_as(&c->rig, &o, NULL, &err), 0, &err, "");
    c->shard = ps_find(c->rig.ps, &ref, &err);
    assert_non_null(c->shard);
    greet(&c->says, &c->rig, BACKUP);
    wait_received(&c->says, 1, 0);
}

static void changes_say(struct changes *c, uint64_t generation)
{
    say_change(&c->says, ++c->said, generation);
    say_pin(&c->says, ++c->said, generation + 1, true);
    say_pin(&c->says, ++c->said, generation + 1, false);
}

static void changes_end(struct changes *c)
{
    wait_until((ps_shard_wake(c->shard), received(&c->says)) == c->said);
    says_end(&c->says);
    ps_shard_unref(c->shard);
    ps_rig_stop(&c->rig);
}

/* The strand is at this while many records come. The values of the last one say that all have. */
static void run_busy(struct strand_task *task)
{
    struct changes *c = (struct changes *)((char *)task - offsetof(struct changes, task));
    if (pthread_equal(pthread_self(), c->tester)) { /* else it would be what reads them */
        for (uint64_t generation = 1; generation <= AHEAD; generation++) {
            changes_say(c, generation);
        }
        say_update(&c->says, ++c->said, 0, AHEAD + 1);
        wait_until(meter_value(c->rig.ps->meters.values_received) == ELEMENTS * sizeof(float));
        c->whole = true;
    }
    atomic_fetch_add(&c->runs, 1);
}

/* What a record needs it takes when it is its turn: those before it give it back. */
static void records_wait_for_their_turn(void **state)
{
    (void)state;
    struct changes c;
    changes_begin(&c);
    for (unsigned runs = 1; !c.whole; runs++) {
        (void)strand_post(&c.shard->strand, &c.task, run_busy);
        wait_until(atomic_load(&c.runs) == runs);
    }
    changes_end(&c);
}

/* Records are read while another thread takes those before them (for the thread sanitizer). */
static void records_are_read_while_eras_change(void **state)
{
    (void)state;
    struct changes c;
    changes_begin(&c);
    for (uint64_t generation = 1; generation <= CHANGES; generation++) {
        changes_say(&c, generation);
        ps_shard_wake(c.shard);
    }
    changes_end(&c);
}

#define STATE_FLOATS (3 * (uint64_t)ELEMENTS) /* with two slots */

/* A state of @records, in generation 2 at version 4, and @floats of it from @offset on. */
static void say_state(struct says *s, uint64_t records, uint64_t offset, size_t floats)
{
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    Gradus__V1__StateRecord st = GRADUS__V1__STATE_RECORD__INIT;
    Gradus__V1__SetMembershipRequest q = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__Consistency c;
    Gradus__V1__Ledger l;
    Gradus__V1__Era era = GRADUS__V1__ERA__INIT, *eras[] = {&era};
    char *workers[] = {(char[]){"w0"}}, section[] = "update: {rule: adam}\n";
    const struct ps_rig_opening o = opening("adam", true);
    struct ledger ledger;
    ps_rig_ledger(&o, &ledger);
    wire_consistency_to_proto(&o.consistency, &c);
    wire_ledger_to_proto(&ledger, &l);
    l.records = records;
    era.update = section;
    q.workers = workers;
    q.n_workers = 1;
    q.consistency = &c;
    q.ledger = &l;
    q.version = 4;
    q.eras = eras;
    q.n_eras = 1;
    st.present = &q;
    st.skipped = 3;
    m.number = 1;
    m.generation = 2;
    m.version = 4;
    m.total = STATE_FLOATS;
    m.offset = offset;
    if (offset == 0) {
        m.what_case = GRADUS__V1__RECORD_REQUEST__WHAT_STATE;
        m.state = &st;
    }
    say(s, &m, floats);
    ledger_release(&ledger);
}

static void open_joining(struct ps_rig *rig)
{
    struct ps_rig_opening o = opening("adam", true);
    struct err err;
    o.joins = true;
    ps_rig_expect(ps_rig_open_as(rig, &o, NULL, &err), 0, &err, "");
}

static void a_state_is_taken_as_a_whole(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct says s;
    struct err err;
    const size_t half = ELEMENTS / 2;
    const Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    ps_rig_start(&rig, 0);
    open_joining(&rig);
    greet(&s, &rig, BACKUP);
    wait_received(&s, 1, 0);
    for (size_t i = 0; i < ELEMENTS; i++) {
        gradient[i] = -1;
    }
    say_state(&s, 50, 0, ELEMENTS);
    say_state(&s, 50, ELEMENTS, half);
    says_end(&s); /* nothing of it counts */
    ps_rig_expect(promote(&rig, 3, &err), ERR_CORRUPT, &err, "has not received the shard's state");
    greet(&s, &rig, BACKUP);
    wait_received(&s, 1, 0);
    for (size_t i = 0; i < ELEMENTS; i++) {
        gradient[i] = (float)i;
    }
    say_state(&s, 50, 0, half); /* then a message with values and slots */
    say_state(&s, 50, half, ELEMENTS);
    say_state(&s, 50, half + ELEMENTS, ELEMENTS);
    say_state(&s, 50, half + 2 * (uint64_t)ELEMENTS, half);
    wait_received(&s, 2, 1);
    say_state(&s, 50, 0, 1); /* again: it has it */
    says_end(&s);
    ps_rig_expect(promote(&rig, 3, &err), 0, &err, "");
    struct ps_shard *shard = ps_find(rig.ps, &ref, &err);
    const float *values = shard->snapshots.present->values.data;
    for (size_t i = 0; i < half; i++) {
        const float first = (float)i, second = (float)(i + half);
        assert_memory_equal(&values[i], &first, sizeof first);
        assert_memory_equal(&values[i + half], &first, sizeof first);
        assert_memory_equal(&shard->slots[0].data[i], &second, sizeof second);
        assert_memory_equal(&shard->slots[0].data[i + half], &first, sizeof first);
        assert_memory_equal(&shard->slots[1].data[i], &second, sizeof second);
        assert_memory_equal(&shard->slots[1].data[i + half], &first, sizeof first);
    }
    assert_int_equal(shard->updates_skipped, 3);
    ps_shard_unref(shard);
    ps_rig_stop(&rig);
}

static void what_is_no_state_is_refused(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct says s;
    Gradus__V1__UpdateRecord room;
    Gradus__V1__StateRecord st = GRADUS__V1__STATE_RECORD__INIT;
    ps_rig_start(&rig, 0);
    open_joining(&rig);
    greet(&s, &rig, BACKUP);
    say_state(&s, 51, 0, ELEMENTS);
    refused(&s, ERR_INVALID, "a state of 51 records; this shard was opened with 50");

    greet(&s, &rig, BACKUP);
    Gradus__V1__RecordRequest m = update(1, 0, &room);
    m.what_case = GRADUS__V1__RECORD_REQUEST__WHAT_STATE;
    m.state = &st;
    say(&s, &m, ELEMENTS);
    refused(&s, ERR_INVALID, "a state without its generation");

    greet(&s, &rig, BACKUP);
    say_update(&s, 1, 0, 1);
    refused(&s, ERR_CORRUPT, "the first record is not the shard's state");
    ps_rig_stop(&rig);
}

/* One in the air does not keep its shard. */
static void streams_end_with_the_shard(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct says s;
    Gradus__V1__UpdateRecord room;
    ps_rig_start(&rig, 0);
    open_shard(&rig, true);
    greet(&s, &rig, BACKUP);
    Gradus__V1__RecordRequest m = update(1, 0, &room);
    say(&s, &m, ELEMENTS / 2);
    ps_drop(rig.ps, job, BACKUP);
    refused(&s, ERR_NOT_FOUND, "closed");
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_record_counts_once),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(shards_that_are_no_backup_refuse),
        cmocka_unit_test(what_is_no_record_is_refused),
        cmocka_unit_test(what_it_cannot_follow_breaks_it),
        cmocka_unit_test(records_wait_for_their_turn),
        cmocka_unit_test(records_are_read_while_eras_change),
        cmocka_unit_test(a_state_is_taken_as_a_whole),
        cmocka_unit_test(what_is_no_state_is_refused),
        cmocka_unit_test(streams_end_with_the_shard),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
