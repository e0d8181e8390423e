/* SPDX-License-Identifier: Apache-2.0 */
/* A shard on one server and its backup on another one, over real connections. */
#ifndef GRADUS_TESTS_PS_PAIR_H
#define GRADUS_TESTS_PS_PAIR_H

#define ROWS 5000
#define PS_RIG_SHARDS_MAX 2
#include "ps_rig.h"

#include "support/wait_until.h"

#define PRIMARY UINT64_C(7) /* openings */
#define BACKUP UINT64_C(8)

extern char ps_pair_job[];

struct ps_pair {
    struct ps_rig primary, backup;
    struct ps_rig_opening opening;
    char at[64];
    bool joins; /* the primary is opened without the backup */
};

/* Opens nothing yet. */
void ps_pair_start(struct ps_pair *p, const char *mode, const char *rule,
                   uint64_t memory_bytes_max);
int ps_pair_open_one(struct ps_pair *p, bool backup, struct err *err);
/* Both. */
void ps_pair_open(struct ps_pair *p);
void ps_pair_stop(struct ps_pair *p);

/* ---- calls to the shard of @opening at @rig ---- */

Gradus__V1__ShardRef ps_pair_ref(uint64_t opening, uint64_t generation);
/* From now on calls to @rig are those of worker "w0". */
void ps_pair_show_key(struct ps_rig *rig, uint64_t opening);
int ps_pair_push(struct ps_rig *rig, uint64_t opening, uint64_t generation, uint64_t step,
                 struct err *err);
void ps_pair_push_well(struct ps_rig *rig, uint64_t opening, uint64_t generation, uint64_t step);
/* The values of @pin_id, or (NULL) the newest, which are of version @version. */
void ps_pair_pull(struct ps_rig *rig, uint64_t opening, uint64_t generation, char *pin_id,
                  uint64_t version, float *out);
/* @backup_at: it keeps the backup, or has that one, which is there; NULL: none. */
int ps_pair_membership(struct ps_rig *rig, uint64_t opening, uint64_t generation, bool promote,
                       char *backup_at, struct err *err);
/* Of the primary, which has the backup @backup of that address. */
void ps_pair_membership_as(struct ps_rig *rig, uint64_t generation, char *backup_at,
                           uint64_t backup);
void ps_pair_membership_well(struct ps_rig *rig, uint64_t opening, uint64_t generation,
                             bool promote, char *backup_at);

/* ---- what a server says of its shards ---- */

struct ps_pair_seen {
    struct membership_shard held; /* the last one */
    char problem[256];
    size_t count;
};
struct ps_pair_seen ps_pair_look(struct ps_rig *rig);

#endif
