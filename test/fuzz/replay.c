/* replay.c - runs a fuzz target once over files, without libFuzzer
 *
 * What was found once is looked at again with the sanitizers of the tests, and with their objects, so that the short lane
 * does not compile everything once more for libFuzzer. An input has 25 s, as there.
 *
 * usage: fuzz_NAME FILE...
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_SECONDS 25

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

/* A block of just its size, so that a read past its end is noticed. NULL: it cannot be read. */
static uint8_t *input_read(const char *path, size_t *out_size)
{
    struct stat st;
    uint8_t *bytes = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, &st) == 0) {
        *out_size = (size_t)st.st_size;
        bytes = malloc(*out_size);
    }
    if (bytes != NULL && read(fd, bytes, *out_size) != st.st_size) {
        free(bytes);
        bytes = NULL;
    }
    (void)close(fd); /* opened for reading */
    return bytes;
}

static bool replay(const char *path)
{
    size_t size = 0;
    uint8_t *bytes = input_read(path, &size);
    (void)printf("%s\n", path); /* the last one is that which broke something */
    (void)fflush(stdout);
    if (bytes == NULL) {
        (void)printf("it cannot be read\n");
        return false;
    }
    (void)alarm(INPUT_SECONDS);
    (void)LLVMFuzzerTestOneInput(bytes, size);
    (void)alarm(0);
    free(bytes);
    return true;
}

int main(int argc, char **argv)
{
    bool good = argc > 1;
    if (LLVMFuzzerInitialize != NULL && LLVMFuzzerInitialize(&argc, &argv) != 0) {
        return 1;
    }
    for (int i = 1; i < argc; i++) {
        good = replay(argv[i]) && good;
    }
    return good ? 0 : 1;
}
