/* SPDX-License-Identifier: Apache-2.0 */
/* The initializers of a file, whatever its graph computes. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "onnx_net/onnx_initializers.h"
#include "support/onnx_text.h"

static int read_text(const char *text, struct onnx_initializers **out, struct err *err)
{
    size_t n = 0;
    void *bytes = onnx_text_pack(onnx_text_model(text), &n);
    const int rc = onnx_initializers_read(bytes, n, out, err);
    free(bytes); /* nothing of it is borrowed */
    return rc;
}

/* Operators that nobody computes do not matter. */
static void names_shapes_and_values(void **state)
{
    (void)state;
    struct onnx_initializers *f = NULL;
    struct err err = {0};
    if (read_text("input x ?,4; float w 2,3; float b 3; Unheard x w b -> y; output y;", &f, &err) !=
        0) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(onnx_initializers_count(f), 2);
    assert_string_equal(onnx_initializers_name(f, 0), "w");
    const struct onnx_tensor_info *info = onnx_initializers_info(f, 0);
    assert_true(info->rank == 2 && info->dims[0] == 2 && info->dims[1] == 3);
    assert_string_equal(onnx_type_name(info->type), "FLOAT");
    float values[6] = {7, 7, 7, 7, 7, 7};
    assert_int_equal(onnx_initializers_floats(f, 0, NULL, NULL, values, &err), 0);
    assert_true(values[0] != 7 && values[5] != 7);
    onnx_initializers_free(f);
}

static void what_is_no_file(void **state)
{
    (void)state;
    struct onnx_initializers *f = NULL;
    struct err err = {0};
    assert_int_equal(onnx_initializers_read("no", 2, &f, &err), ERR_INVALID);
    assert_string_equal(err.msg, "this is no ONNX file");
    assert_null(f);
    assert_int_equal(onnx_initializers_read("", 0, &f, &err), ERR_INVALID); /* it has no graph */
    onnx_initializers_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_shapes_and_values),
                                       cmocka_unit_test(what_is_no_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
