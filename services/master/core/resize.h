/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that are to run with another number of parameter servers (cluster.ps): resize.c says how,
 * resize_due.c when. */
#ifndef GRADUS_MASTER_CORE_RESIZE_H
#define GRADUS_MASTER_CORE_RESIZE_H

#include "master/core/job.h"

bool resize_is_wanted(const struct job *j); /* it runs, with another number than its file says */
/* Servers on which it could run, those that it has among them. */
size_t resize_servers(const struct master *m, const struct job *j);
/* Its nodes are about to be told to drop it, and are kept for it; are not kept any more. */
void resize_keep(struct master *m, struct job *j);
void resize_let_go(struct master *m, struct job *j);
/* Workers that are, and have dropped it; those that have not, too. */
size_t resize_kept(const struct master *m, const struct job *j);
size_t resize_kept_all(const struct master *m, const struct job *j);
void resize_done(struct master *m, struct job *j); /* it runs */
/* A server has no room for a shard of its new size. True: so its file says again as many as it ran
 * with. False: it did not move, or other servers are to be tried. */
bool resize_withdraw(struct master *m, struct job *j, const char *why);
/* It can never move: its file says again as many as it ran with. */
void resize_take_back(struct master *m, struct job *j, const char *why);
/* A client that waits for the move is answered: it was made, or will be. */
void resize_answer(struct master *m, struct job *j);

/* resize_due.c */
void resizes_look(struct master *m); /* nodes or jobs changed: who moves, who does not any more */

#endif
