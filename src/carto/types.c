/* types.c - the list of package types (see types.h): a new one is a line */
#include "carto/types.h"

#include "carto/deb.h"
#include "carto/npm.h"

static const struct carto_type *const built_in[] = {&deb_type, &npm_type};
const struct plan_types carto_types = {built_in, ARRAY_COUNT(built_in)};
