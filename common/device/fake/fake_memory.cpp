/* SPDX-License-Identifier: MIT */
/*
 * Memory of the fake GPUs. That of a device cannot be touched (mprotect) but while work runs to
 * which it belongs: whoever does otherwise gets a line on standard error, and the process ends. No
 * address is used twice, so what was freed stays out of reach, too. Memory that nobody has written
 * holds bytes of 0xff, which are NaNs.
 */
#include "common/device/fake/fake_parts.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

const uintptr_t PAGE = 4096, BLOCK = 512 * 1024, ALIGNMENT = 256;
const uintptr_t ROOM = (uintptr_t)1 << 40; /* addresses of a device */
const size_t CONTEXT = (size_t)256 << 20;  /* what a real one takes for itself */

struct piece {
    uintptr_t first, end; /* of its pages */
    void *memory;
    size_t bytes;
    bool live;
};

struct space {
    std::map<uintptr_t, piece> pieces; /* by `end`, those that were freed, too */
    std::set<uintptr_t> written;       /* blocks that work has touched, by first page */
    std::vector<std::pair<uintptr_t, uintptr_t>> open; /* blocks that can be touched now */
    uintptr_t next;
    size_t used;
};

struct pinned {
    size_t bytes;
    bool allocated, freed;
};

space spaces[FAKE_MOST];
std::map<uintptr_t, pinned> pins;
unsigned reach;
uint64_t reacher;    /* the thread that may reach devices */
uint64_t host_turns; /* counts what devices write to the host */

uintptr_t base()
{
    static const uintptr_t at = [] {
        void *room = mmap(nullptr, ROOM * FAKE_MOST, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED)
            ls_fake_refuse("no addresses for its memory; raise the limit of virtual memory");
        return (uintptr_t)room;
    }();
    return at;
}

size_t total_bytes()
{
    const char *mib = getenv("LS_FAKE_MEMORY"); /* of a device, in MiB */
    return (size_t)(mib ? strtoull(mib, nullptr, 10) : 8192) << 20;
}

piece *piece_of(uintptr_t at)
{
    const int device = ls_fake_owner((void *)at);
    if (device < 0)
        return nullptr;
    const auto found = spaces[device].pieces.upper_bound(at);
    return found == spaces[device].pieces.end() || at < found->second.first ? nullptr
                                                                            : &found->second;
}

void protect(uintptr_t first, uintptr_t end, int how)
{
    if (mprotect((void *)first, end - first, how))
        ls_fake_refuse("its memory could not be guarded");
}

/* Opens the block of an address; what is there before anybody has written is not 0. */
void touch(const piece &p, uintptr_t at, space &s)
{
    uintptr_t first = at / BLOCK * BLOCK, end = first + BLOCK;
    first = first < p.first ? p.first : first;
    end = end > p.end ? p.end : end;
    protect(first, end, PROT_READ | PROT_WRITE);
    if (s.written.insert(first).second)
        memset((void *)first, 0xff, end - first);
    s.open.push_back({first, end});
}

void close_blocks(space &s)
{
    for (const auto &block : s.open)
        protect(block.first, block.second, PROT_NONE);
    s.open.clear();
}

[[noreturn]] void accuse(uintptr_t at, int device)
{
    const fake_job *job = fake_running();
    const piece *p = device < 0 ? nullptr : piece_of(at);
    const char *what = !p         ? "past the end of a piece of memory"
                       : !p->live ? "in memory that was freed"
                                  : "in memory that is not in its reach";
    if (device < 0)
        ls_fake_refuse("%s on gpu:%d touched pinned memory that was freed",
                       job ? job->name.c_str() : "the host", job ? job->device : -1);
    if (!reach || reacher != fake_thread() || !job)
        ls_fake_refuse("the host touched memory of gpu:%d (%p), which only its work may do", device,
                       (void *)at);
    ls_fake_refuse("%s on gpu:%d touched memory of gpu:%d (%p), %s", job->name.c_str(), job->device,
                   device, (void *)at, what);
}

void on_fault(int signal, siginfo_t *info, void *)
{
    const uintptr_t at = (uintptr_t)info->si_addr;
    const int device = ls_fake_owner(info->si_addr);
    if (device >= 0) {
        const piece *p = piece_of(at);
        if (!p || !p->live || !(reach >> device & 1) || reacher != fake_thread())
            accuse(at, device);
        touch(*p, at, spaces[device]);
        return;
    }
    const auto pin = pins.upper_bound(at);
    if (pin != pins.begin() && std::prev(pin)->second.freed &&
        at < std::prev(pin)->first + std::prev(pin)->second.bytes)
        accuse(at, -1);
    ::signal(signal, SIG_DFL); /* not ours: it comes again */
}

/* Again and again, since a test's framework may take faults for itself. */
void watch_faults()
{
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, nullptr);
}

