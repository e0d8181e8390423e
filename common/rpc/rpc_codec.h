/* SPDX-License-Identifier: Apache-2.0 */
/* From received slices to a message with a bulk cursor, and the header of a message with a blob.
 * Knows protobuf, not gRPC. */
#ifndef GRADUS_RPC_RPC_CODEC_H
#define GRADUS_RPC_RPC_CODEC_H

#include <stdatomic.h>

#include "rpc/rpc.h"

/* Bytes received, and memory that they were unpacked into, not yet released, of one server; shared
 * with every message, so a message may outlive its server. */
struct rpc_account {
    atomic_size_t refs;
    atomic_size_t bytes;
    size_t bytes_max;
};

struct rpc_account *rpc_account_new(size_t bytes_max);
struct rpc_account *rpc_account_ref(struct rpc_account *a);
/* False, and nothing added, when that would be over the limit. */
bool rpc_account_add(struct rpc_account *a, size_t bytes);
void rpc_account_unref(struct rpc_account *a);

/* The wire form of one message, in pieces; @release(@ctx) gives their memory back. */
struct rpc_frame {
    const struct rpc_piece *pieces;
    size_t piece_count;
    size_t bytes;
    void (*release)(void *ctx);
    void *ctx;
};

struct rpc_decoding {
    const ProtobufCMessageDescriptor *type;
    uint32_t bulk_field;
    size_t unpack_bytes_max;     /* 0: the default of rpc_server_options */
    struct rpc_account *account; /* or NULL */
};

/* Takes @frame in any case. Returns owned, or NULL.
 * Errors: ERR_INVALID not a message of the type; ERR_EXHAUSTED over a limit or out of memory. */
struct rpc_msg *rpc_msg_decode(const struct rpc_decoding *how, const struct rpc_frame *frame,
                               struct err *err);

/* Takes it out of every limit. For its owner, while nobody else has it. */
void rpc_msg_uncount(struct rpc_msg *msg);

/* A cursor over @bytes from @offset of the frame's pieces. */
struct rpc_spans {
    const struct rpc_piece *pieces;
    size_t piece_count;
    size_t first; /* piece, and offset in it, where the data begins */
    size_t first_offset;
    size_t total;
    size_t piece; /* the cursor */
    size_t offset;
    size_t left;
};

void rpc_spans_init(struct rpc_spans *s, const struct rpc_piece *pieces, size_t piece_count,
                    size_t offset, size_t bytes);

/* @msg followed by tag and length of a bulk field of @blob_bytes (nothing when that is 0). */
size_t rpc_head_bytes(const ProtobufCMessage *msg, uint32_t bulk_field, size_t blob_bytes);
void rpc_head_write(const ProtobufCMessage *msg, uint32_t bulk_field, size_t blob_bytes,
                    unsigned char *out);

size_t rpc_varint_write(unsigned char *out, uint64_t value); /* at most 10 bytes */
size_t rpc_varint_bytes(uint64_t value);

/* An allocator for one message: bump allocation, everything freed at once, limited. */
struct rpc_arena {
    struct rpc_arena_chunk *chunks;
    size_t used;
    size_t bytes_max;
    struct rpc_account *account; /* borrows; NULL: none */
    /* bytes of the account that are given back when the arena is released */
    size_t charged;
    bool exceeded;
    bool account_full; /* and that is why */
};

void rpc_arena_init(struct rpc_arena *a, size_t bytes_max, struct rpc_account *account);
void rpc_arena_release(struct rpc_arena *a);
void *rpc_arena_alloc(struct rpc_arena *a, size_t bytes); /* NULL over the limit */
/* protobuf-c's view of @a; @a must outlive what is unpacked with it. */
ProtobufCAllocator rpc_arena_allocator(struct rpc_arena *a);

#endif
