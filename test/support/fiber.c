/* fiber.c - see fiber.h; by the context functions of the C library, told to the address sanitizer */
#include "support/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

#include "base/base.h"

#define STACK_SIZE ((size_t)512 * 1024)

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

struct fiber {
    ucontext_t here;
    ucontext_t outside;
    void (*run)(void *context);
    void *context;
    bool ended;
    char *stack;
    void *fake_here; /* of the sanitizer */
    void *fake_outside;
    const void *outside_stack;
    size_t outside_size;
    struct fiber *next; /* among those that wait for another life */
};

static struct fiber *spare;

#ifdef __SANITIZE_ADDRESS__
static void switch_begin(void **out_fake, const void *bottom, size_t size)
{
    __sanitizer_start_switch_fiber(out_fake, bottom, size);
}

static void switch_end(void *fake, const void **out_bottom, size_t *out_size)
{
    __sanitizer_finish_switch_fiber(fake, out_bottom, out_size);
}

/* What the former life left of red zones. */
static void stack_clear(char *stack)
{
    __asan_unpoison_memory_region(stack, STACK_SIZE);
}
#else
static void switch_begin(void **out_fake, const void *bottom, size_t size)
{
    (void)out_fake;
    (void)bottom;
    (void)size;
}

static void switch_end(void *fake, const void **out_bottom, size_t *out_size)
{
    (void)fake;
    (void)out_bottom;
    (void)out_size;
}

static void stack_clear(char *stack)
{
    (void)stack;
}
#endif

static void begin(unsigned high, unsigned low)
{
    struct fiber *f = (struct fiber *)((uintptr_t)high << 32 | low);
    switch_end(NULL, &f->outside_stack, &f->outside_size);
    f->run(f->context);
    f->ended = true;
    switch_begin(NULL, f->outside_stack, f->outside_size);
    (void)setcontext(&f->outside); /* does not come back */
}

/* One that was dropped, or a new one. */
static struct fiber *fiber_take(void)
{
    struct fiber *f = spare;
    if (f != NULL) {
        spare = f->next;
        return f;
    }
    f = malloc(sizeof *f);
    QP_ASSERT(f != NULL);
    f->stack = malloc(STACK_SIZE);
    QP_ASSERT(f->stack != NULL);
    return f;
}

static void fiber_prepare(struct fiber *f)
{
    QP_ASSERT(getcontext(&f->here) == 0);
    f->here.uc_stack.ss_sp = f->stack;
    f->here.uc_stack.ss_size = STACK_SIZE;
    makecontext(&f->here, (void (*)(void))begin, 2, (unsigned)((uintptr_t)f >> 32),
                (unsigned)((uintptr_t)f & UINT32_MAX));
}

struct fiber *fiber_create(void (*run)(void *context), void *context)
{
    struct fiber *f = fiber_take();
    stack_clear(f->stack);
    *f = (struct fiber){.run = run, .context = context, .stack = f->stack};
    fiber_prepare(f);
    return f;
}

void fiber_drop(struct fiber *f)
{
    if (f != NULL) {
        f->next = spare;
        spare = f;
    }
}

void fiber_done(void)
{
    while (spare != NULL) {
        struct fiber *f = spare;
        spare = f->next;
        free(f->stack);
        free(f);
    }
}

bool fiber_enter(struct fiber *f)
{
    QP_ASSERT(!f->ended);
    switch_begin(&f->fake_outside, f->stack, STACK_SIZE);
    QP_ASSERT(swapcontext(&f->outside, &f->here) == 0);
    switch_end(f->fake_outside, NULL, NULL);
    return !f->ended;
}

void fiber_leave(struct fiber *f)
{
    switch_begin(&f->fake_here, f->outside_stack, f->outside_size);
    QP_ASSERT(swapcontext(&f->here, &f->outside) == 0);
    switch_end(f->fake_here, &f->outside_stack, &f->outside_size);
}
