/* SPDX-License-Identifier: Apache-2.0 */
/* A backup on the host of its primary: gradients go to it in memory that both see. */
#include "ps_pair.h"

#include "host/shared_memory.h"
#include "ps/rpc/ps_standby.h"

static float got[ELEMENTS], expected[ELEMENTS];

static void pair_start(struct ps_pair *p, const char *mode, uint64_t memory_bytes_max)
{
    ps_pair_start(p, mode, "adam", memory_bytes_max);
    pthread_mutex_lock(&p->primary.ps->lock); /* its threads are there */
    p->primary.ps->local_sockets = mem_strdup(p->backup.local);
    pthread_mutex_unlock(&p->primary.ps->lock);
}

/* Both, and the primary has heard its backup: it knows whether that has opened the memory. */
static void pair_open(struct ps_pair *p)
{
    struct err err;
    ps_rig_expect(ps_pair_open_one(p, false, &err), 0, &err, "");
    wait_until(ps_pair_look(&p->primary).problem[0] != '\0');
    ps_rig_expect(ps_pair_open_one(p, true, &err), 0, &err, "");
    wait_until(ps_pair_look(&p->primary).problem[0] == '\0');
}

static uint32_t notes_read(struct ps_pair *p)
{
    const Gradus__V1__ShardRef ref = ps_pair_ref(BACKUP, 1);
    struct err err;
    struct ps_shard *s = ps_find(p->backup.ps, &ref, &err);
    assert_non_null(s);
    const uint32_t count = s->record_streams->hears.notes.count;
    ps_shard_unref(s);
    return count;
}

static double values_received(struct ps_pair *p)
{
    return meter_value(p->backup.ps->meters.values_received);
}

/* After @steps steps both have the same bits, also as the backup goes on. */
static void check_same(struct ps_pair *p, uint64_t steps)
{
    wait_until(ps_pair_look(&p->backup).held.records == steps);
    ps_pair_pull(&p->primary, PRIMARY, 1, NULL, steps, expected);
    ps_pair_membership_well(&p->backup, BACKUP, 2, true, NULL);
    ps_pair_pull(&p->backup, BACKUP, 2, NULL, steps, got);
    assert_memory_equal(got, expected, sizeof got);
    ps_pair_membership_well(&p->primary, PRIMARY, 2, false, NULL);
    ps_pair_push_well(&p->backup, BACKUP, 2, steps);
    ps_pair_push_well(&p->primary, PRIMARY, 2, steps);
    ps_pair_pull(&p->backup, BACKUP, 2, NULL, steps + 1, got);
    ps_pair_pull(&p->primary, PRIMARY, 2, NULL, steps + 1, expected);
    assert_memory_equal(got, expected, sizeof got);
}

#define STEPS 9

/* Blocks are used again. */
static void gradients_go_in_memory(const char *mode)
{
    struct ps_pair p;
    pair_start(&p, mode, 0);
    pair_open(&p);
    for (uint64_t step = 0; step < STEPS; step++) {
        ps_pair_push_well(&p.primary, PRIMARY, 1, step);
    }
    wait_until(ps_pair_look(&p.primary).held.received == STEPS);
    assert_true(values_received(&p) == 0);
    assert_int_equal(notes_read(&p), STEPS);
    assert_true(meter_value(p.primary.ps->meters.record_bytes) ==
                (double)STEPS * ELEMENTS * sizeof(float));
    check_same(&p, STEPS);
    ps_pair_stop(&p);
}

static void gradients_go_in_memory_in_sync(void **state)
{
    (void)state;
    gradients_go_in_memory("sync");
}

static void gradients_go_in_memory_in_async(void **state)
{
    (void)state;
    gradients_go_in_memory("async");
}

