/* SPDX-License-Identifier: Apache-2.0 */
/* Files in another encoding than UTF-8: which text shows it, and where it is. */
#include "unit/data/data_rig.h"

#include "data/dataset.h"

static char none[] = "";

static void assert_foreign(struct data_spec *spec, const char *train, const char *test)
{
    static const int loadings[] = {DATA_LOADING_MEMORY, DATA_LOADING_STREAM, DATA_LOADING_STREAM};
    for (size_t i = 0; i < 3; i++) { /* the last time by the index that was kept */
        struct dataset *both[2] = {NULL, NULL};
        spec->loading = loadings[i];
        both[0] = fixture_open(spec, DATA_LABEL_CLASS, &both[1]);
        const char *const wanted[] = {train, test};
        for (size_t k = 0; k < 2; k++) {
            const char *found = dataset_foreign_text(both[k]);
            if (wanted[k] == NULL ? found != NULL
                                  : found == NULL || strstr(found, wanted[k]) == NULL) {
                fail_msg("%zu: %s", k, found == NULL ? "nothing" : found);
            }
            dataset_free(both[k]);
        }
    }
}

static void the_first_text_that_is_not_utf8(void **state)
{
    (void)state;
    char train[] = "t.csv", test[] = "e.csv", label[] = "y", categorical[] = "city, plan";
    struct data_spec spec = fixture_spec(train, none);
    spec.test = (struct data_source){.file = test, .labels = none};
    spec.label = label;
    spec.categorical = categorical;
    spec.header = DATA_HEADER_TRUE;
    spec.missing = DATA_MISSING_ZERO;
    fixture_text("t.csv", "city,x,plan,y\nBonn,1,a,no\nK\xC3\xB6ln,2,b,no\nUlm,3,a,yes\n");
    fixture_text("e.csv", "city,x,plan,y\nBonn,1,a,no\n");
    assert_foreign(&spec, NULL, NULL);
    fixture_text("e.csv", "city,x,plan,y\nBonn,1,a,no\nBonn,1,\xE9,no\nK\xF6ln,2,b,no\n");
    assert_foreign(&spec, NULL, "e.csv:3: column plan: \"\xE9\"");
    fixture_text("t.csv", "city,x,plan,y\nBonn,1,a,no\n,2,b,no\nK\xF6ln,3,,gro\xDF\n");
    fixture_text("e.csv", "city,x,plan,y\nBonn,1,a,no\n");
    assert_foreign(&spec, "t.csv:4: the label: \"gro\xDF\"", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_text_that_is_not_utf8, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