/* Whether a device's memory, all of one live piece, has these bytes. */
bool has(const void *memory, size_t bytes)
{
    const piece *p = piece_of((uintptr_t)memory);
    const uintptr_t at = (uintptr_t)memory;
    return p && p->live && at >= (uintptr_t)p->memory &&
           at + bytes <= (uintptr_t)p->memory + p->bytes;
}

uint64_t hash_of(const void *memory, size_t bytes)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, (const char *)memory + i, bytes - i < sizeof word ? bytes - i : sizeof word);
        hash = (hash ^ word) * 0x100000001b3u;
    }
    return hash;
}

} // namespace

int ls_fake_owner(const void *memory)
{
    const uintptr_t at = (uintptr_t)memory;
    return at < base() || at >= base() + ROOM * FAKE_MOST ? -1 : (int)((at - base()) / ROOM);
}

void fake_reach(unsigned devices)
{
    reacher = fake_thread();
    watch_faults();
    for (int d = 0; d < FAKE_MOST; d++)
        if (!(devices >> d & 1))
            close_blocks(spaces[d]);
    reach = devices;
}

/* ---- Memory of devices ----------------------------------------------------------------------- */

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    const auto lock = fake_enter();
    if (!fake_allowed())
        return fake_error(cudaErrorStreamCaptureUnsupported);
    *total = total_bytes();
    *available = *total - CONTEXT - spaces[ls_fake_current()].used;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    const auto lock = fake_enter();
    space &s = spaces[ls_fake_current()];
    size_t available, total;
    const cudaError_t error = cudaMemGetInfo(&available, &total);
    if (error != cudaSuccess)
        return error;
    const size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t paged = (whole + PAGE - 1) / PAGE * PAGE;
    if (whole > available || paged > ROOM - s.next - 2 * PAGE)
        return fake_error(cudaErrorMemoryAllocation);
    const uintptr_t first = base() + ROOM * (uintptr_t)ls_fake_current() + PAGE + s.next;
    const uintptr_t end = first + paged;
    *out = (void *)(end - whole); /* its end is the page's */
    s.pieces[end] = {first, end, *out, bytes, true};
    s.next += paged + PAGE;
    s.used += whole;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    const auto lock = fake_enter();
    if (!memory)
        return cudaSuccess;
    if (!fake_allowed())
        return fake_error(cudaErrorStreamCaptureUnsupported);
    piece *p = piece_of((uintptr_t)memory);
    if (!p || !p->live || p->memory != memory)
        return fake_error(cudaErrorInvalidValue);
    const int device = ls_fake_owner(memory);
    if (fake_busy(device))
        ls_fake_refuse("memory of gpu:%d is freed before the work on it has ended", device);
    space &s = spaces[device];
    p->live = false;
    s.used -= (p->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    close_blocks(s);
    s.written.erase(s.written.lower_bound(p->first), s.written.lower_bound(p->end));
    madvise((void *)p->first, p->end - p->first, MADV_DONTNEED);
    return cudaSuccess;
}

int fake_leaks()
{
    int count = 0;
    for (const space &s : spaces)
        for (const auto &p : s.pieces)
            count += p.second.live;
    for (const auto &pin : pins)
        count += !pin.second.freed;
    return count;
}

/* ---- Pinned memory --------------------------------------------------------------------------- */

