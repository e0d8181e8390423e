/* SPDX-License-Identifier: Apache-2.0 */
/* The shards of a job and their backups: where they are, and what becomes of them when a server is
 * lost. */
#ifndef GRADUS_MASTER_CORE_JOB_SHARD_H
#define GRADUS_MASTER_CORE_JOB_SHARD_H

#include "master/core/job.h"

/* The node has opened the shard; the job gives the shard up, and the node is returned (NULL: it is
 * gone). */
void shard_opened(struct shard_state *s);
struct node *shard_give_up(struct shard_state *s);
bool job_has_primary_on(const struct job *j, const struct node *n);
bool job_has_shard_on(const struct job *j, const struct node *n); /* or the backup of one */
bool job_has_opening(const struct job *j, const struct node *n, uint64_t opening);
void standby_place(struct job *j); /* each shard has a server: chooses those of the backups */
/* Shards of @j, which runs, that should have a backup, and have none that can take over. */
size_t standby_missing(const struct job *j);
void standby_show(struct job *j); /* the record says where shards and backups are */
/* The backup's server has opened it; its primary has taken the generation that names it. */
void standby_opened(struct job *j, uint32_t shard);
void standby_taken(struct job *j, uint32_t shard);
/* The next one is not looked for at once: the last did not come to follow, says @why. */
void standby_back_off(const struct master *m, struct job *j, uint32_t shard, const char *why);
/* The backup, which there is, is closed and none any more. */
void standby_close(struct master *m, struct job *j, uint32_t shard);
/* The job is to have no backups any more: its shards hear of that with the next generation. */
void standby_none(struct master *m, struct job *j);
void shards_ask(struct master *m, struct job *j); /* asks the servers for shards and backups */
/* The shard goes on without its backup, when it has been told, if it knew of it; a job that starts
 * begins again. False: neither is possible now. */
bool standby_drop(struct master *m, struct job *j, uint32_t shard, const char *why);
/* standby_join.c: new backups of a job that runs */
void standby_refill(struct master *m, struct job *j); /* if it is time for that */
/* A shard is to have one: by the job's file, or because its server drains. */
bool standby_is_wanted(const struct job *j, size_t shard);
/* There is a server that may have it now. */
bool standby_may_have_place(const struct master *m, const struct job *j, size_t shard);
bool standby_has_place(const struct master *m, const struct job *j, size_t shard);
bool standby_is_calm(const struct job *j); /* it runs, and nothing of it is about to change */
/* True: all that were asked for are open, and are named in the next generation. */
bool standby_names(struct master *m, struct job *j);
void standby_open_refused(struct master *m, struct job *j, uint32_t shard, const char *why);
/* The primary refuses the generation that names its new backup: it hears of the same without.
 * @again: an earlier attempt may be taken yet, so the next generation says it, too. False: it was
 * not for that. */
bool standby_not_taken(struct master *m, struct job *j, uint32_t shard, bool again,
                       const char *why);

bool standby_covers(const struct job *j, const struct node *n); /* @j can do without @n */
/* Their backups take the shards of @n over, and what was asked of @n is asked of them. False: not
 * all have one, or the job does not stand; then nothing has changed. */
bool standby_takes_over(struct master *m, struct job *j, const struct node *n, const char *why);
/* @n says that it does not have the shard: the same, or, where not all that it has has a backup
 * that can take over, of this shard alone. */
bool standby_takes_shard(struct master *m, struct job *j, const struct node *n, uint32_t shard,
                         const char *why);
/* The backup, which can take over, does so although the shard lives, which is closed. */
void standby_moves(struct master *m, struct job *j, uint32_t shard);
/* The server is gone, or has lost its shard: backups take over, or the job goes back. */
void job_ps_lost(struct master *m, struct job *j, struct node *n, const char *why);
/* What @n says of the shard of @opening. */
void standby_said(struct master *m, struct job *j, const struct node *n, uint64_t opening,
                  const struct master_standby_said *said);
/* Notes which of its shards @n does not name any more. False: one was given up for that. */
bool shards_compare(struct master *m, struct job *j, struct node *n,
                    bool (*names)(const void *said, const struct job *j, uint64_t opening),
                    const void *said);

#endif
