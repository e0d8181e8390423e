/* SPDX-License-Identifier: Apache-2.0 */
/* Makes texts of other programs safe for a terminal. */
#ifndef GRADUS_CLIENT_PLAIN_H
#define GRADUS_CLIENT_PLAIN_H

#include "rpc/rpc.h"

/* Replace the control bytes in all strings of @msg and of the messages in it: reasons, names and
 * addresses are what some process said of itself. Fields called "text", job files, keep their line
 * ends and tabs. */
void plain_message(ProtobufCMessage *msg);
/* Does that to all texts of an answer that nobody else has yet (NULL: none) and of an error. */
void plain_reply(struct rpc_msg *reply);
void plain_err(struct err *err);

#endif
