/* Record what a process changes below one folder, for tests of power cuts.
 *
 * LD_PRELOAD this library and set POWER_TRACE (a file that does not exist yet) and POWER_ROOT (the
 * folder to watch).  Every call that changes a file or a folder below POWER_ROOT, and every sync,
 * is appended to the trace in the order in which the kernel did it: one lock is held around the
 * call and its record.  Files and folders are known by inode, so renames, links and duplicated
 * descriptors need no bookkeeping.  tests/power_loss/trace.py reads the trace.
 *
 * A call that cannot be followed (a shared writable mapping, a symbolic link) is recorded as
 * UNSUPPORTED, and the reader refuses the trace.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum op {
    OP_CREATE = 1, OP_WRITE, OP_TRUNCATE, OP_ALLOCATE, OP_SYNC, OP_SYNC_ALL, OP_RENAME, OP_LINK,
    OP_UNLINK, OP_RMDIR, OP_NOTE, OP_UNSUPPORTED
};

/* The numbers mean what the call of `add` says; names and data follow. */
struct header {
    uint32_t op;
    uint32_t call; /* index into CALLS: which function of the C library was called */
    int64_t number[4];
    uint32_t name_bytes[2];
    uint64_t data_bytes;
};

static const char *const CALLS[] = {
    "", "open", "openat", "creat", "fopen", "mkdir", "mkdirat", "write", "writev", "pwrite",
    "pwritev", "pwritev2", "fwrite", "sendfile", "copy_file_range", "ftruncate", "truncate",
    "fallocate", "posix_fallocate", "fsync", "fdatasync", "sync", "syncfs", "rename", "renameat",
    "renameat2", "link", "linkat", "unlink", "unlinkat", "remove", "rmdir", "mmap", "symlinkat",
    "note",
};
#define N_CALLS (sizeof CALLS / sizeof *CALLS)

static uint32_t call_number(const char *name) {
    for (uint32_t i = 1; i < N_CALLS; i++)
        if (!strcmp(CALLS[i], name)) return i;
    abort();
}

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int trace_fd = -1;
static pid_t owner;
static dev_t device;

/* ------------------------------------------------------------------ the inodes below the root */

static ino_t *inodes; /* open addressing; 0 is empty, 1 was removed */
static size_t n_slots, n_used;

static ino_t *slot_of(ino_t inode) {
    size_t i = (inode * 0x9E3779B97F4A7C15ull) % n_slots;
    while (inodes[i] && inodes[i] != inode) i = (i + 1) % n_slots;
    return &inodes[i];
}

static void watch(ino_t inode) {
    if (2 * (n_used + 1) > n_slots) {
        size_t before = n_slots;
        ino_t *old = inodes;
        n_slots = before ? 2 * before : 1024;
        inodes = calloc(n_slots, sizeof *inodes);
        n_used = 0;
        for (size_t i = 0; i < before; i++)
            if (old[i] > 1) watch(old[i]);
        free(old);
    }
    ino_t *slot = slot_of(inode);
    n_used += !*slot;
    *slot = inode;
}

static void unwatch(ino_t inode) {
    ino_t *slot = slot_of(inode);
    if (*slot) *slot = 1; /* another file may get this number */
}

static int is_watched(const struct stat *about) {
    return about->st_dev == device && *slot_of(about->st_ino) == about->st_ino;
}

static int watch_entry(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)path, (void)kind, (void)place;
    watch(about->st_ino);
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("POWER_TRACE"), *root = getenv("POWER_ROOT");
    struct stat about;
    if (!path || !root || stat(root, &about)) return;
    /* Exclusive: only the first process that is started with these variables writes a trace. */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) return;
    device = about.st_dev;
    nftw(root, watch_entry, 32, FTW_PHYS);
    owner = getpid();
    trace_fd = fd;
}

static int is_tracing(void) { return trace_fd >= 0 && getpid() == owner; }

/* ------------------------------------------------------------------ the real functions */

