/* words.c - spans, ages and colours (see words.h) */
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/words.h"

#define SECOND 1000
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * (qp_ms)HOUR)

qp_ms cli_now(const struct cli *c)
{
    return c->env.wall_ms(c->env.context);
}

/* "3m 5s", "3m": two units, the second one when it is not 0. */
static void two_units(char *out, qp_ms ms, qp_ms large, char large_letter, qp_ms small,
                      char small_letter)
{
    long long many = (long long)(ms / large);
    long long rest = (long long)(ms % large / small);
    if (rest > 0) {
        (void)snprintf(out, SPAN_TEXT_SIZE, "%lld%c %lld%c", many, large_letter, rest,
                       small_letter);
    } else {
        (void)snprintf(out, SPAN_TEXT_SIZE, "%lld%c", many, large_letter);
    }
}

const char *span_text(qp_ms ms, char out_text[SPAN_TEXT_SIZE])
{
    ms = ms < 0 ? 0 : ms;
    if (ms < SECOND) {
        (void)snprintf(out_text, SPAN_TEXT_SIZE, "%lldms", (long long)ms);
    } else if (ms < 10 * SECOND && ms % SECOND >= SECOND / 10) {
        (void)snprintf(out_text, SPAN_TEXT_SIZE, "%lld.%llds", (long long)(ms / SECOND),
                       (long long)(ms % SECOND / (SECOND / 10)));
    } else if (ms < MINUTE) {
        (void)snprintf(out_text, SPAN_TEXT_SIZE, "%llds", (long long)(ms / SECOND));
    } else if (ms < HOUR) {
        two_units(out_text, ms, MINUTE, 'm', SECOND, 's');
    } else if (ms < DAY) {
        two_units(out_text, ms, HOUR, 'h', MINUTE, 'm');
    } else {
        two_units(out_text, ms, DAY, 'd', HOUR, 'h');
    }
    return out_text;
}

/* One unit: "59m". */
static void one_unit(qp_ms ms, const char *after, char out_text[SPAN_TEXT_SIZE])
{
    qp_ms unit = ms < MINUTE ? SECOND : ms < HOUR ? MINUTE : ms < 2 * DAY ? HOUR : DAY;
    char letter = ms < MINUTE ? 's' : ms < HOUR ? 'm' : ms < 2 * DAY ? 'h' : 'd';
    (void)snprintf(out_text, SPAN_TEXT_SIZE, "%lld%c %s", (long long)(ms / unit), letter, after);
}

const char *age_text(qp_ms now, qp_ms at, char out_text[SPAN_TEXT_SIZE])
{
    if (now - at < SECOND) { /* also when the clocks of two machines differ */
        (void)snprintf(out_text, SPAN_TEXT_SIZE, "now");
    } else {
        one_unit(now - at, "ago", out_text);
    }
    return out_text;
}

const char *left_text(qp_ms now, qp_ms at, char out_text[SPAN_TEXT_SIZE])
{
    if (at <= now) {
        (void)snprintf(out_text, SPAN_TEXT_SIZE, "due");
    } else if (at - now < SECOND) {
        (void)snprintf(out_text, SPAN_TEXT_SIZE, "1s left");
    } else {
        one_unit(at - now, "left", out_text);
    }
    return out_text;
}

const char *color_of(bool colors, qp_str word)
{
    static const struct {
        const char *word;
        const char *color;
    } all[] = {{"completed", "\033[32m"},  {"done", "\033[32m"},   {"running", "\033[36m"},
               {"waiting", "\033[34m"},    {"paused", "\033[34m"}, {"retrying", "\033[33m"},
               {"parked", "\033[35m"},     {"failed", "\033[31m"}, {"cancelled", "\033[2m"},
               {"interrupted", "\033[2m"}, {"skipped", "\033[2m"}};
    for (size_t i = 0; colors && i < ARRAY_COUNT(all); i++) {
        if (str_equal(word, str_from(all[i].word))) {
            return all[i].color;
        }
    }
    return "";
}

const char *color_end(bool colors)
{
    return colors ? "\033[0m" : "";
}

int terminal_size(int *out_width)
{
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20 || size.ws_row < 4) {
        *out_width = 80;
        return 24;
    }
    *out_width = size.ws_col;
    return size.ws_row;
}

/* How many bytes of the text fit into the room; a word that is longer stands out. */
static size_t fitting(qp_str text, size_t room)
{
    size_t n = text.n;
    if (n <= room) {
        return n;
    }
    for (n = room; n > 0 && text.p[n] != ' '; n--) {}
    for (n = n == 0 ? room : n; n < text.n && text.p[n] != ' '; n++) {}
    return n;
}

void print_wrapped(qp_str text, int column)
{
    int width = 0;
    (void)terminal_size(&width);
    while (isatty(STDOUT_FILENO) != 0 && width > column + 20 && text.n > (size_t)(width - column)) {
        size_t n = fitting(text, (size_t)(width - column));
        (void)fwrite(text.p, 1, n, stdout);
        n += n < text.n;
        text.p += n;
        text.n -= n;
        if (text.n > 0) {
            printf("\n%*s", column, "");
        }
    }
    (void)fwrite(text.p, 1, text.n, stdout);
    (void)fputc('\n', stdout);
}