bool fake_is_pinned(const void *memory, size_t bytes)
{
    const auto after = pins.upper_bound((uintptr_t)memory);
    return after != pins.begin() && !std::prev(after)->second.freed &&
           (uintptr_t)memory + bytes <= std::prev(after)->first + std::prev(after)->second.bytes;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    const auto lock = fake_enter();
    if (!fake_allowed())
        return fake_error(cudaErrorStreamCaptureUnsupported);
    const size_t paged = (bytes + PAGE - 1) / PAGE * PAGE;
    *out = mmap(nullptr, paged, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*out == MAP_FAILED)
        return fake_error(cudaErrorMemoryAllocation);
    memset(*out, 0xff, paged);
    pins[(uintptr_t)*out] = {paged, true, false};
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    const auto lock = fake_enter();
    const auto pin = pins.find((uintptr_t)memory);
    if (!fake_allowed())
        return fake_error(cudaErrorStreamCaptureUnsupported);
    if (pin == pins.end() || !pin->second.allocated || pin->second.freed)
        return fake_error(cudaErrorInvalidValue);
    pin->second.freed = true;
    madvise(memory, pin->second.bytes, MADV_DONTNEED);
    protect(pin->first, pin->first + pin->second.bytes, PROT_NONE);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned)
{
    const auto lock = fake_enter();
    const uintptr_t at = (uintptr_t)memory;
    if (!fake_allowed())
        return fake_error(cudaErrorStreamCaptureUnsupported);
    if (!bytes || ls_fake_owner(memory) >= 0)
        return fake_error(cudaErrorInvalidValue);
    for (const auto &pin : pins)
        if (!pin.second.freed && at < pin.first + pin.second.bytes && pin.first < at + bytes)
            return fake_error(cudaErrorHostMemoryAlreadyRegistered);
    pins[at] = {bytes, false, false};
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *memory)
{
    const auto lock = fake_enter();
    const auto pin = pins.find((uintptr_t)memory);
    if (!fake_allowed())
        return fake_error(cudaErrorStreamCaptureUnsupported);
    if (pin == pins.end() || pin->second.allocated)
        return fake_error(cudaErrorHostMemoryNotRegistered);
    pins.erase(pin);
    return cudaSuccess;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static cudaError_t put(CUstream_st *stream, const char *name, unsigned devices,
                       std::function<void()> run)
{
    fake_job job = {name,  stream->device, devices | 1u << stream->device,
                    false, std::move(run), nullptr};
    return fake_put(stream, std::make_shared<fake_job>(std::move(job)));
}

/* Whether work of a device may touch memory without naming its device. */
static bool is_near(int device, const void *memory)
{
    const int owner = ls_fake_owner(memory);
    return owner == device || (owner >= 0 && fake_peers(device) >> owner & 1);
}

static cudaError_t copy_in(CUstream_st *stream, void *to, const void *from, size_t bytes)
{
    const bool pinned = fake_is_pinned(from, bytes), captured = stream->capture != nullptr;
    const unsigned owner = 1u << ls_fake_owner(to);
    if (!pinned) { /* is staged by the driver at once */
        if (captured) {
            fake_spoil(stream->capture);
            return cudaErrorStreamCaptureUnsupported;
        }
        const std::string staged((const char *)from, bytes);
        return put(stream, "a copy from pageable memory", owner,
                   [=] { memcpy(to, staged.data(), bytes); });
    }
    const uint64_t hash = captured ? 0 : hash_of(from, bytes), turn = host_turns;
    return put(stream, "a copy from the host", owner, [=] {
        if (!captured && turn == host_turns && hash != hash_of(from, bytes))
            ls_fake_refuse("the host changed %zu bytes before the copy from them had run", bytes);
        memcpy(to, from, bytes);
    });
}

static cudaError_t copy_out(CUstream_st *stream, void *to, const void *from, size_t bytes)
{
    const bool pinned = fake_is_pinned(to, bytes);
    if (!pinned && stream->capture) {
        fake_spoil(stream->capture);
        return cudaErrorStreamCaptureUnsupported;
    }
    const cudaError_t error = put(stream, "a copy to the host", 1u << ls_fake_owner(from), [=] {
        host_turns++;
        memcpy(to, from, bytes);
    });
    if (!pinned && error == cudaSuccess)
        fake_wait(stream->last);
    return error;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t handle)
{
    const auto lock = fake_enter();
    CUstream_st *stream = fake_stream(handle);
    const bool in = kind == cudaMemcpyHostToDevice, out = kind == cudaMemcpyDeviceToHost;
    if (!bytes)
        return cudaSuccess;
    if ((!in && !out && kind != cudaMemcpyDeviceToDevice) ||
        (in ? ls_fake_owner(from) >= 0 : !has(from, bytes) || !is_near(stream->device, from)) ||
        (out ? ls_fake_owner(to) >= 0 : !has(to, bytes) || !is_near(stream->device, to)))
        return fake_error(cudaErrorInvalidValue);
    if (in)
        return fake_error(copy_in(stream, to, from, bytes));
    if (out)
        return fake_error(copy_out(stream, to, from, bytes));
    return fake_error(put(stream, "a copy", 1u << ls_fake_owner(from) | 1u << ls_fake_owner(to),
                          [=] { memmove(to, from, bytes); }));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t handle)
{
    const auto lock = fake_enter();
    CUstream_st *stream = fake_stream(handle);
    if (!bytes)
        return cudaSuccess;
    if (!has(to, bytes) || !has(from, bytes) || ls_fake_owner(to) != to_device ||
        ls_fake_owner(from) != from_device)
        return fake_error(cudaErrorInvalidValue);
    return fake_error(put(stream, "a copy between GPUs", 1u << to_device | 1u << from_device,
                          [=] { memmove(to, from, bytes); }));
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t handle)
{
    const auto lock = fake_enter();
    CUstream_st *stream = fake_stream(handle);
    if (!bytes)
        return cudaSuccess;
    if (!has(memory, bytes) || !is_near(stream->device, memory))
        return fake_error(cudaErrorInvalidValue);
    return fake_error(put(stream, "a clearing", 1u << ls_fake_owner(memory),
                          [=] { memset(memory, value, bytes); }));
}

/* From pageable memory it returns when the bytes are staged. */
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    const auto lock = fake_enter();
    if (!fake_allowed())
        return fake_error(cudaErrorStreamCaptureUnsupported);
    const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, cudaStreamLegacy);
    if (error == cudaSuccess && !(kind == cudaMemcpyHostToDevice && !fake_is_pinned(from, bytes)))
        fake_wait(fake_stream(cudaStreamLegacy)->last);
    return error;
}