#define REAL(name)                                                                                 \
    static __typeof__(name) *real_##name;                                                          \
    if (!real_##name) real_##name = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define ENTER pthread_mutex_lock(&lock)
#define LEAVE                                                                                      \
    do {                                                                                           \
        int kept = errno;                                                                          \
        pthread_mutex_unlock(&lock);                                                               \
        errno = kept;                                                                              \
    } while (0)

static void write_out(struct iovec *part, int n) {
    REAL(writev);
    while (n) {
        ssize_t done = real_writev(trace_fd, part, n);
        if (done < 0) {
            if (errno == EINTR) continue;
            abort(); /* a trace with a gap would prove nothing */
        }
        while (n && (size_t)done >= part->iov_len) done -= part->iov_len, part++, n--;
        if (n) part->iov_base = (char *)part->iov_base + done, part->iov_len -= done;
    }
}

static void add(enum op op, const char *call, int64_t a, int64_t b, int64_t c, int64_t d,
                const char *name, const char *name2, const void *data, size_t n_bytes) {
    int kept = errno;
    struct header head = {.op = op, .call = call_number(call), .number = {a, b, c, d},
                          .name_bytes = {name ? strlen(name) : 0, name2 ? strlen(name2) : 0},
                          .data_bytes = n_bytes};
    struct iovec part[] = {{&head, sizeof head},
                           {(void *)name, head.name_bytes[0]},
                           {(void *)name2, head.name_bytes[1]},
                           {(void *)data, n_bytes}};
    write_out(part, 4);
    errno = kept;
}

/* Write a line of the test into the trace, between the calls; `trace.py` says what it is for. */
void power_trace_note(const char *text) {
    ENTER;
    if (is_tracing()) add(OP_NOTE, "note", 0, 0, 0, 0, NULL, NULL, text, strlen(text));
    LEAVE;
}

/* ------------------------------------------------------------------ where a path leads */

struct place {
    int parent; /* descriptor of the folder, -1 if it is not watched */
    ino_t folder;
    char name[NAME_MAX + 1];
};

static struct place find(int at, const char *path) {
    struct place place = {.parent = -1};
    char folder[PATH_MAX];
    size_t n = path ? strlen(path) : 0;
    if (!n || n >= sizeof folder || !is_tracing()) return place;
    int kept = errno;
    memcpy(folder, path, n + 1);
    while (n > 1 && folder[n - 1] == '/') folder[--n] = 0;
    char *slash = strrchr(folder, '/');
    const char *last = slash ? slash + 1 : folder;
    if (strlen(last) > NAME_MAX) return place;
    strcpy(place.name, last);
    const char *parent = ".";
    if (slash == folder) parent = "/";
    else if (slash) *slash = 0, parent = folder;
    REAL(openat);
    int fd = real_openat(at, parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat about;
    if (fd >= 0 && !fstat(fd, &about) && is_watched(&about)) {
        place.parent = fd;
        place.folder = about.st_ino;
    } else if (fd >= 0) {
        close(fd);
    }
    errno = kept;
    return place;
}

static void drop(struct place *place) {
    if (place->parent >= 0) {
        int kept = errno;
        close(place->parent);
        errno = kept;
    }
}

static int exists(const struct place *place, struct stat *about) {
    int kept = errno;
    int found = place->parent >= 0
                && !fstatat(place->parent, place->name, about, AT_SYMLINK_NOFOLLOW);
    errno = kept;
    return found;
}

/* Forget an inode whose last name goes away: its number may be used for a file elsewhere. */
static void lost_name(const struct stat *before) {
    if (S_ISDIR(before->st_mode) || before->st_nlink <= 1) unwatch(before->st_ino);
}

static int fd_is_watched(int fd, struct stat *about) {
    int kept = errno;
    int found = is_tracing() && !fstat(fd, about) && is_watched(about);
    errno = kept;
    return found;
}

/* ------------------------------------------------------------------ opening */

static void opened(const char *call, int fd, int flags, const struct place *place, int existed,
                   const struct stat *before) {
    struct stat about;
    if (fd < 0 || place->parent < 0 || fstat(fd, &about)) return;
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        watch(about.st_ino);
        add(OP_CREATE, call, place->folder, about.st_ino, S_ISDIR(about.st_mode), 0, NULL, NULL,
            NULL, 0);
    } else if (!existed && (flags & O_CREAT)) {
        watch(about.st_ino);
        add(OP_CREATE, call, place->folder, about.st_ino, 0, 0, place->name, NULL, NULL, 0);
    } else if (existed && (flags & O_TRUNC) && before->st_size > 0) {
        add(OP_TRUNCATE, call, about.st_ino, 0, 0, 0, NULL, NULL, NULL, 0);
    }
}

static int do_open(const char *call, int at, const char *path, int flags, mode_t mode) {
    REAL(openat);
    if (!(flags & (O_CREAT | O_TRUNC)) && (flags & O_TMPFILE) != O_TMPFILE)
        return real_openat(at, path, flags, mode);
    ENTER;
    struct stat before;
    struct place place;
    if ((flags & O_TMPFILE) == O_TMPFILE) { /* the path is that of the folder */
        char inside[PATH_MAX];
        snprintf(inside, sizeof inside, "%s/x", path);
        place = find(at, inside);
    } else {
        place = find(at, path);
    }
    int existed = exists(&place, &before);
    int fd = real_openat(at, path, flags, mode);
    opened(call, fd, flags, &place, existed, &before);
    drop(&place);
    LEAVE;
    return fd;
}

#define MODE_ARGUMENT                                                                              \
    mode_t mode = 0;                                                                               \
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                                   \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode = va_arg(rest, mode_t);                                                               \
        va_end(rest);                                                                              \
    }

