/* SPDX-License-Identifier: Apache-2.0 */
/* Ledgers as JSON, as checkpoints keep them (checkpoint/ledger_json.c), and the names of shard
 * files: what was read is written and read again as the same.  */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "checkpoint/ledger_json.h"
#include "checkpoint/shard_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct ledger ledger, again;
    struct err err = {0};
    int rc = ledger_json_parse((const char *)data, n, &ledger, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        struct buf text = {0};
        ledger_json_format(&ledger, &text);
        fuzz_require(ledger_json_parse(buf_str(&text), text.len, &again, &err) == 0,
                     "a ledger that was written is read");
        fuzz_require(again.split_count == ledger.split_count && again.epoch == ledger.epoch,
                     "a ledger is the same when it is read again");
        ledger_release(&again);
        ledger_release(&ledger);
        buf_release(&text);
    }
    struct fuzz_input in = {data, n};
    char *name = fuzz_rest(&in);
    struct shard_file_tensor parts;
    uint64_t generation = 0;
    (void)shard_file_tensor_parse(name, &parts);
    (void)shard_file_name_parse(name, 0, 2, &generation);
    free(name);
    return 0;
}
