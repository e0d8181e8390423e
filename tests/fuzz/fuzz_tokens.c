/* SPDX-License-Identifier: Apache-2.0 */
/* The file of bearer tokens (auth/token_list.c): every line, its roles, hash, date and node; and
 * that an entry which was read is written as a line that reads back the same. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "auth/token_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err err = {0};
    struct token_list *list = token_list_parse((const char *)data, n, "tokens", &err);
    if (list == NULL) {
        fuzz_require_error(err.code, &err);
        fuzz_require(err.code != 0, "no list without an error");
        return 0;
    }
    size_t count = token_list_count(list);
    fuzz_require(count <= TOKEN_LIST_MAX, "no more tokens than there may be");
    static const char token[] = "gradus_fuzz";
    const struct token_entry *found = token_list_find(list, token, sizeof token - 1);
    if (found != NULL) {
        struct buf line = {0};
        token_line(found, &line);
        struct token_list *again = token_list_parse(line.data, line.len, "again", &err);
        fuzz_require(again != NULL, "a line that was written is read");
        const struct token_entry *same = token_list_find(again, token, sizeof token - 1);
        fuzz_require(same != NULL && strcmp(same->name, found->name) == 0 &&
                         strcmp(same->node, found->node) == 0 && same->roles == found->roles &&
                         same->expires_s == found->expires_s,
                     "a line says what was read");
        token_list_free(again);
        buf_release(&line);
    }
    token_list_free(list);
    return 0;
}
