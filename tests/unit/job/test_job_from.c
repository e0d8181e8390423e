/* SPDX-License-Identifier: Apache-2.0 */
/* The section `from` of a job file. */
#include "job_spec_rig.h"

static void assert_refused(const char *set, const char *says)
{
    char *text = job_with(0, NULL);
    const char *const sets[] = {set};
    job_check_refused(text, sets, 1, says);
    free(text);
}

static void the_keys_are_read(void **state)
{
    (void)state;
    char *text = job_with(0, NULL);
    const char *sets[] = {"from={safetensors: a.safetensors, strict: false, map: [{from: "
                          "'layers.*.w', to: '*.kernel'}, {from: head, to: ''}]}"};
    struct job_spec spec = {0}, again = {0};
    job_parse_with(text, sets, 1, &spec);
    assert_true(job_spec_has_from(&spec));
    assert_string_equal(spec.from.safetensors, "a.safetensors");
    assert_false(spec.from.strict);
    assert_int_equal(spec.from.map_count, 2);
    assert_string_equal(spec.from.map[0].from, "layers.*.w");
    assert_string_equal(spec.from.map[0].to, "*.kernel");
    assert_string_equal(spec.from.map[1].to, "");
    job_parse(spec.text, &again); /* the canonical text says the same */
    assert_string_equal(again.text, spec.text);
    assert_int_equal(again.from.map_count, 2);
    job_spec_release(&again);
    job_spec_release(&spec);
    free(text);
}

static void without_it_nothing_is_written(void **state)
{
    (void)state;
    char *text = job_with(0, NULL);
    struct job_spec spec = {0};
    job_parse(text, &spec);
    assert_false(job_spec_has_from(&spec));
    assert_true(spec.from.strict);
    assert_null(strstr(spec.text, "\nfrom:"));
    job_spec_release(&spec);
    free(text);
}

static void it_has_one_source(void **state)
{
    (void)state;
    assert_refused("from.strict=false",
                   "--set from.strict=false: from: nothing says where the values are; allowed: one "
                   "of checkpoint, safetensors and onnx\n");
    assert_refused("from={onnx: a.onnx, checkpoint: digits-1}",
                   "--set from={onnx: a.onnx, checkpoint: digits-1}: from: more than one source; "
                   "allowed: one of checkpoint, safetensors and onnx\n");
    assert_refused("from={onnx: a.onnx, best: true}",
                   "--set from={onnx: a.onnx, best: true}: from.best: only checkpoints keep a best "
                   "version; allowed: with from.checkpoint\n");
}

static void what_checkpoints_alone_have(void **state)
{
    (void)state;
    assert_refused("from={onnx: a, slots: true}",
                   "--set from={onnx: a, slots: true}: from.slots: only checkpoints have the slots "
                   "of an update rule; allowed: false\n");
    assert_refused("from={onnx: a, encoding: source}",
                   "--set from={onnx: a, encoding: source}: from.encoding: source needs a "
                   "checkpoint, where it lies beside the variables; allowed: measure\n");
}

static void patterns_are_checked(void **state)
{
    (void)state;
    assert_refused("from={onnx: a, map: [{from: 'a.*', to: b}]}",
                   "--set from={onnx: a, map: [{from: 'a.*', to: b}]}: from.map.0.to: 0 times *, "
                   "and 1 times in `from`; allowed: as often as there, or an empty text for what "
                   "is left out\n");
    assert_refused("from={onnx: a, map: [{from: '*.*.*.*.*', to: ''}]}",
                   "--set from={onnx: a, map: [{from: '*.*.*.*.*', to: ''}]}: from.map.0.from: 5 "
                   "times *; allowed: up to 4\n");
    assert_refused("from={onnx: a, map: [{from: '', to: b}]}",
                   "--set from={onnx: a, map: [{from: '', to: b}]}: from.map.0.from: it is empty; "
                   "allowed: a name or a pattern\n");
    assert_refused("from={onnx: a, map: {b: c}}",
                   "--set from={onnx: a, map: {b: c}}: from.map: this is not a list of patterns; "
                   "allowed: a list of up to 256 sections with the keys from and to\n");
    assert_refused("from={onnx: a, map: [{from: b}]}",
                   "--set from={onnx: a, map: [{from: b}]}: from.map.0.to is missing; allowed: "
                   "text\n");
}

static void it_is_fixed(void **state)
{
    (void)state;
    assert_string_equal(job_spec_fixed("from.checkpoint"), "fixed when the job was submitted");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_keys_are_read),    cmocka_unit_test(without_it_nothing_is_written),
        cmocka_unit_test(it_has_one_source),    cmocka_unit_test(what_checkpoints_alone_have),
        cmocka_unit_test(patterns_are_checked), cmocka_unit_test(it_is_fixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
