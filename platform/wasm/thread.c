/* Threads of a module whose instances share a memory: JavaScript starts workers before the engine
 * needs them, each of which instantiates the module, takes a stack of its own and waits in a box
 * here for work.
 * SPDX-License-Identifier: MIT
 *
 * Nothing in the module has thread-local data, so a stack is all that tells two threads apart. */
#include "wasm.h"

#if defined(__wasm_atomics__)

enum { THREAD_STACK = 256 << 10, THREAD_MOST = 64 };
enum { BOX_FREE, BOX_CALLED, BOX_DONE };

struct qsf_thread {
    _Alignas(64) uint32_t state;
    void    (*fn)(void *arg);
    void     *arg;
    uint8_t  *stack;
};

static struct qsf_thread boxes[THREAD_MOST];
static uint32_t n_boxes;            /* threads besides the engine's */
static uint32_t failed;

/* Called when a thread ended with a trap.  A caller waiting for it notices at the end of the
 * waiting period, and traps too. */
WASM_EXPORT("thread_failed") void wasm_thread_failed(void) { __atomic_store_n(&failed, 1, __ATOMIC_RELEASE); }

/* Not inlined: V8's baseline compiler in Node.js 20 loses variables of the caller that are in
 * registers during the wait.  Here none is used after it. */
__attribute__((noinline)) void wasm_wait32(void *user, uint32_t *word, uint32_t expected, uint64_t ns)
{
    (void)user;
    __builtin_wasm_memory_atomic_wait32((int *)word, (int)expected, ns > INT64_MAX ? -1 : (int64_t)ns);
    if (__atomic_load_n(&failed, __ATOMIC_ACQUIRE)) __builtin_trap();
}
void wasm_wake32(void *user, uint32_t *word, uint32_t count)
{
    (void)user;
    __builtin_wasm_memory_atomic_notify((int *)word, count);
}

uint32_t wasm_cpu_count(void *user)
{
    (void)user;
    return 1 + n_boxes;
}

/* Room for n more threads.  Returns how many there are now. */
WASM_EXPORT("threads") uint32_t wasm_threads(uint32_t n)
{
    while (n_boxes < n && n_boxes < THREAD_MOST
           && (boxes[n_boxes].stack = wasm_mem_alloc(NULL, THREAD_STACK)))
        n_boxes++;
    return n_boxes;
}
/* The end of thread i's stack, where its stack pointer begins. */
WASM_EXPORT("thread_stack") void *wasm_thread_stack(uint32_t i) { return boxes[i].stack + THREAD_STACK; }

/* What worker i runs, for ever: the worker is ended from outside. */
WASM_EXPORT("thread_main") void wasm_thread_main(uint32_t i)
{
    struct qsf_thread *t = &boxes[i];
    for (;;) {
        const uint32_t state = __atomic_load_n(&t->state, __ATOMIC_ACQUIRE);
        if (state != BOX_CALLED) {
            wasm_wait32(NULL, &t->state, state, UINT64_MAX);
            continue;
        }
        t->fn(t->arg);
        __atomic_store_n(&t->state, BOX_DONE, __ATOMIC_RELEASE);
        wasm_wake32(NULL, &t->state, UINT32_MAX);
    }
}

qsf_status wasm_thread_start(void *user, void (*fn)(void *arg), void *arg, qsf_thread **out)
{
    *out = NULL;
    for (uint32_t i = 0; i < n_boxes; i++) {
        qsf_thread *t = &boxes[i];
        if (t->state != BOX_FREE) continue;
        t->fn = fn;
        t->arg = arg;
        __atomic_store_n(&t->state, BOX_CALLED, __ATOMIC_RELEASE);
        wasm_wake32(user, &t->state, 1);
        *out = t;
        return QSF_OK;
    }
    return QSF_E_MEMORY;
}

void wasm_thread_join(void *user, qsf_thread *t)
{
    while (__atomic_load_n(&t->state, __ATOMIC_ACQUIRE) == BOX_CALLED)
        wasm_wait32(user, &t->state, BOX_CALLED, 100000000);
    t->state = BOX_FREE;
}
#endif
