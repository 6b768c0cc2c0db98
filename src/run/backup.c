/* backup.c - qp_backup: a copy of a store in use, checked before it has its name
 *
 *   <to>.<chance>.part is made -> checked as qp_check does -> gets the name <to>, unless that is taken
 *
 * If we crash, there is at most <to>.<chance>.part, which is of no use to anybody; <to> is there or not, and whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "run/enter.h"
#include "run/handle.h"

struct backup {
    const char *to;
    char part[LIMIT_STORE_NAME_SIZE];
};

static int read_all(void *context, struct store *s, struct qp_err *err)
{
    const struct backup *b = context;
    return store_backup(s, b->part, err);
}

/* A copy that breaks a rule of the protocol is no backup. */
static int check(qp *q, const struct backup *b, struct qp_err *err)
{
    struct qp_check_options options;
    struct qp_check_result result = {0};
    int rc;
    qp_check_options_init(&options);
    options.path = b->part;
    options.env = &q->env;
    rc = qp_check(&options, NULL, NULL, &result, err);
    if (rc == QP_OK && result.errors > 0) {
        rc = err_set(err, QP_E_CORRUPT,
                     "the copy breaks %lld rules: run quipu fsck on the store itself",
                     (long long)result.errors);
    }
    return rc;
}

static int sync_directory(const char *file, struct qp_err *err)
{
    char directory[LIMIT_STORE_NAME_SIZE];
    const char *slash = strrchr(file, '/');
    int fd;
    int rc;
    (void)snprintf(directory, sizeof directory, "%.*s",
                   slash == NULL   ? 1
                   : slash == file ? 1
                                   : (int)(slash - file),
                   slash == NULL ? "." : file);
    fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = fd < 0 || fsync(fd) != 0 ? err_set(err, QP_E_IO, "'%s': %s", directory, strerror(errno))
                                  : QP_OK;
    if (fd >= 0) {
        (void)close(fd); /* it was synced, or that was told */
    }
    return rc;
}

static int give_name(const struct backup *b, struct qp_err *err)
{
    if (link(b->part, b->to) != 0) {
        return errno == EEXIST ? err_set(err, QP_E_EXISTS, "'%s': is there already", b->to)
                               : err_set(err, QP_E_IO, "'%s': %s", b->to, strerror(errno));
    }
    return QP_OK;
}

/* The copy's own name goes in every case, and what readers of it left beside it. */
static void tidy(const struct backup *b)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char name[LIMIT_STORE_NAME_SIZE + 8];
    for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++) {
        (void)snprintf(name, sizeof name, "%s%s", b->part, suffixes[i]);
        (void)unlink(name); /* it may not be there */
    }
}

int qp_backup(qp *q, const char *to, struct qp_err *err)
{
    ENTER(q, to != NULL, err);
    struct backup b = {.to = to};
    uint32_t chance =
        0; /* a crash leaves its part behind, which must not be in the next one's way */
    int rc = q->env.entropy(q->env.context, &chance, sizeof chance);
    int n = snprintf(b.part, sizeof b.part, "%s.%08x.part", to, (unsigned)chance);
    if (rc != QP_OK) {
        rc = err_set(err, rc, "the source of chance fails");
    } else if (to[0] == '\0' || n >= (int)sizeof b.part) {
        rc = err_set(err, QP_E_INVALID, "the name of the file is empty or too long");
    } else if (access(to, F_OK) == 0) {
        rc = err_set(err, QP_E_EXISTS, "'%s': is there already", to);
    }
    rc = rc == QP_OK ? reads_do(q, &b, read_all, err) : rc;
    if (rc == QP_OK) {
        rc = check(q, &b, err);
        rc = rc == QP_OK ? give_name(&b, err) : rc;
        tidy(&b);
        rc = rc == QP_OK ? sync_directory(to, err) : rc;
    }
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "backup");
}
