/* SPDX-License-Identifier: Apache-2.0 */
/* All requests to a parameter server (proto/gradus/v1/ps.proto), one after the other on a server
 * with a small shard that is open: the codec, the handlers of services/ps/rpc with all that they
 * check (wire/wire_plan.c, wire_ledger.c, wire_exchange.c, ...), the core behind them, and
 * exchanges whose chunks come in any order. Without shared memory, and with checkpoints that cannot
 * be written.
 *
 * Input: a byte with the mode, one with the rule and what else the job has, one with the size of
 * slices; then calls (message.h). */
#include "fuzz/message.h"
#include "fuzz/plan_rig.h"
#include "fuzz/served.h"

#include <stdlib.h>
#include <string.h>

#include "ps/rpc/ps_shell.h"

#define HEAD_BYTES 3
#define METHODS_MAX 16

static struct served_method methods[METHODS_MAX];
static const ProtobufCMessageDescriptor *types[METHODS_MAX];
static unsigned method_count, open_method;
static struct ps *ps;

static void begin(void)
{
    static struct ps_options options = {.checkpoint_dir = "/proc/gradus",
                                        .shards_max = 4,
                                        .memory_bytes_max = 8 << 20,
                                        .gradient_bytes_max = 1 << 16,
                                        .chunk_bytes = 64,
                                        .apply_threads = 1};
    struct err err = {0};
    options.meters = meter_registry_new();
    ps = ps_new(&options, &err);
    fuzz_require(ps != NULL, "a server can be made");
    served_methods(&gradus__v1__parameter_server__descriptor, ps_methods, ps_method_count, ps,
                   methods, &method_count);
    for (unsigned i = 0; i < method_count; i++) {
        types[i] = methods[i].input;
        open_method = strcmp(methods[i].row->name, "OpenShard") == 0 ? i : open_method;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t n_max, unsigned seed)
{
    if (ps == NULL) {
        begin();
    }
    return fuzz_calls_mutate(types, method_count, plan_rig_words, HEAD_BYTES, data, n, n_max, seed);
}

static void open_shard(struct fuzz_input *in)
{
    static const char *const rules[] = {"sgd", "momentum", "adagrad", "adam"};
    struct buf request = {0};
    unsigned mode = fuzz_below(in, 3);
    uint8_t rule = fuzz_byte(in);
    const enum plan_rig_more more = (rule & 4) != 0    ? PLAN_RIG_CLIPS
                                    : (rule & 8) != 0  ? PLAN_RIG_TABLES
                                    : (rule & 16) != 0 ? PLAN_RIG_GIVEN
                                    : (rule & 32) != 0 ? PLAN_RIG_BACKUP
                                                       : PLAN_RIG_PLAIN;
    plan_rig_open(mode, rules[rule % 4], more, &request);
    fuzz_require(served_call(&methods[open_method], (const uint8_t *)request.data, request.len, 0),
                 "the first request is one");
    struct ps_shard *shards[PS_SHARDS_MAX];
    size_t count = ps_list(ps, NULL, shards);
    fuzz_require(count == 1, "a shard is open");
    ps_shard_unref(shards[0]);
    buf_release(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (ps == NULL) {
        begin();
    }
    struct fuzz_input in = {data, n};
    struct fuzz_call_bytes calls[FUZZ_CALLS_MAX];
    served_caller("", false);
    ps->closed = (struct shard_closed){0};
    open_shard(&in);
    size_t piece = fuzz_below(&in, 32);
    size_t count = fuzz_calls(in.data, in.n, method_count, calls);
    for (size_t i = 0; i < count; i++) {
        (void)served_call(&methods[calls[i].method], calls[i].data, calls[i].n, piece);
    }
    served_end();
    ps_drop(ps, NULL, 0);
    served_run();
    fuzz_require(!ps_lingers(ps), "nothing of a shard is left");
    return 0;
}
