/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger as compact JSON: {"epoch":3,"records":60000,"batch_records":64,"split_batches":16,
 * "done":[[16,40],[5,1],[0,18]]}, done being pairs of (batches done, how many splits in a row). */
#ifndef GRADUS_CHECKPOINT_LEDGER_JSON_H
#define GRADUS_CHECKPOINT_LEDGER_JSON_H

#include "base/buf.h"
#include "job/progress/ledger.h"

struct json_t;

void ledger_json_format(const struct ledger *l, struct buf *out);
/* @l is overwritten on success: ledger_release(). Errors: ERR_CORRUPT. */
int ledger_json_parse(const char *text, size_t n, struct ledger *l, struct err *err);
int ledger_json_read(const struct json_t *object, struct ledger *l, struct err *err);

#endif
