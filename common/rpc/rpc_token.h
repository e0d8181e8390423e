/* SPDX-License-Identifier: Apache-2.0 */
/* The bearer token of this process, from a file that is read again when it changes, as platforms do
 * that hand out tokens of an hour. Any thread. */
#ifndef GRADUS_RPC_RPC_TOKEN_H
#define GRADUS_RPC_RPC_TOKEN_H

#include "base/buf.h"
#include "base/err.h"

struct rpc_token;

/* The token in @file, or @text itself; one of them NULL. Returns owned. Errors: those of reading;
 * ERR_INVALID it is no token, which is not shown. */
struct rpc_token *rpc_token_new(const char *file, const char *text, struct err *err);
void rpc_token_free(struct rpc_token *t); /* NULL is fine */
/* Append "Bearer TOKEN", with the token of before while the file has none. */
void rpc_token_add(struct rpc_token *t, struct buf *out);

#endif
