/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that are messages of proto/: a row of calls, each a method and a request, and a mutator
 * that changes fields instead of bytes, because of random bytes hardly any are a message. Bytes
 * are changed, too, now and then.
 *
 * A row: for each call a byte with the method, two with the length of the request (the low one
 * first), the request. */
#ifndef GRADUS_TESTS_FUZZ_MESSAGE_H
#define GRADUS_TESTS_FUZZ_MESSAGE_H

#include <protobuf-c/protobuf-c.h>

#include "fuzz/fuzz.h"

#define FUZZ_CALLS_MAX 12

struct fuzz_call_bytes {
    unsigned method; /* below the number of types */
    const uint8_t *data;
    size_t n;
};

/* The calls of an input, at most FUZZ_CALLS_MAX; returns their number. */
size_t fuzz_calls(const uint8_t *data, size_t n, unsigned methods,
                  struct fuzz_call_bytes out[FUZZ_CALLS_MAX]);

/* LLVMFuzzerCustomMutator() for rows of calls of @types[0..@count). The first @keep bytes are not
 * of the row, and changed as bytes. @words: texts that fields like to have, NULL-terminated. */
size_t fuzz_calls_mutate(const ProtobufCMessageDescriptor *const *types, unsigned count,
                         const char *const *words, size_t keep, uint8_t *data, size_t n,
                         size_t n_max, unsigned seed);
/* Change one message of @n bytes; returns its new length, at most @n_max. */
size_t fuzz_message_mutate(const ProtobufCMessageDescriptor *type, const char *const *words,
                           uint8_t *data, size_t n, size_t n_max, unsigned seed);

#endif
