/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to gradus-serve over HTTP (serve/rpc/infer_json_read.c): JSON, and tensors as bytes
 * behind it. What was read has a raw tensor for each input.
 *
 * Input: a byte, how many bytes at the end are behind the JSON; the body. */
#include "fuzz/fuzz.h"

#include "serve/rpc/infer_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct infer_json j;
    struct err err = {0};
    if (n == 0) {
        return 0;
    }
    const size_t bytes = n - 1, behind = data[0] < bytes ? data[0] : bytes;
    int rc = infer_json_read((const char *)data + 1, bytes, bytes - behind, &j, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        fuzz_require(j.message.n_inputs == j.message.n_raw_input_contents, "one for each input");
        for (size_t i = 0; i < j.message.n_inputs; i++) {
            fuzz_require(j.message.inputs[i]->name != NULL, "an input has a name");
            fuzz_require(j.message.raw_input_contents[i].len <= 8 * bytes, "no more than was sent");
        }
    }
    infer_json_release(&j);
    return 0;
}
