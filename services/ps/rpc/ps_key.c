/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that the job's master has sent a caller that reads or trains, under the name that it has.
 * A stream is asked when it says which shard it is about, and each unary call; a shard that was
 * opened without a secret asks nobody. */
#include <string.h>

#include "auth/shard_key.h"
#include "base/text.h"
#include "ps/rpc/ps_shell.h"
#include "wire/wire.h"

struct fence ps_fence(const Gradus__V1__ShardRef *ref)
{
    return wire_fence_from_proto(ref->opening, &ref->secret);
}

void ps_keep_secret(struct ps_shard *s, const Gradus__V1__ShardRef *ref)
{
    const struct fence fence = ps_fence(ref);
    _Static_assert(sizeof fence.secret == SHARD_KEY_SECRET_BYTES, "a key is made of such a secret");
    memcpy(s->secret, fence.secret, sizeof s->secret);
}

bool ps_has_secret(const struct ps_shard *s)
{
    static const uint8_t none[SHARD_KEY_SECRET_BYTES];
    return memcmp(s->secret, none, sizeof none) != 0;
}

int ps_refuse(const struct ps_shard *s, struct rpc_call *call, struct err *err)
{
    (void)ps_shard_wrap(s, err);
    if (s->ps->refused != NULL) {
        s->ps->refused(s->ps->refused_ctx, call, s->job, err);
    }
    return err->code;
}

/* Errors: ERR_PERMISSION a reader that does not read. */
static int check_reader(const struct ps_shard *s, const char *worker, bool reads,
                        struct rpc_call *call, struct err *err)
{
    if (reads || strcmp(worker, SHARD_READER) != 0) {
        return 0;
    }
    (void)err_set(err, ERR_PERMISSION,
                  "who reads a job that runs may read (ParameterServer.Read), and nothing else");
    return ps_refuse(s, call, err);
}

int ps_check_key(const struct ps_shard *s, const Gradus__V1__ShardRef *ref, const char *worker,
                 bool reads, struct rpc_call *call, struct err *err)
{
    uint8_t secret[SHARD_KEY_SECRET_BYTES];
    char key[SHARD_KEY_BYTES], name[SHARD_WORKER_BYTES + 1];
    char shown[SHARD_KEY_BYTES + 1] = ""; /* a key that is too long is cut, and so differs */
    const struct fence own = {.opening = s->opening}, asked = {.opening = ref->opening};
    if (!ps_has_secret(s)) {
        return 0;
    }
    if (fence_check_opening(&own, &asked, err) != 0) {
        /* with another opening its key would be another one */
        return ps_shard_wrap(s, err);
    }
    shard_worker_secret(s->secret, worker, secret);
    shard_key(secret, s->job, s->number, s->opening, key);
    bool sent = rpc_metadata(call, SHARD_KEY_HEADER, shown, sizeof shown);
    if (sent && shard_key_equal(shown, key)) {
        return check_reader(s, worker, reads, call, err);
    }
    if (sent) {
        (void)err_set(err, ERR_UNAUTHENTICATED,
                      "this is not the key that the job's master gives to its worker %s",
                      text_shown(worker, name, sizeof name));
    } else {
        (void)err_set(err, ERR_UNAUTHENTICATED,
                      "who reads or trains shows the key that the job's master gives to its "
                      "workers (" SHARD_KEY_HEADER "), and there is none");
    }
    return ps_refuse(s, call, err);
}
