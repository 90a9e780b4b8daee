/* Counts what a process copies and allocates in its own memory.
 *
 * Built as a shared library and put in front of the C library with
 * LD_PRELOAD. At the end of the process it writes one line of JSON to the
 * file that COUNT_FILE names. Only what is large counts: a copy from COPY
 * bytes on, an allocation from ALLOCATION bytes on. What the kernel copies
 * is not seen, nor what realloc moves (it moves pages, not bytes, when
 * they are many).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define COPY ((size_t)16 * 1024)
#define ALLOCATION ((size_t)64 * 1024)

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

typedef void *move(void *to, const void *from, size_t size);

static move *real_move;
static uint64_t copied;      /* bytes */
static uint64_t allocations; /* how many */
static uint64_t allocated;   /* bytes */

static void add(uint64_t *sum, uint64_t more)
{
    __atomic_fetch_add(sum, more, __ATOMIC_RELAXED);
}

static void *moved(void *to, const void *from, size_t size)
{
    volatile char *there = to;
    const char *here = from;

    if (size >= COPY)
        add(&copied, size);
    if (real_move != NULL)
        return real_move(to, from, size);
    /* Before the C library can be asked: byte by byte. */
    if ((uintptr_t)to <= (uintptr_t)from)
        for (size_t n = 0; n < size; n++)
            there[n] = here[n];
    else
        for (size_t n = size; n > 0; n--)
            there[n - 1] = here[n - 1];
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
    return moved(to, from, size);
}

void *memmove(void *to, const void *from, size_t size)
{
    return moved(to, from, size);
}

void *__memcpy_chk(void *to, const void *from, size_t size, size_t room)
{
    if (size > room)
        abort();
    return moved(to, from, size);
}

void *__memmove_chk(void *to, const void *from, size_t size, size_t room)
{
    if (size > room)
        abort();
    return moved(to, from, size);
}

static void allocate(size_t size)
{
    if (size >= ALLOCATION) {
        add(&allocations, 1);
        add(&allocated, size);
    }
}

void *malloc(size_t size)
{
    allocate(size);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    if (size == 0 || count <= SIZE_MAX / size)
        allocate(count * size);
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    size_t have = old == NULL ? 0 : malloc_usable_size(old);

    if (size > have) /* what it grows by */
        allocate(size - have);
    return __libc_realloc(old, size);
}

__attribute__((constructor)) static void begin(void)
{
    real_move = (move *)dlsym(RTLD_NEXT, "memmove");
}

__attribute__((destructor)) static void end(void)
{
    const char *name = getenv("COUNT_FILE");
    FILE *file = name == NULL ? NULL : fopen(name, "a");

    if (file == NULL)
        return;
    fprintf(file,
            "{\"copied\": %llu, \"allocations\": %llu, "
            "\"allocated\": %llu}\n",
            (unsigned long long)copied, (unsigned long long)allocations,
            (unsigned long long)allocated);
    fclose(file);
}