/* Either server may be told to share none. */
static void without_memory_they_go_through_the_socket(void **state)
{
    (void)state;
    for (int of_primary = 0; of_primary < 2; of_primary++) {
        struct ps_pair p;
        pair_start(&p, "sync", 0);
        (of_primary ? &p.primary : &p.backup)->ps->shared_memory = false;
        pair_open(&p);
        ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
        ps_pair_push_well(&p.primary, PRIMARY, 1, 1);
        wait_until(ps_pair_look(&p.primary).held.received == 2);
        assert_true(values_received(&p) == 2.0 * ELEMENTS * sizeof(float));
        check_same(&p, 2);
        ps_pair_stop(&p);
    }
}

/* A block counts: where the limit has no room for one more gradient, the reserved copy is sent. */
static void blocks_are_on_the_budget(void **state)
{
    (void)state;
    struct ps_pair p;
    pair_start(&p, "sync", 0);
    pair_open(&p);
    const uint64_t before = atomic_load(&p.primary.ps->budget.bytes);
    ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
    wait_until(ps_pair_look(&p.primary).held.received == 1);
    assert_int_equal(atomic_load(&p.primary.ps->budget.bytes), before + ELEMENTS * sizeof(float));
    check_same(&p, 1);
    /* it has no backup any more */
    wait_until(atomic_load(&p.primary.ps->budget.bytes) < before);
    ps_pair_stop(&p);

    pair_start(&p, "sync", before + ELEMENTS * sizeof(float) / 2);
    pair_open(&p);
    ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
    wait_until(ps_pair_look(&p.primary).held.received == 1);
    assert_int_equal(atomic_load(&p.primary.ps->budget.bytes), before);
    assert_true(values_received(&p) == (double)ELEMENTS * sizeof(float));
    check_same(&p, 1);
    ps_pair_stop(&p);
}

/* ---- a primary that says anything ---- */

struct says {
    struct shared_memory *memory;
    struct shared_notes notes;
    struct rpc_stream *stream;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t receipts, received;
    bool opened, over;
    struct err err;
};

