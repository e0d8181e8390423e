/* SPDX-License-Identifier: Apache-2.0 */
/* The eras of a shard, and the update of each. */
#ifndef GRADUS_PS_RPC_PS_ERAS_H
#define GRADUS_PS_RPC_PS_ERAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradus/v1/ps.pb-c.h"
#include "job/plan/plan_update.h"
#include "job/progress/era.h"

struct ps_shard;

struct ps_era {
    char *text; /* the update section */
    struct update_spec spec;
    struct update *update;
};
struct ps_eras {
    struct ps_era *items; /* [count], at least one, in the order of versions */
    struct era *eras;     /* [count] as the core wants them */
    size_t count;
    bool needs_norms; /* one of them does, of pushes in other modes than sync */
};

/* Read @list; without any, the update section of the job's file is all. @out is overwritten.
 * Errors: ERR_INVALID, ERR_EXHAUSTED. */
int ps_eras_make(const struct ps_shard *s, Gradus__V1__Era *const *list, size_t count,
                 struct ps_eras *out, struct err *err);
void ps_eras_release(struct ps_eras *e); /* zeroed is fine */
/* They are those of the shard, which is at @version; moves from @from. Not in an update. */
void ps_eras_take(struct ps_shard *s, struct ps_eras *from, uint64_t version);
/* The next update is of era @era. */
void ps_era_of(struct ps_shard *s, size_t era);
uint32_t ps_eras_rounds(const struct ps_eras *e); /* at most, in a step of sync */
/* What the job's file says now. */
const struct update_spec *ps_newest_update(const struct ps_shard *s);

#endif
