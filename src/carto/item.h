/* item.h - the steps of a work item in its turns (traversal.h): select, judge, resolve, traverse */
#ifndef QP_CARTO_ITEM_H
#define QP_CARTO_ITEM_H

#include "carto/traversal.h"

int item_work(struct turn *t, struct work *work) QP_MUST_USE;
int item_spawn(struct turn *t, struct spawn *spawn) QP_MUST_USE;

#endif
