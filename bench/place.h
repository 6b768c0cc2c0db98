/* place.h - what every benchmark needs: a clock, a directory of its own, files that go again */
#ifndef QP_BENCH_PLACE_H
#define QP_BENCH_PLACE_H

struct place {
    char dir[256];
    char path[300]; /* of a database file in it */
};

double now_s(void);
_Noreturn void die(const char *what, const char *why);

/* A new directory in $TMPDIR; ends the program when there can be none. */
void place_make(struct place *p);
/* A database file and what SQLite and the store keep beside it. */
void file_remove(const char *path);
void place_remove(struct place *p);

#endif
