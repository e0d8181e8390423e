/* SPDX-License-Identifier: Apache-2.0 */
/* Moving averages of versions that readers have pinned. Owner: the shard's strand. */
#ifndef GRADUS_PS_RPC_PS_AVERAGE_H
#define GRADUS_PS_RPC_PS_AVERAGE_H

#include "ps/rpc/ps_shell.h"

/* Keeps the average of @version, the present one, as long as a reader has it pinned. Errors:
 * ERR_STATE the job has none; ERR_EXHAUSTED; ERR_RANGE it is not the present version. */
int ps_average_keep(struct ps_shard *s, uint64_t version, struct err *err);
const float *ps_average_of(const struct ps_shard *s, uint64_t version); /* NULL: it is not kept */
void ps_averages_trim(struct ps_shard *s); /* gives up those that no reader has pinned any more */
void ps_averages_release(struct ps_shard *s);

#endif