static void on_receipt(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct says *s = ctx;
    const Gradus__V1__RecordResponse *m = (const Gradus__V1__RecordResponse *)msg->body;
    pthread_mutex_lock(&s->lock);
    s->receipts++;
    s->received = m->received;
    s->opened |= m->shared_memory_open != 0;
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

static void wait_receipts(struct says *s, uint64_t receipts)
{
    pthread_mutex_lock(&s->lock);
    wait_until_signalled(s->receipts == receipts || s->over, &s->changed, &s->lock);
    ps_rig_expect(s->over ? s->err.code : 0, 0, &s->err, "");
    pthread_mutex_unlock(&s->lock);
}

/* Offers memory of @elements. */
static void greet(struct says *s, struct ps_rig *rig, uint64_t elements)
{
    static const struct rpc_stream_events events = {.message = on_receipt, .done = on_over};
    struct err err;
    const struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                        .method = "Record",
                                        .request_bulk = VALUES,
                                        .wait_for_ready = true};
    *s = (struct says){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    assert_int_equal(shared_memory_new(elements, &s->memory, &err), 0);
    s->notes = (struct shared_notes){.memory = shared_memory_notes(s->memory)};
    struct ps_near near = {.memory = s->memory};
    Gradus__V1__SharedMemory offer;
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_pair_ref(BACKUP, 1);
    ps_near_offer(&near, &offer);
    m.shard = &ref;
    m.shared_memory = &offer;
    s->stream = rpc_stream_open(rig->channel, &request, &events, s, &err);
    assert_non_null(s->stream);
    assert_int_equal(rpc_stream_send(s->stream, &m.base, NULL, &err), 0);
    wait_receipts(s, 1);
}

/* The update of step @number - 1, in @block. */
static void fill_update(Gradus__V1__RecordRequest *m, Gradus__V1__UpdateRecord *update,
                        uint64_t number, uint32_t block)
{
    m->number = number;
    m->generation = 1;
    m->version = number - 1;
    m->total = ELEMENTS;
    m->gradient_block = block;
    m->what_case = GRADUS__V1__RECORD_REQUEST__WHAT_UPDATE;
    m->update = update;
    update->examples = 1;
    update->pushes = 1;
}

/* @floats come with it. */
static void say_block(struct says *s, uint64_t number, uint32_t block, size_t floats)
{
    struct err err;
    struct rpc_piece piece = {got, floats * sizeof(float)};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    Gradus__V1__UpdateRecord update = GRADUS__V1__UPDATE_RECORD__INIT;
    fill_update(&m, &update, number, block);
    (void)rpc_stream_send(s->stream, &m.base, floats > 0 ? &blob : NULL, &err); /* or it is over */
}

static void says_end(struct says *s, int code, const char *words)
{
    if (code == 0) {
        rpc_stream_cancel(s->stream);
    }
    pthread_mutex_lock(&s->lock);
    wait_until_signalled(s->over, &s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    if (code != 0) {
        ps_rig_expect(s->err.code, code, &s->err, words);
    }
    rpc_stream_free(s->stream);
    shared_memory_unref(s->memory);
}

/* The same in a note, of @total elements. */
static bool note_of(struct says *s, uint64_t number, uint32_t block, uint64_t total)
{
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    Gradus__V1__UpdateRecord update = GRADUS__V1__UPDATE_RECORD__INIT;
    struct ps_note n;
    fill_update(&m, &update, number, block);
    m.total = total;
    n.bytes = (uint32_t)gradus__v1__record_request__pack(&m, n.message);
    return shared_notes_put(&s->notes, &n, sizeof n);
}

static bool note(struct says *s, uint64_t number, uint32_t block)
{
    return note_of(s, number, block, ELEMENTS);
}

static uint32_t take(struct says *s)
{
    uint32_t block = SHARED_MEMORY_NONE;
    wait_until((block = shared_memory_take_gradient(s->memory)) != SHARED_MEMORY_NONE);
    for (size_t i = 0; i < ELEMENTS; i++) {
        shared_memory_gradient(s->memory, block)[i] = (float)(i % 17);
    }
    return block + 1;
}

static void other_blocks_are_refused(void **state)
{
    (void)state;
    struct ps_pair p;
    struct says s;
    struct err err;
    ps_pair_start(&p, "sync", "sgd", 0);
    ps_rig_expect(ps_pair_open_one(&p, true, &err), 0, &err, "");
    greet(&s, &p.backup, ELEMENTS); /* over TCP */
    assert_false(s.opened);
    say_block(&s, 1, take(&s), 0);
    says_end(&s, ERR_INVALID, "gradient block 1 is not open, or in use");
    ps_rig_go_local(&p.backup);
    greet(&s, &p.backup, ELEMENTS + 1);
    assert_false(s.opened);
    says_end(&s, 0, "");
    greet(&s, &p.backup, ELEMENTS);
    assert_true(s.opened);
    say_block(&s, 1, 1, 0); /* nobody has filled it */
    says_end(&s, ERR_INVALID, "gradient block 1 is not open, or in use");
    greet(&s, &p.backup, ELEMENTS);
    say_block(&s, 1, take(&s), 3);
    says_end(&s, ERR_INVALID, "record 1 names a block, but");
    greet(&s, &p.backup, ELEMENTS);
    for (uint64_t number = 1; number <= STEPS; number++) { /* more than there are blocks */
        say_block(&s, number, take(&s), 0);
    }
    wait_receipts(&s, 1 + STEPS);
    assert_int_equal(s.received, STEPS);
    say_block(&s, STEPS, take(&s), 0); /* it has that one, and gives the block back */
    wait_receipts(&s, 2 + STEPS);
    assert_int_equal(s.received, STEPS);
    for (int i = 0; i < 2 * STEPS; i++) {
        shared_memory_return_gradient(s.memory, take(&s) - 1);
    }
    says_end(&s, 0, "");
    assert_int_equal(ps_pair_look(&p.backup).held.records, STEPS);
    ps_pair_stop(&p);
}

static void other_notes_are_refused(void **state)
{
    (void)state;
    struct ps_pair p;
    struct says s;
    struct err err;
    ps_pair_start(&p, "sync", "sgd", 0);
    ps_rig_expect(ps_pair_open_one(&p, true, &err), 0, &err, "");
    ps_rig_go_local(&p.backup);
    greet(&s, &p.backup, ELEMENTS);
    assert_true(note(&s, 1, 1)); /* nobody has filled the block */
    says_end(&s, ERR_INVALID, "gradient block 1 is not open, or in use");
    greet(&s, &p.backup, ELEMENTS);
    assert_true(note_of(&s, 1, take(&s), ELEMENTS - 1));
    says_end(&s, ERR_INVALID, "record 1 has 300059 elements, in a note");
    greet(&s, &p.backup, ELEMENTS);
    assert_true(note_of(&s, 1, 0, ELEMENTS)); /* values that are nowhere */
    says_end(&s, ERR_INVALID, "record 1 has 300060 elements, in a note");
    for (uint32_t bytes = 3; bytes < 2 * SHARED_NOTE_BYTES; bytes += SHARED_NOTE_BYTES) {
        struct ps_note nonsense = {.bytes = bytes};
        memset(nonsense.message, 0xff, sizeof nonsense.message);
        greet(&s, &p.backup, ELEMENTS);
        assert_true(shared_notes_put(&s.notes, &nonsense, sizeof nonsense));
        says_end(&s, ERR_INVALID, "bytes that is no record");
    }
    greet(&s, &p.backup, ELEMENTS);
    assert_true(note(&s, 2, take(&s)));
    says_end(&s, ERR_RANGE, "record 2, but the next one is 1");
    greet(&s, &p.backup, ELEMENTS);
    for (uint64_t number = 1; number <= STEPS; number++) {
        const uint32_t block = take(&s);
        wait_until(note(&s, number, block));
    }
    wait_until(shared_notes_word(&s.notes) == STEPS);
    wait_until(ps_pair_look(&p.backup).held.records == STEPS); /* it says so before it is done */
    says_end(&s, 0, "");
    greet(&s, &p.backup, ELEMENTS);
    assert_int_equal(s.received, STEPS);
    assert_true(note(&s, STEPS, take(&s))); /* once more */
    wait_until(shared_notes_word(&s.notes) == STEPS);
    ps_pair_membership_well(&p.backup, BACKUP, 2, true, NULL);
    assert_true(note(&s, STEPS + 1, take(&s))); /* it is a primary now */
    says_end(&s, ERR_ABORTED, "this shard is a primary");
    ps_pair_stop(&p);
}

/* A backup with memory for one gradient, which somebody has, and a note that waits for it. */
struct full {
    struct ps_pair pair;
    struct says says;
    struct ps_shard *shard;
    struct buffer *buffer;
    uint32_t block; /* of the note */
};

static void full_begin(struct full *f)
{
    struct err err;
    struct gradient_wait waiter = {0};
    const Gradus__V1__ShardRef ref = ps_pair_ref(BACKUP, 1);
    *f = (struct full){.buffer = NULL};
    ps_pair_start(&f->pair, "async", "sgd", 0);
    ps_rig_stop(&f->pair.backup);
    ps_rig_start_full(&f->pair.backup, 0, floats_bytes_max(ELEMENTS), 0);
    ps_rig_expect(ps_pair_open_one(&f->pair, true, &err), 0, &err, "");
    ps_rig_go_local(&f->pair.backup);
    f->shard = ps_find(f->pair.backup.ps, &ref, &err);
    assert_int_equal(gradient_pool_get(&f->shard->gradients, &waiter, &f->buffer, &err), 0);
    greet(&f->says, &f->pair.backup, ELEMENTS);
    f->block = take(&f->says);
    assert_true(note(&f->says, 1, f->block));
    wait_until(meter_value(f->pair.backup.ps->gradient_memory.waits) == 1);
}

static void full_end(struct full *f)
{
    ps_shard_unref(f->shard);
    ps_pair_stop(&f->pair); /* which finds memory that was not given back */
}

/* Gradients of notes wait for memory like others. */
static void notes_wait_for_memory(void **state)
{
    (void)state;
    struct full f;
    full_begin(&f);
    buffer_put(f.buffer);
    wait_until(shared_notes_word(&f.says.notes) == 0 &&
               ps_pair_look(&f.pair.backup).problem[0] != '\0');
    says_end(&f.says, ERR_CORRUPT, "which are not the next ones"); /* it names no batches */
    full_end(&f);
}

/* The stream ends while one waits. */
static void who_waits_for_memory_goes(void **state)
{
    (void)state;
    struct full f;
    full_begin(&f);
    says_end(&f.says, 0, "");
    ps_wait_threads(f.pair.backup.ps);
    buffer_put(f.buffer);
    assert_int_equal(ps_pair_look(&f.pair.backup).held.records, 0);
    full_end(&f);
}

/* The stream ends while the memory is granted. */
static void what_is_granted_too_late_goes_back(void **state)
{
    (void)state;
    struct full f;
    full_begin(&f);
    rpc_stream_cancel(f.says.stream);
    buffer_put(f.buffer);
    says_end(&f.says, 0, "");
    full_end(&f);
}

/* Its primary has taken the block back. */
static void what_is_granted_for_nothing_goes_back(void **state)
{
    (void)state;
    struct full f;
    full_begin(&f);
    shared_memory_return_gradient(f.says.memory, f.block - 1);
    buffer_put(f.buffer);
    says_end(&f.says, ERR_INVALID, "is not open, or in use");
    full_end(&f);
}

#define WORKERS 4

struct pushing {
    struct ps_pair *pair;
    _Atomic uint64_t generation;
};

/* Pushes of a generation that is over are pushed again in the next one. */
static void *push_many(void *ctx)
{
    struct pushing *all = ctx;
    for (uint64_t step = 0; step < 2 * (uint64_t)STEPS;) {
        struct err err;
        const uint64_t generation = atomic_load(&all->generation);
        const int rc = ps_pair_push(&all->pair->primary, PRIMARY, generation, step, &err);
        step += rc == 0;
        ps_rig_expect(rc == ERR_ABORTED ? 0 : rc, 0, &err, "");
    }
    return NULL;
}

/* Its record is too long for a note. */
static void begin_generation(struct ps_pair *p, uint64_t generation)
{
    char names[WORKERS][101] = {"w0"};
    char *workers[WORKERS];
    struct err err;
    Gradus__V1__SetMembershipRequest q = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__ShardLocation backup = GRADUS__V1__SHARD_LOCATION__INIT;
    Gradus__V1__ShardRef ref = ps_pair_ref(PRIMARY, generation);
    for (int i = 0; i < WORKERS; i++) {
        memset(names[i], 'a' + i, i == 0 ? 0 : sizeof names[i] - 1);
        workers[i] = names[i];
    }
    backup.opening = BACKUP;
    q.shard = &ref;
    q.workers = workers;
    q.n_workers = WORKERS;
    q.backup = &backup;
    ps_rig_expect(ps_rig_call(&p->primary, "SetMembership", &q.base, NULL, 0, NULL, &err), 0, &err,
                  "");
}

static void pin(struct ps_pair *p, const char *method, int number, uint64_t generation)
{
    char id[16];
    struct err err;
    Gradus__V1__PinRequest q = GRADUS__V1__PIN_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_pair_ref(PRIMARY, generation);
    (void)snprintf(id, sizeof id, "pin-%d", number);
    q.shard = &ref;
    q.pin_id = id;
    q.slots = true;
    ps_rig_expect(ps_rig_call(&p->primary, method, &q.base, NULL, 0, NULL, &err), 0, &err, "");
}

/* What goes in messages neither overtakes notes nor is overtaken. */
static void notes_and_messages_come_in_order(void **state)
{
    (void)state;
    struct ps_pair p;
    pthread_t pusher;
    pair_start(&p, "sync", 0);
    pair_open(&p);
    struct pushing all = {&p, 1};
    ps_pair_show_key(&p.primary, PRIMARY); /* that of both threads */
    assert_int_equal(pthread_create(&pusher, NULL, push_many, &all), 0);
    for (int i = 0; i < STEPS; i++) {
        const uint64_t generation = 2 + (uint64_t)i;
        begin_generation(&p, generation);
        atomic_store(&all.generation, generation);
        pin(&p, "Pin", i, generation);
        pin(&p, "Unpin", i, generation);
    }
    assert_int_equal(pthread_join(pusher, NULL), 0);
    pin(&p, "Pin", 100, 1 + STEPS); /* nothing else comes along */
    wait_until(ps_pair_look(&p.primary).held.received == 1 + 5 * (uint64_t)STEPS);
    assert_string_equal(ps_pair_look(&p.backup).problem, "");
    assert_int_equal(notes_read(&p), 1 + 4 * STEPS);
    ps_pair_pull(&p.primary, PRIMARY, 1 + STEPS, NULL, 2 * (uint64_t)STEPS, expected);
    ps_pair_membership_well(&p.backup, BACKUP, 2 + STEPS, true, NULL);
    ps_pair_pull(&p.backup, BACKUP, 2 + STEPS, NULL, 2 * (uint64_t)STEPS, got);
    assert_memory_equal(got, expected, sizeof got);
    ps_pair_stop(&p);
}

struct breaking {
    struct strand_task task; /* the first member */
    struct ps_shard *shard;
    atomic_bool done;
};

static void run_break(struct strand_task *task)
{
    struct breaking *b = (struct breaking *)(void *)task;
    struct err err;
    (void)err_set(&err, ERR_UNAVAILABLE, "broken");
    for (struct ps_record_stream *s = b->shard->record_streams; s != NULL; s = s->next) {
        (void)rpc_fail(s->call, &err);
    }
    atomic_store(&b->done, true);
}

static void break_streams(struct ps_pair *p)
{
    const Gradus__V1__ShardRef ref = ps_pair_ref(BACKUP, 1);
    struct err err;
    struct breaking b = {.shard = ps_find(p->backup.ps, &ref, &err)};
    assert_non_null(b.shard);
    (void)strand_post(&b.shard->strand, &b.task, run_break);
    wait_until(atomic_load(&b.done));
    ps_shard_unref(b.shard);
}

/* The connection breaks, and all goes on over the next one, with other memory. */
static void another_stream_has_other_memory(void **state)
{
    (void)state;
    struct ps_pair p;
    pair_start(&p, "sync", 0);
    pair_open(&p);
    for (uint64_t step = 0; step < STEPS; step++) {
        ps_pair_push_well(&p.primary, PRIMARY, 1, step);
        break_streams(&p);
    }
    wait_until(ps_pair_look(&p.primary).held.received == STEPS);
    check_same(&p, STEPS);
    ps_pair_stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_go_in_memory_in_sync),
        cmocka_unit_test(gradients_go_in_memory_in_async),
        cmocka_unit_test(without_memory_they_go_through_the_socket),
        cmocka_unit_test(blocks_are_on_the_budget),
        cmocka_unit_test(other_blocks_are_refused),
        cmocka_unit_test(other_notes_are_refused),
        cmocka_unit_test(notes_wait_for_memory),
        cmocka_unit_test(who_waits_for_memory_goes),
        cmocka_unit_test(what_is_granted_too_late_goes_back),
        cmocka_unit_test(what_is_granted_for_nothing_goes_back),
        cmocka_unit_test(notes_and_messages_come_in_order),
        cmocka_unit_test(another_stream_has_other_memory),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
