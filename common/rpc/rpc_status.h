/* SPDX-License-Identifier: Apache-2.0 */
/* google.rpc.Status in the trailer grpc-status-details-bin. */
#ifndef GRADUS_RPC_RPC_STATUS_H
#define GRADUS_RPC_RPC_STATUS_H

#include "rpc/rpc.h"

#define RPC_DETAILS_KEY "grpc-status-details-bin"
/* Trailers travel as headers, which peers limit to 8 or 16 KiB in all. */
#define RPC_DETAILS_BYTES_MAX 4096
/* Tells an answer of the peer from one that gRPC makes up when there is no peer, or no time. */
#define RPC_ANSWERED_KEY "gradus-answered"
#define RPC_TYPE_URL "type.googleapis.com/"

/* Pack @err and @detail; returns owned, or NULL when over RPC_DETAILS_BYTES_MAX. */
unsigned char *rpc_details_pack(const struct err *err, const ProtobufCMessage *detail,
                                size_t *bytes);

/* The gRPC code of an ERR_* code; what is none becomes INTERNAL. */
int rpc_code_of_err(int code);
/* The ERR_* code of a gRPC code; what is none becomes ERR_UNKNOWN. */
int rpc_code_to_err(int code);

#endif
