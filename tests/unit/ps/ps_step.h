/* SPDX-License-Identifier: Apache-2.0 */
/* A job of rule sgd on one shard, and what a step makes of its values. */
#ifndef GRADUS_TESTS_PS_STEP_H
#define GRADUS_TESTS_PS_STEP_H

#include "exchange_rig.h"

#include "ps/rpc/ps_shell.h"

#define GRADIENT_BYTES ((uint64_t)ELEMENTS * sizeof(float))

extern char job[];
extern float initial[ELEMENTS]; /* its first values */

/* Open the job and pull its first values. @room: for so many gradients; 0: for as many as come. */
void step_start(struct ps_rig *rig, const char *mode, uint32_t replicas, uint64_t room);
/* Of a step with the sum @sum x gradient. */
void check_step(const float *values, float sum, float examples);
/* Requests that wait on the server. */
uint64_t step_parked(struct ps_rig *rig);
/* Until so many had to wait in all. */
void wait_for_waits(struct ps_rig *rig, double count);
/* Until memory of so many is taken. */
void wait_for_bytes(struct ps_rig *rig, uint64_t gradients);
/* Until none is taken. */
void expect_all_given_back(struct ps_rig *rig);
/* A part of a push in async mode. */
struct chunk async_part(uint64_t exchange, uint32_t split, uint32_t batch, uint64_t offset,
                        uint64_t floats);
/* Half of one, which takes the memory of all; and the rest. */
void begin_gradient(struct ps_rig *rig, struct client *c, uint64_t exchange);
void end_gradient(struct client *c, uint64_t exchange);

#endif
