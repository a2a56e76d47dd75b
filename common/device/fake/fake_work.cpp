/* SPDX-License-Identifier: MIT */
/*
 * Work of the fake GPUs: tasks that wait for others. None runs before a thread waits for something,
 * or asks whether it is done; then, at random, either only what is waited for, or whatever is
 * allowed. So a missing wait is seen: what should have been waited for was not run.
 */
#include "common/device/fake/fake_parts.h"
#include "common/device/fake/fake_random.h"

#include <condition_variable>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <xmmintrin.h>

static std::recursive_mutex mutex;
static std::condition_variable_any changed;
static std::vector<fake_task_ref> ready; /* in any order */
static unsigned pending[FAKE_MOST];
static bool held_up;
static uint64_t waits;
static const fake_job *running;

std::unique_lock<std::recursive_mutex> fake_enter()
{
    return std::unique_lock<std::recursive_mutex>(mutex);
}

const fake_job *fake_running()
{
    return running;
}

void ls_fake_refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "fake GPU: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

void fake_depend(const fake_task_ref &task, const fake_task_ref &on)
{
    if (!on || on->done)
        return;
    task->after.push_back(on);
    on->before.push_back(task);
    task->waits++;
}

fake_task_ref fake_add(fake_job_ref job, const std::vector<fake_task_ref> &after)
{
    auto task = std::make_shared<fake_task>();
    task->job = std::move(job);
    for (const fake_task_ref &one : after)
        fake_depend(task, one);
    if (task->job)
        pending[task->job->device]++;
    if (!task->waits)
        ready.push_back(task);
    return task;
}

bool fake_busy(int device)
{
    return pending[device] != 0;
}

static void finish(const fake_task_ref &task)
{
    task->done = true;
    task->after.clear();
    if (task->job)
        pending[task->job->device]--;
    for (const fake_task_ref &next : task->before)
        if (!--next->waits)
            ready.push_back(next);
    task->before.clear();
}

bool fake_held_up()
{
    return held_up;
}

static void run_on_host(fake_task_ref task)
{
    held_up = true;
    std::thread([task] {
        task->job->run();
        const auto lock = fake_enter();
        finish(task);
        changed.notify_all();
    }).detach();
}

/* Denormals are flushed, as kernels are compiled (ci/cmake/Cuda.cmake). */
static void run_job(const fake_job &job)
{
    const unsigned before = _mm_getcsr();
    const fake_job *outer = running;
    running = &job;
    fake_reach(job.devices);
    _mm_setcsr(before | 0x8040u);
    job.run();
    _mm_setcsr(before);
    running = outer;
}

static void run(const fake_task_ref &task)
{
    if (task->job && task->job->on_host) {
        run_on_host(task);
        return;
    }
    if (task->job && task->job->run)
        run_job(*task->job);
    if (task->expand)
        task->expand(*task);
    task->expand = nullptr; /* which holds another task */
    finish(task);
}

/* Runs one task that could run, chosen at random; only those that are wanted by a wait, if that is
 * not 0. False: there is none. */
static bool step(uint64_t wait)
{
    const size_t count = ready.size();
    const size_t first = count ? fake_random((unsigned)count) : 0;
    for (size_t i = 0; i < count; i++) {
        const size_t at = (first + i) % count;
        const fake_task_ref task = ready[at];
        if ((wait && task->wanted != wait) ||
            (task->job && task->job->ready && !task->job->ready()))
            continue;
        ready[at] = ready.back();
        ready.pop_back();
        run(task);
        return true;
    }
    return false;
}

/* Marks a task and all that it comes after. */
static void want(const fake_task_ref &task, uint64_t wait)
{
    std::vector<fake_task *> stack = {task.get()};
    while (!stack.empty()) {
        fake_task *now = stack.back();
        stack.pop_back();
        if (now->wanted == wait)
            continue;
        now->wanted = wait;
        for (const fake_task_ref &one : now->after)
            stack.push_back(one.get());
    }
}

void fake_wait(const fake_task_ref &task)
{
    if (!task || task->done)
        return;
    const uint64_t wait = ++waits;
    const unsigned eager = fake_random(4); /* of four tasks, so many may be any */
    want(task, wait);
    while (!task->done) {
        if (step(fake_random(4) < eager && fake_random(2) ? 0 : wait) || step(wait) || step(0))
            continue;
        fake_reach(0);
        changed.wait_for(mutex, std::chrono::microseconds(200)); /* another thread has to act */
    }
    fake_reach(0);
}

void fake_progress()
{
    for (unsigned left = 1 + fake_random(16); left && step(0); left--) {
    }
    fake_reach(0);
}

void fake_drain()
{
    while (!ready.empty() && step(0)) {
    }
    fake_reach(0);
}
