/* SPDX-License-Identifier: Apache-2.0 */
/* Once both sides are warm, an exchange allocates nothing: server and worker's client in one
 * process, with every call of malloc() and its like from our own code counted (those inside gRPC
 * are not ours to count). */
#include "unit/ps/ps_rig.h"

#include <stdatomic.h>

#include "ps_client/ps_client.h"
#include "support/wait_until.h"

#define WARM 300
#define COUNTED 300
#define ROUNDS_MAX 5 /* while a busy machine still makes a pool grow, which is part of warming */

/* ---- the count: the linker sends our calls here ---- */

static atomic_bool counting;
static atomic_uint allocations;

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

static void note(void)
{
    if (atomic_load(&counting)) {
        atomic_fetch_add(&allocations, 1);
    }
}

void *__wrap_malloc(size_t n)
{
    note();
    return __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t n)
{
    note();
    return __real_calloc(count, n);
}

void *__wrap_realloc(void *p, size_t n)
{
    note();
    return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    note();
    return __real_aligned_alloc(align, n);
}

/* ---- a worker that steps ---- */

struct stepper {
    struct ps_client *client;
    float *gradient, *values;
    uint64_t step;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool over;
    int code;
};

static void step(void *ctx)
{
    struct stepper *s = ctx;
    const struct ps_client_request request = {
        .exchange = s->step + 1,
        .generation = 1,
        .ask = {.kind = EXCHANGE_TRAIN,
                .has_push = true,
                .push = {.step = s->step, .replica_end = 1, .examples = 10},
                .has_pull = true,
                .pull = {.kind = PULL_VERSION, .version = s->step + 1}},
        .values = s->values,
        .gradient = s->gradient,
    };
    ps_client_exchange(s->client, &request);
}

/* Are there more to come? Counts from the first warm one on, until a round allocates nothing. */
static bool goes_on(const struct stepper *s)
{
    if (s->step < WARM || (s->step - WARM) % COUNTED != 0) {
        return true;
    }
    if (s->step > WARM &&
        (atomic_load(&allocations) == 0 || s->step == WARM + (uint64_t)ROUNDS_MAX * COUNTED)) {
        atomic_store(&counting, false);
        return false;
    }
    atomic_store(&allocations, 0);
    atomic_store(&counting, true);
    return true;
}

static void answered(void *ctx, const struct ps_answer *a)
{
    struct stepper *s = ctx;
    s->step++;
    if (a->code == 0 && goes_on(s)) {
        step(s);
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->over = true;
    s->code = a->code;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Of the memory that worker and server share: one of each. */
static unsigned count_shared_memory(void)
{
    char line[512];
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        count += strstr(line, "gradus-shared") != NULL;
    }
    (void)fclose(maps);
    return count;
}

static void count(const char *training, enum value_type gradients, enum value_type parameters,
                  bool shared)
{
    static char job[] = "job-1";
    const uint64_t offsets[] = {0, ROWS * COLUMNS};
    struct ps_rig rig;
    struct plan plan;
    struct err err;
    atomic_store(&allocations, 0);
    ps_rig_start(&rig, 0);
    const struct ps_rig_opening opening = {.job = job,
                                           .rule = "momentum",
                                           .training = training,
                                           .generation = 1,
                                           .consistency = ps_rig_consistency("sync", 1)};
    if (ps_rig_open_as(&rig, &opening, NULL, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    ps_rig_plan(1, &plan);
    struct stepper s = {.gradient = mem_new(ELEMENTS, sizeof(float)),
                        .values = mem_new(ELEMENTS, sizeof(float))};
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.changed, NULL);
    struct loop *loop = loop_new(0);
    const struct ps_client_place place = {.address = rpc_server_address(rig.server, 0)};
    struct ps_client_options options = {.job = job,
                                        .worker = "w0",
                                        .plan = &plan,
                                        .variable_offsets = offsets,
                                        .exchanges_max = 2,
                                        .gradients_max = 1,
                                        .gradients = gradients,
                                        .parameters = parameters,
                                        .local_sockets = shared ? rig.local : NULL,
                                        .shared_memory = shared,
                                        .loop = loop,
                                        .answered = answered,
                                        .ctx = &s};
    assert_int_equal(ps_client_new(&options, &s.client, &err), 0);
    assert_int_equal(ps_client_place(s.client, 0, &place, &err), 0);
    assert_int_equal(loop_start(loop, "job", &err), 0);
    assert_int_equal(loop_post(loop, step, &s, &err), 0);
    pthread_mutex_lock(&s.lock);
    wait_until_signalled(s.over, &s.changed, &s.lock);
    pthread_mutex_unlock(&s.lock);
    assert_int_equal(s.code, 0);
    assert_int_equal(count_shared_memory(), shared ? 2 : 0);
    print_message("%u allocations in %d exchanges\n", atomic_load(&allocations), COUNTED);
    assert_int_equal(atomic_load(&allocations), 0);
    loop_stop(loop);
    loop_join(loop);
    ps_client_close(s.client);
    loop_free(loop);
    ps_client_free(s.client);
    plan_release(&plan);
    ps_rig_stop(&rig);
    free(s.gradient);
    free(s.values);
}

static void a_warm_exchange_allocates_nothing(void **state)
{
    (void)state;
    count(NULL, VALUE_FP32, VALUE_FP32, false);
}

static void nor_does_one_in_memory(void **state)
{
    (void)state;
    count(NULL, VALUE_FP32, VALUE_FP32, true);
}

static void nor_does_one_in_16_bits(void **state)
{
    (void)state;
    count(", wire: {gradients: bf16, parameters: fp16}", VALUE_BF16, VALUE_FP16, false);
}

int main(void)
{
    rpc_init();
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_warm_exchange_allocates_nothing),
                                       cmocka_unit_test(nor_does_one_in_memory),
                                       cmocka_unit_test(nor_does_one_in_16_bits)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
