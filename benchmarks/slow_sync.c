/* Delay every sync of a file by the microseconds in SLOW_SYNC_US, as a slower disk would.
 *
 * LD_PRELOAD this library.  benchmarks/peers.py compiles and uses it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_for_disk(void) {
    const char *text = getenv("SLOW_SYNC_US");
    if (text) usleep((useconds_t)atoi(text));
}

int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
    wait_for_disk();
    return real(fd);
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    wait_for_disk();
    return real(fd);
}
