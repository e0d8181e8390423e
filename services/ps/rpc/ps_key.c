/* SPDX-License-Identifier: Apache-2.0 */
/* Whether who reads or trains was sent by the job's master. It is asked when a stream says which
 * shard it is about, and for each unary call; a shard that was opened without a secret asks nobody.
 */
#include "auth/shard_key.h"
#include "ps/rpc/ps_shell.h"

void ps_make_key(struct ps_shard *s, const Gradus__V1__ShardRef *ref)
{
    const struct fence fence = ps_fence(ref);
    _Static_assert(sizeof fence.secret == SHARD_KEY_SECRET_BYTES, "a key is made of such a secret");
    shard_key(fence.secret, s->job, s->number, s->opening, s->key);
}

int ps_check_key(const struct ps_shard *s, const Gradus__V1__ShardRef *ref, struct rpc_call *call,
                 struct err *err)
{
    char shown[SHARD_KEY_BYTES + 1] = ""; /* one that is too long is cut to one that differs */
    const struct fence own = {.opening = s->opening}, asked = {.opening = ref->opening};
    if (s->key[0] == '\0') {
        return 0;
    }
    if (fence_check_opening(&own, &asked, err) != 0) { /* its key would be another one */
        return ps_shard_wrap(s, err);
    }
    bool sent = rpc_metadata(call, SHARD_KEY_HEADER, shown, sizeof shown);
    if (sent && shard_key_equal(shown, s->key)) {
        return 0;
    }
    struct err why;
    (void)err_set(&why, ERR_UNAUTHENTICATED,
                  sent ? "this is not the key that the job's master gives to its workers"
                       : "who reads or trains shows the key that the job's master gives to its "
                         "workers (" SHARD_KEY_HEADER "), and there is none");
    (void)ps_shard_wrap(s, &why);
    if (s->ps->refused != NULL) {
        s->ps->refused(s->ps->refused_ctx, call, s->job, &why);
    }
    return err_set(err, why.code, "%s", why.msg);
}