int open(const char *path, int flags, ...) {
    MODE_ARGUMENT
    return do_open("open", AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    MODE_ARGUMENT
    return do_open("open", AT_FDCWD, path, flags | O_LARGEFILE, mode);
}
int openat(int at, const char *path, int flags, ...) {
    MODE_ARGUMENT
    return do_open("openat", at, path, flags, mode);
}
int openat64(int at, const char *path, int flags, ...) {
    MODE_ARGUMENT
    return do_open("openat", at, path, flags | O_LARGEFILE, mode);
}
int __open_2(const char *path, int flags) { return do_open("open", AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return do_open("open", AT_FDCWD, path, flags, 0); }
int __openat_2(int at, const char *path, int flags) { return do_open("openat", at, path, flags, 0); }
int __openat64_2(int at, const char *path, int flags) { return do_open("openat", at, path, flags, 0); }
int creat(const char *path, mode_t mode) {
    return do_open("creat", AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

/* ------------------------------------------------------------------ writing */

static void wrote(const char *call, int fd, off_t offset, const struct iovec *part, int n_parts,
                  ssize_t n_bytes) {
    struct stat about;
    if (n_bytes <= 0 || !fd_is_watched(fd, &about)) return;
    char *data = malloc(n_bytes), *end = data;
    for (int i = 0; i < n_parts && end < data + n_bytes; i++) {
        size_t n = part[i].iov_len, left = data + n_bytes - end;
        memcpy(end, part[i].iov_base, n < left ? n : left);
        end += n < left ? n : left;
    }
    add(OP_WRITE, call, about.st_ino, offset, 0, 0, NULL, NULL, data, n_bytes);
    free(data);
}

/* Record bytes by reading them back, where the caller's buffer is not at hand. */
static void wrote_unseen(const char *call, int fd, off_t offset, ssize_t n_bytes) {
    struct stat about;
    if (n_bytes <= 0 || !fd_is_watched(fd, &about)) return;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    REAL(openat);
    int again = real_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    char *data = malloc(n_bytes);
    ssize_t n = again < 0 ? -1 : pread(again, data, n_bytes, offset);
    if (again >= 0) close(again);
    if (n != n_bytes) abort();
    add(OP_WRITE, call, about.st_ino, offset, 0, 0, NULL, NULL, data, n_bytes);
    free(data);
}

static off_t offset_before(int fd, ssize_t n_bytes) {
    int kept = errno;
    off_t now = n_bytes > 0 ? lseek(fd, 0, SEEK_CUR) : 0;
    errno = kept;
    return now - n_bytes;
}

ssize_t write(int fd, const void *data, size_t n) {
    REAL(write);
    ENTER;
    ssize_t done = real_write(fd, data, n);
    struct iovec part = {(void *)data, n};
    wrote("write", fd, offset_before(fd, done), &part, 1, done);
    LEAVE;
    return done;
}
ssize_t writev(int fd, const struct iovec *part, int n) {
    REAL(writev);
    ENTER;
    ssize_t done = real_writev(fd, part, n);
    wrote("writev", fd, offset_before(fd, done), part, n, done);
    LEAVE;
    return done;
}
static ssize_t do_pwrite(int fd, const void *data, size_t n, off_t offset) {
    REAL(pwrite);
    ENTER;
    ssize_t done = real_pwrite(fd, data, n, offset);
    struct iovec part = {(void *)data, n};
    wrote("pwrite", fd, offset, &part, 1, done);
    LEAVE;
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t offset) {
    return do_pwrite(fd, data, n, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t offset) {
    return do_pwrite(fd, data, n, offset);
}
static ssize_t do_pwritev(int fd, const struct iovec *part, int n, off_t offset) {
    REAL(pwritev);
    ENTER;
    ssize_t done = real_pwritev(fd, part, n, offset);
    wrote("pwritev", fd, offset, part, n, done);
    LEAVE;
    return done;
}
ssize_t pwritev(int fd, const struct iovec *part, int n, off_t offset) {
    return do_pwritev(fd, part, n, offset);
}
ssize_t pwritev64(int fd, const struct iovec *part, int n, off64_t offset) {
    return do_pwritev(fd, part, n, offset);
}
static ssize_t do_pwritev2(int fd, const struct iovec *part, int n, off_t offset, int flags) {
    REAL(pwritev2);
    ENTER;
    ssize_t done = real_pwritev2(fd, part, n, offset, flags);
    wrote("pwritev2", fd, offset == -1 ? offset_before(fd, done) : offset, part, n, done);
    struct stat about;
    if (done > 0 && (flags & (RWF_SYNC | RWF_DSYNC)) && fd_is_watched(fd, &about))
        add(OP_SYNC, "fdatasync", about.st_ino, 1, 0, 0, NULL, NULL, NULL, 0);
    LEAVE;
    return done;
}
ssize_t pwritev2(int fd, const struct iovec *part, int n, off_t offset, int flags) {
    return do_pwritev2(fd, part, n, offset, flags);
}
/* glibc exports the variant for large files under this name. */
ssize_t pwritev64v2(int fd, const struct iovec *part, int n, off64_t offset, int flags) {
    return do_pwritev2(fd, part, n, offset, flags);
}
static ssize_t do_sendfile(int out, int in, off_t *offset, size_t n) {
    REAL(sendfile);
    ENTER;
    ssize_t done = real_sendfile(out, in, offset, n);
    wrote_unseen("sendfile", out, offset_before(out, done), done);
    LEAVE;
    return done;
}
ssize_t sendfile(int out, int in, off_t *offset, size_t n) {
    return do_sendfile(out, in, offset, n);
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t n) {
    return do_sendfile(out, in, (off_t *)offset, n);
}
ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t n,
                        unsigned flags) {
    REAL(copy_file_range);
    ENTER;
    off_t offset = out_at ? *out_at : 0;
    ssize_t done = real_copy_file_range(in, in_at, out, out_at, n, flags);
    wrote_unseen("copy_file_range", out, out_at ? offset : offset_before(out, done), done);
    LEAVE;
    return done;
}

static int do_ftruncate(int fd, off_t size) {
    REAL(ftruncate);
    ENTER;
    int failed = real_ftruncate(fd, size);
    struct stat about;
    if (!failed && fd_is_watched(fd, &about))
        add(OP_TRUNCATE, "ftruncate", about.st_ino, size, 0, 0, NULL, NULL, NULL, 0);
    LEAVE;
    return failed;
}
int ftruncate(int fd, off_t size) { return do_ftruncate(fd, size); }
int ftruncate64(int fd, off64_t size) { return do_ftruncate(fd, size); }
static int do_truncate(const char *path, off_t size) {
    REAL(truncate);
    ENTER;
    int failed = real_truncate(path, size);
    struct stat about;
    if (!failed && is_tracing() && !stat(path, &about) && is_watched(&about))
        add(OP_TRUNCATE, "truncate", about.st_ino, size, 0, 0, NULL, NULL, NULL, 0);
    LEAVE;
    return failed;
}
int truncate(const char *path, off_t size) { return do_truncate(path, size); }
int truncate64(const char *path, off64_t size) { return do_truncate(path, size); }
static int do_fallocate(int fd, int mode, off_t offset, off_t n) {
    REAL(fallocate);
    ENTER;
    int failed = real_fallocate(fd, mode, offset, n);
    struct stat about;
    if (!failed && fd_is_watched(fd, &about))
        add(OP_ALLOCATE, "fallocate", about.st_ino, mode, offset, n, NULL, NULL, NULL, 0);
    LEAVE;
    return failed;
}
int fallocate(int fd, int mode, off_t offset, off_t n) { return do_fallocate(fd, mode, offset, n); }
int fallocate64(int fd, int mode, off64_t offset, off64_t n) {
    return do_fallocate(fd, mode, offset, n);
}
static int do_posix_fallocate(int fd, off_t offset, off_t n) {
    REAL(posix_fallocate);
    ENTER;
    int failed = real_posix_fallocate(fd, offset, n);
    struct stat about;
    if (!failed && fd_is_watched(fd, &about))
        add(OP_ALLOCATE, "posix_fallocate", about.st_ino, 0, offset, n, NULL, NULL, NULL, 0);
    LEAVE;
    return failed;
}
int posix_fallocate(int fd, off_t offset, off_t n) { return do_posix_fallocate(fd, offset, n); }
int posix_fallocate64(int fd, off64_t offset, off64_t n) {
    return do_posix_fallocate(fd, offset, n);
}

/* ------------------------------------------------------------------ streams */

/* The C library writes from inside its streams, where no wrapper sees it: so after each call on a
 * stream below the root, what the file has gained is recorded.  Streams must only append. */
#define STREAMS_MAX 64
static struct { FILE *stream; off_t size; } streams[STREAMS_MAX];

static int stream_index(FILE *stream) {
    for (int i = 0; stream && i < STREAMS_MAX; i++)
        if (streams[i].stream == stream) return i;
    return -1;
}

static void stream_grew(int i, int fd) {
    struct stat about;
    int kept = errno;
    if (!fstat(fd, &about) && about.st_size > streams[i].size) {
        wrote_unseen("fwrite", fd, streams[i].size, about.st_size - streams[i].size);
        streams[i].size = about.st_size;
    }
    errno = kept;
}

static FILE *do_fopen(const char *path, const char *mode) {
    REAL(fopen);
    ENTER;
    struct stat before, about;
    struct place place = {.parent = -1};
    if (mode[0] != 'r' || strchr(mode, '+')) place = find(AT_FDCWD, path);
    int existed = exists(&place, &before);
    FILE *stream = real_fopen(path, mode);
    if (stream && place.parent >= 0) {
        int flags = (mode[0] == 'r' ? 0 : O_CREAT) | (mode[0] == 'w' ? O_TRUNC : 0);
        opened("fopen", fileno(stream), flags, &place, existed, &before);
        int i = 0;
        while (i < STREAMS_MAX && streams[i].stream) i++;
        if (i == STREAMS_MAX) abort();
        streams[i].stream = stream;
        streams[i].size = fstat(fileno(stream), &about) ? 0 : about.st_size;
    }
    drop(&place);
    LEAVE;
    return stream;
}
FILE *fopen(const char *path, const char *mode) { return do_fopen(path, mode); }
FILE *fopen64(const char *path, const char *mode) { return do_fopen(path, mode); }

#define STREAM_CALL(kind, name, parameters, arguments)                                             \
    kind name parameters {                                                                         \
        REAL(name);                                                                                \
        ENTER;                                                                                     \
        kind result = real_##name arguments;                                                       \
        int i = stream_index(stream);                                                              \
        if (i >= 0) stream_grew(i, fileno(stream));                                                \
        LEAVE;                                                                                     \
        return result;                                                                             \
    }
STREAM_CALL(size_t, fwrite, (const void *data, size_t size, size_t n, FILE *stream),
            (data, size, n, stream))
#undef fwrite_unlocked /* a macro, if the compiler optimises */
STREAM_CALL(size_t, fwrite_unlocked, (const void *data, size_t size, size_t n, FILE *stream),
            (data, size, n, stream))
STREAM_CALL(int, fflush, (FILE *stream), (stream))
STREAM_CALL(int, fputs, (const char *text, FILE *stream), (text, stream))
STREAM_CALL(int, fputc, (int character, FILE *stream), (character, stream))
STREAM_CALL(int, vfprintf, (FILE *stream, const char *format, va_list rest),
            (stream, format, rest))
int fprintf(FILE *stream, const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    int result = vfprintf(stream, format, rest);
    va_end(rest);
    return result;
}
int fclose(FILE *stream) {
    REAL(fclose);
    ENTER;
    int i = stream_index(stream);
    int again = i >= 0 ? dup(fileno(stream)) : -1;
    int result = real_fclose(stream);
    if (i >= 0) {
        stream_grew(i, again);
        close(again);
        streams[i].stream = NULL;
    }
    LEAVE;
    return result;
}

/* ------------------------------------------------------------------ syncs */

#define SYNC_CALL(name, is_data)                                                                   \
    int name(int fd) {                                                                             \
        REAL(name);                                                                                \
        ENTER;                                                                                     \
        struct stat about;                                                                         \
        int watched = fd_is_watched(fd, &about);                                                   \
        int failed = real_##name(fd);                                                              \
        if (!failed && watched)                                                                    \
            add(OP_SYNC, #name, about.st_ino, is_data, 0, 0, NULL, NULL, NULL, 0);                 \
        LEAVE;                                                                                     \
        return failed;                                                                             \
    }
SYNC_CALL(fsync, 0)
SYNC_CALL(fdatasync, 1)

int syncfs(int fd) {
    REAL(syncfs);
    ENTER;
    struct stat about;
    int failed = real_syncfs(fd);
    if (!failed && is_tracing() && !fstat(fd, &about) && about.st_dev == device)
        add(OP_SYNC_ALL, "syncfs", 0, 0, 0, 0, NULL, NULL, NULL, 0);
    LEAVE;
    return failed;
}
void sync(void) {
    REAL(sync);
    ENTER;
    real_sync();
    if (is_tracing()) add(OP_SYNC_ALL, "sync", 0, 0, 0, 0, NULL, NULL, NULL, 0);
    LEAVE;
}
/* sync_file_range and msync need no record: the first promises nothing after a power cut, and the
 * second is only useful with a shared mapping, which is recorded as unsupported below. */

/* ------------------------------------------------------------------ names */

static int do_rename(const char *call, int from_at, const char *from, int to_at, const char *to,
                     unsigned flags) {
    REAL(renameat2);
    ENTER;
    struct place old = find(from_at, from), new = find(to_at, to);
    struct stat moved, replaced;
    int is_moved = exists(&old, &moved), is_replaced = exists(&new, &replaced);
    int failed = real_renameat2(from_at, from, to_at, to, flags);
    if (!failed && is_tracing() && (old.parent >= 0 || new.parent >= 0)) {
        int is_same = is_moved && is_replaced && moved.st_ino == replaced.st_ino;
        if (old.parent < 0 || new.parent < 0)
            add(OP_UNSUPPORTED, call, 0, 0, 0, 0, from, to, NULL, 0); /* across the root */
        else if (!is_same) {
            add(OP_RENAME, call, old.folder, new.folder, flags, 0, old.name, new.name, NULL, 0);
            if (is_replaced && !(flags & RENAME_EXCHANGE)) lost_name(&replaced);
        }
    }
    drop(&old);
    drop(&new);
    LEAVE;
    return failed;
}
int rename(const char *from, const char *to) {
    return do_rename("rename", AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int from_at, const char *from, int to_at, const char *to) {
    return do_rename("renameat", from_at, from, to_at, to, 0);
}
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    return do_rename("renameat2", from_at, from, to_at, to, flags);
}

static int do_link(const char *call, int from_at, const char *from, int to_at, const char *to,
                   int flags) {
    REAL(linkat);
    ENTER;
    struct place new = find(to_at, to);
    int failed = real_linkat(from_at, from, to_at, to, flags);
    struct stat about;
    if (!failed && exists(&new, &about)) {
        if (is_watched(&about))
            add(OP_LINK, call, about.st_ino, new.folder, 0, 0, new.name, NULL, NULL, 0);
        else
            add(OP_UNSUPPORTED, call, 0, 0, 0, 0, from, to, NULL, 0); /* a file from elsewhere */
    }
    drop(&new);
    LEAVE;
    return failed;
}
int link(const char *from, const char *to) {
    return do_link("link", AT_FDCWD, from, AT_FDCWD, to, 0);
}
int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    return do_link("linkat", from_at, from, to_at, to, flags);
}

static int do_unlink(const char *call, int at, const char *path, int flags) {
    REAL(unlinkat);
    ENTER;
    struct place place = find(at, path);
    struct stat about;
    int existed = exists(&place, &about);
    int failed = real_unlinkat(at, path, flags);
    if (!failed && existed) {
        add(flags & AT_REMOVEDIR ? OP_RMDIR : OP_UNLINK, call, place.folder, 0, 0, 0, place.name,
            NULL, NULL, 0);
        lost_name(&about);
    }
    drop(&place);
    LEAVE;
    return failed;
}
int unlink(const char *path) { return do_unlink("unlink", AT_FDCWD, path, 0); }
int unlinkat(int at, const char *path, int flags) { return do_unlink("unlinkat", at, path, flags); }
int rmdir(const char *path) { return do_unlink("rmdir", AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    struct stat about;
    int is_folder = !lstat(path, &about) && S_ISDIR(about.st_mode);
    return do_unlink("remove", AT_FDCWD, path, is_folder ? AT_REMOVEDIR : 0);
}

static int do_mkdir(const char *call, int at, const char *path, mode_t mode) {
    REAL(mkdirat);
    ENTER;
    struct place place = find(at, path);
    int failed = real_mkdirat(at, path, mode);
    struct stat about;
    if (!failed && exists(&place, &about)) {
        watch(about.st_ino);
        add(OP_CREATE, call, place.folder, about.st_ino, 1, 0, place.name, NULL, NULL, 0);
    }
    drop(&place);
    LEAVE;
    return failed;
}
int mkdir(const char *path, mode_t mode) { return do_mkdir("mkdir", AT_FDCWD, path, mode); }
int mkdirat(int at, const char *path, mode_t mode) { return do_mkdir("mkdirat", at, path, mode); }

/* ------------------------------------------------------------------ what is not followed */

static void refuse_path(const char *call, int at, const char *path) {
    struct place place = find(at, path);
    if (place.parent >= 0) add(OP_UNSUPPORTED, call, 0, 0, 0, 0, path, NULL, NULL, 0);
    drop(&place);
}
int symlinkat(const char *target, int at, const char *path) {
    REAL(symlinkat);
    ENTER;
    refuse_path("symlinkat", at, path);
    int failed = real_symlinkat(target, at, path);
    LEAVE;
    return failed;
}
int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }

static void *do_mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset) {
    REAL(mmap);
    struct stat about;
    int is_shared = (flags & MAP_TYPE) != MAP_PRIVATE && !(flags & MAP_ANONYMOUS);
    if (is_shared && (protection & PROT_WRITE)) {
        ENTER;
        if (fd_is_watched(fd, &about))
            add(OP_UNSUPPORTED, "mmap", about.st_ino, 0, 0, 0, NULL, NULL, NULL, 0);
        LEAVE;
    }
    return real_mmap(address, n, protection, flags, fd, offset);
}
void *mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset) {
    return do_mmap(address, n, protection, flags, fd, offset);
}
void *mmap64(void *address, size_t n, int protection, int flags, int fd, off64_t offset) {
    return do_mmap(address, n, protection, flags, fd, offset);
}
