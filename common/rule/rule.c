#include "rule/rule.h"

#include <stdlib.h>
#include <string.h>

/* The list of update rules. A new one is a file rule_<name>.c and a line here. */
#define RULES(X)                                                                                   \
    X(sgd)                                                                                         \
    X(momentum)                                                                                    \
    X(adam)

#define RULE_EXTERN(name) extern const struct rule rule_##name;
RULES(RULE_EXTERN)
#undef RULE_EXTERN

#define RULE_ROW(name) &rule_##name,
static const struct rule *const rules[] = {RULES(RULE_ROW)};
#undef RULE_ROW

const struct rule *rule_at(size_t index)
{
    return index < sizeof rules / sizeof rules[0] ? rules[index] : NULL;
}

const struct rule *rule_find(const char *name)
{
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        if (strcmp(rules[i]->name, name) == 0) {
            return rules[i];
        }
    }
    return NULL;
}

void update_spec_release(struct update_spec *u)
{
    if (u->params != NULL) {
        field_release(u->rule->fields, u->rule->field_count, u->params);
        free(u->params);
    }
    *u = (struct update_spec){0};
}
