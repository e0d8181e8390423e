/* SPDX-License-Identifier: Apache-2.0 */
/* A job with two tables on a server, and pushes that bring rows of them. */
#ifndef GRADUS_TESTS_UNIT_PS_ROWS_RIG_H
#define GRADUS_TESTS_UNIT_PS_ROWS_RIG_H

#include "exchange_rig.h"

#include "table/table_gradient.h"

#define TABLES 2

/* The one shard of job @name, rule sgd, with @tables as a job file has them. */
void rows_open(struct ps_rig *rig, char *name, uint32_t replicas, const char *tables);
/* Replica @replica of @step of @job with what @bytes are of tables, in messages of @each bytes. */
struct answer *rows_push(struct client *c, char *job, uint64_t exchange, uint64_t step,
                         uint32_t replica, const unsigned char *bytes, size_t n, size_t each);
/* The first message alone of a push with @n bytes of tables. */
struct answer *rows_announce(struct client *c, char *job, uint64_t exchange, uint64_t n);
/* "Pin" or "Unpin" of shard 0 of @job. */
void rows_pin(struct ps_rig *rig, char *job, const char *method, char *id);

#endif
