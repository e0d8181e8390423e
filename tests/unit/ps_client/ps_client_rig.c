/* SPDX-License-Identifier: Apache-2.0 */
/* How the worker's side is set up, asks and is answered. */
#include "ps_client_rig.h"

#include "support/wait_until.h"

enum value_type client_gradients, client_parameters;
struct rpc_polling *client_polling;

/* ---- set-up ---- */

static void on_answer(void *ctx, const struct ps_answer *answer)
{
    struct fake *f = ctx;
    pthread_mutex_lock(&f->lock);
    assert_true(f->answered < ANSWERS_MAX);
    f->answers[f->answered] = *answer;
    const struct exchange_decision *d = &answer->answer.decision;
    if (d->bytes > 0) {
        assert_true(d->bytes <= EXCHANGE_DECISION_BYTES_MAX);
        memcpy(f->decision, d->replicas, d->bytes);
        f->answers[f->answered].answer.decision.replicas = f->decision;
    }
    const struct exchange_sums *sums = &answer->answer.sums;
    if (sums->bytes > 0) {
        assert_true(sums->bytes <= sizeof f->sums);
        memcpy(f->sums, sums->data, sums->bytes);
    }
    f->answered++;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void on_filled(void *ctx, const struct ps_client_filled *answer)
{
    struct fake *f = ctx;
    pthread_mutex_lock(&f->lock);
    assert_true(f->filled_count < ANSWERS_MAX);
    f->filled[f->filled_count++] = *answer;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void make_plan(struct fake *f)
{
    struct variable_spec variables[2] = {0};
    text_copy(variables[0].name, sizeof variables[0].name, "kernel");
    variables[0].shape = (struct shape){.rank = 2, .dims = {ROWS, COLUMNS}};
    text_copy(variables[1].name, sizeof variables[1].name, "bias");
    variables[1].shape = (struct shape){.rank = 1, .dims = {BIASES}};
    struct cluster_spec cluster = {
        .ps = SHARDS, .workers = {1, 1}, .partitioner = PARTITIONER_FIXED, .partitions = 3};
    assert_int_equal(plan_make(variables, 2, &cluster, &f->plan, NULL), 0);
    f->offsets[0] = 0;
    f->offsets[1] = BIAS_AT;
}

void client_start_server(struct fake *f, const char *local, char path[LOCAL_SOCKET_BYTES])
{
    struct err err = {0};
    assert_true(f->port_count < FAKE_SERVERS_MAX);
    held_port_take(&f->ports[f->port_count]);
    const char *listen = f->ports[f->port_count++].address;
    struct rpc_server_options options = {.addresses = &listen, .address_count = 1};
    f->server = rpc_server_new(&options, &err);
    assert_non_null(f->server);
    assert_int_equal(rpc_server_add(f->server, &gradus__v1__parameter_server__descriptor,
                                    ps_fake_methods, ps_fake_method_count, f, &err),
                     0);
    assert_int_equal(rpc_server_bind(f->server, &err), 0);
    if (local != NULL) {
        assert_int_equal(local_socket_path(local, rpc_server_address(f->server, 0), path, &err), 0);
        assert_int_equal(local_socket_prepare(path, &err), 0);
        char *address = mem_printf("unix:%s", path);
        assert_int_equal(rpc_server_bind_also(f->server, address, &err), 0);
        assert_string_equal(rpc_server_address(f->server, 1), address);
        free(address);
    }
    assert_int_equal(rpc_server_start(f->server, &err), 0);
    assert_int_equal(rpc_server_bind_also(f->server, listen, &err), ERR_STATE);
}

struct placing {
    struct fake *f;
    uint32_t shard;
    struct ps_client_place place;
};

static void run_placing(void *ctx)
{
    struct placing *p = ctx;
    struct err err;
    assert_int_equal(ps_client_place(p->f->client, p->shard, &p->place, &err), 0);
}

void client_place(struct fake *f, uint32_t shard, const struct rpc_server *server, uint64_t opening)
{
    struct placing p = {f, shard, {rpc_server_address(server, 0), opening}};
    assert_int_equal(loop_call(f->loop, run_placing, &p, NULL), 0);
}

/* On the loop's thread, as a job does it. */
struct making {
    struct fake *f;
    const struct ps_client_options *options;
};

static void make_client(void *ctx)
{
    struct making *m = ctx;
    struct err err = {0};
    assert_int_equal(ps_client_new(m->options, &m->f->client, &err), 0);
}

void client_start_with(struct fake *f, size_t message_bytes_max, const char *local,
                       char path[LOCAL_SOCKET_BYTES])
{
    struct err err = {0};
    memset(f, 0, sizeof *f);
    f->result = GRADUS__V1__PUSH_RESULT__APPLIED;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    make_plan(f);
    for (uint32_t s = 0; s < SHARDS; s++) {
        f->shards[s] = mem_new(f->plan.shard_elements[s] + 1, sizeof(float));
    }
    f->gradient = mem_new(FLAT_COUNT, sizeof(float));
    f->values = mem_new(FLAT_COUNT, sizeof(float));
    for (size_t i = 0; i < FLAT_COUNT; i++) {
        f->gradient[i] = (float)i;
    }
    client_start_server(f, local, path);
    f->loop = loop_new(0);
    assert_int_equal(loop_start(f->loop, "job", &err), 0);
    struct ps_client_options client = {
        .job = "job-1",
        .worker = "worker-1",
        .plan = &f->plan,
        .variable_offsets = f->offsets,
        .message_bytes_max = message_bytes_max,
        .exchanges_max = EXCHANGES_MAX,
        .gradients_max = 1,
        .tables = ROW_TABLES,
        .gradients = client_gradients,
        .parameters = client_parameters,
        .local_sockets = local,
        .shared_memory = true,
        .polling = client_polling,
        .loop = f->loop,
        .answered = on_answer,
        .filled = on_filled,
        .ctx = f,
    };
    struct making making = {f, &client};
    assert_int_equal(loop_call(f->loop, make_client, &making, NULL), 0);
    for (uint32_t s = 0; s < SHARDS; s++) {
        client_place(f, s, f->server, OPENING);
    }
}

void client_start(struct fake *f, size_t message_bytes_max)
{
    client_start_with(f, message_bytes_max, NULL, NULL);
}

void client_finish(struct fake *f)
{
    loop_stop(f->loop);
    ps_client_cancel(f->client);
    loop_join(f->loop);
    ps_client_close(f->client);
    ps_client_wait_sent(f->client, 0);
    free(f->gradient); /* nobody reads it any more */
    loop_free(f->loop);
    ps_client_free(f->client);
    rpc_server_free(f->server);
    for (size_t i = 0; i < f->port_count; i++) {
        held_port_release(&f->ports[i]);
    }
    free(f->values);
    for (uint32_t s = 0; s < SHARDS; s++) {
        free(f->shards[s]);
        shared_memory_unref(f->shared_memory[s]);
        shared_memory_unref(f->tables_memory[s]);
    }
    plan_release(&f->plan);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

/* ---- exchanges ---- */

void client_run_ask(void *ctx)
{
    struct ask *a = ctx;
    struct fake *f = a->f;
    static const double norms[] = {1.5, 2.5};
    struct ps_client_request *r = &a->request;
    r->values = r->ask.has_pull || r->ask.kind == EXCHANGE_PINNED ? f->values : NULL;
    r->gradient = r->ask.has_push ? f->gradient : NULL;
    r->norms = norms;
    r->norm_count = r->ask.push.decided ? 2 : 0;
    ps_client_exchange(f->client, r);
}

void client_carry_out(struct fake *f, const struct ps_client_request *request)
{
    struct ask ask = {.f = f, .request = *request};
    /* What the test read of the last exchange it read before the server writes to it again. */
    pthread_mutex_lock(&f->lock);
    pthread_mutex_unlock(&f->lock);
    assert_int_equal(loop_call(f->loop, client_run_ask, &ask, NULL), 0);
}

void client_exchange(struct fake *f, uint64_t number, uint32_t shard, bool push, bool pull)
{
    const struct ps_client_request request = {
        .exchange = number,
        .shard = shard,
        .generation = 1,
        .ask = {.kind = EXCHANGE_TRAIN,
                .has_push = push,
                .push = {.examples = push ? 1 : 0},
                .has_pull = pull},
    };
    client_carry_out(f, &request);
}

void client_set_script(struct fake *f, enum script script)
{
    pthread_mutex_lock(&f->lock);
    f->script = script;
    pthread_mutex_unlock(&f->lock);
}

void client_set_result(struct fake *f, int32_t result)
{
    pthread_mutex_lock(&f->lock);
    f->result = result;
    pthread_mutex_unlock(&f->lock);
}

struct ps_answer client_next_answer(struct fake *f, uint64_t number)
{
    pthread_mutex_lock(&f->lock);
    wait_until_signalled(f->answered != 0, &f->changed, &f->lock);
    struct ps_answer answer = f->answers[0];
    f->answered--;
    memmove(f->answers, f->answers + 1, f->answered * sizeof answer);
    assert_true(answer.answer.decision.bytes == 0 || f->answered == 0);
    pthread_mutex_unlock(&f->lock);
    assert_int_equal(answer.exchange, number);
    return answer;
}

int client_rig_setup(void **state)
{
    (void)state;
    rpc_init();
    return 0;
}

int client_rig_teardown(void **state)
{
    (void)state;
    rpc_shutdown();
    return 0;
}
