/* SPDX-License-Identifier: Apache-2.0 */
/* Job files and the settings over them (config/yaml.c, config/binding.c, job/spec): everything that
 * can be wrong without the data; a file that is taken has a canonical text that is taken, too, and
 * is its own canonical text.
 *
 * Input: the file; behind a NUL a text with settings, a line each. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "job/spec/job_spec.h"

#define SETS_MAX 8

static void parse_again(const struct job_spec *spec)
{
    struct job_spec again = {0};
    struct diags diags = {0};
    int rc = job_spec_parse(spec->text, strlen(spec->text), "canonical", NULL, 0, &again, &diags);
    if (rc != 0) {
        struct buf text = {0};
        diags_format(&diags, &text);
        fuzz_require(false, buf_str(&text));
    }
    fuzz_require(strcmp(again.text, spec->text) == 0, "a canonical text stays as it is");
    job_spec_release(&again);
    diags_release(&diags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *end = n == 0 ? NULL : memchr(data, '\0', n);
    size_t bytes = end == NULL ? n : (size_t)(end - data);
    struct fuzz_input in = {data + bytes, n - bytes};
    char *sets[SETS_MAX];
    size_t count = 0;
    (void)fuzz_byte(&in);
    while (in.n > 0 && count < SETS_MAX) {
        sets[count++] = fuzz_text(&in, '\n');
    }
    struct job_spec spec = {0};
    struct diags diags = {0};
    int rc = job_spec_parse((const char *)data, bytes, "job.yaml", (const char *const *)sets, count,
                            &spec, &diags);
    fuzz_require((rc == 0) == (diags.count == 0), "a file is taken, or it is said what is wrong");
    if (rc == 0) {
        parse_again(&spec);
    }
    struct buf text = {0};
    diags_format(&diags, &text);
    buf_release(&text);
    job_spec_release(&spec);
    diags_release(&diags);
    for (size_t i = 0; i < count; i++) {
        (void)job_spec_fixed(sets[i]);
        free(sets[i]);
    }
    return 0;
}
