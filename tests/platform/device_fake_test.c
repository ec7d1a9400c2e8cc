/* The WebGPU device on a library that fails on demand (fake_webgpu.c): no memory, lost devices,
 * answers that never come, libraries that are none.
 * SPDX-License-Identifier: MIT
 *
 *   device_fake_test FOLDER      whole/ has the library, old/ one that lacks a function */
#include "base/device.h"
#include "fake_webgpu.h"
#include "native.h"
#include "test.h"

#define SECOND UINT64_C(1000000000)

static char whole[2048], old[2048];
static const char *folder;
static qsf_devices *found;
static qsf_error error;
static fake_set_fn set;
static fake_alive_fn alive;

static qsf_device *fake_device(void)
{
    qsf_device *d = NULL;
    CHECK_EQ(found->open(found, 0, &d, &error), QSF_OK);
    return d;
}

static void says(qsf_status st, const char *words)
{
    CHECK_EQ(error.status, st);
    if (!strstr(error.text, words)) {
        CHECK(!"the text of the error");
        printf("      \"%s\" has no \"%s\"\n", error.text, words);
    }
}

static const uint8_t one_buffer[] = { QSF_BINDING_STORAGE };
static const qsf_device_shader shader = { "a program", "any text", "main", one_buffer, 1 };

/* ---- libraries ---- */
TEST(a_library_is_found_or_not)
{
    qsf_devices *d = (qsf_devices *)&error;
    CHECK_EQ(qsf_devices_open(NULL, "no/such/library.so", &d, &error), QSF_E_NOT_FOUND);
    CHECK(d == NULL);
    says(QSF_E_NOT_FOUND, "cannot be loaded");
    CHECK_EQ(qsf_devices_open(NULL, old, &d, &error), QSF_E_UNSUPPORTED);
    CHECK(d == NULL);
    says(QSF_E_UNSUPPORTED, "wgpuGetInstanceLimits");
    qsf_platform bare = { .size = offsetof(qsf_platform, devices) };        /* a host that knows of no GPUs */
    CHECK_EQ(qsf_devices_open(&bare, NULL, &d, &error), QSF_E_UNSUPPORTED);
    says(QSF_E_UNSUPPORTED, "GPU");
    qsf_devices_close(NULL);
}

TEST(devices_are_described)
{
    qsf_device_info info = { .size = sizeof info };
    CHECK_EQ(found->n, 1);          /* the fastest and the most frugal are one */
    CHECK_STR(qsf_devices_source(found), whole);
    CHECK_EQ(qsf_devices_get(found, 0, &info), QSF_OK);
    CHECK_STR(info.name, "Fake GPU [31m");
    CHECK_STR(info.vendor, "nobody");
    CHECK_STR(info.backend, "Vulkan");
    CHECK_EQ(info.kind, QSF_DEVICE_INTEGRATED);
    CHECK_EQ(info.max_binding, 1 << 19);
    struct { qsf_device_info info; char more[64]; } larger = { .info.size = sizeof larger };
    memset(larger.more, 7, sizeof larger.more);
    CHECK_EQ(qsf_devices_get(found, 0, &larger.info), QSF_OK);
    CHECK_EQ(larger.more[0], 0);
    info.size = 0;
    CHECK_EQ(qsf_devices_get(found, 0, &info), QSF_E_ARGUMENT);
}

TEST(no_adapter_and_no_device)
{
    qsf_devices *d = NULL;
    qsf_device *device = NULL;
    set(FAKE_NO_ADAPTER, 1);
    CHECK_EQ(qsf_devices_open(NULL, whole, &d, &error), QSF_OK);
    CHECK_EQ(d->n, 0);
    qsf_devices_close(d);
    CHECK_EQ(found->open(found, 0, &device, &error), QSF_E_UNSUPPORTED);     /* it went away */
    CHECK(device == NULL);
    set(FAKE_NO_ADAPTER, 0);
    set(FAKE_NO_DEVICE, 1);
    CHECK_EQ(found->open(found, 0, &device, &error), QSF_E_UNSUPPORTED);
    CHECK(device == NULL);
    says(QSF_E_UNSUPPORTED, "the driver is too old");
    set(FAKE_NO_DEVICE, 0);
}

/* ---- memory ---- */
TEST(a_full_device_is_reported_per_buffer)
{
    qsf_device *d = fake_device();
    qsf_device_id id[3];
    set(FAKE_FULL, 2);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(d->buffer_new(d->user, QSF_DEVICE_STORAGE, 64, &id[i], &error), QSF_OK);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(d->wait(d->user, id[i], SECOND, &error), i == 1 ? QSF_E_MEMORY : QSF_OK);
    CHECK_EQ(d->poll(d->user, id[1], &error), QSF_E_MEMORY);
    says(QSF_E_MEMORY, "Failed to allocate memory");
    CHECK_EQ(d->state(d->user, &error), QSF_OK);
    d->release(d->user, id[1]);
    CHECK_EQ(d->buffer_new(d->user, QSF_DEVICE_STORAGE, 64, &id[1], &error), QSF_OK);
    CHECK_EQ(d->wait(d->user, id[1], SECOND, &error), QSF_OK);
    /* a staging buffer belongs to no number of the caller's */
    uint32_t word = 0;
    qsf_device_id r = 0;
    set(FAKE_FULL, 1);
    CHECK_EQ(d->read_start(d->user, id[0], 0, &word, 4, &r, &error), QSF_OK);
    d->wait(d->user, r, SECOND, &error);
    CHECK_EQ(d->state(d->user, &error), QSF_E_MEMORY);
    says(QSF_E_MEMORY, "no memory for a buffer");
    CHECK_EQ(d->state(d->user, &error), QSF_OK);        /* reported once */
    d->close(d->user);
}

TEST(what_the_library_refuses_is_reported_once)
{
    qsf_device *d = fake_device();
    qsf_device_id a = 0, b = 0;
    CHECK_EQ(d->buffer_new(d->user, QSF_DEVICE_STORAGE, 64, &a, &error), QSF_OK);
    CHECK_EQ(d->buffer_new(d->user, QSF_DEVICE_STORAGE, 64, &b, &error), QSF_OK);
    set(FAKE_REFUSE, 1);
    CHECK_EQ(d->copy(d->user, a, 0, b, 0, 64, &error), QSF_OK);
    CHECK_EQ(d->state(d->user, &error), QSF_E_ARGUMENT);
    says(QSF_E_ARGUMENT, "not like this");
    CHECK_EQ(d->state(d->user, &error), QSF_OK);
    d->close(d->user);
}

/* ---- loss ---- */
TEST(a_device_lost_in_the_middle_ends_everything)
{
    for (int at = 1; at <= 3; at++) {
        qsf_device *d = fake_device();
        void *u = d->user;
        uint32_t word[2] = { 1, 2 };
        qsf_device_id a = 0, p = 0, g = 0, r[2] = { 0, 0 };
        CHECK_EQ(d->buffer_new(u, QSF_DEVICE_STORAGE, 64, &a, &error), QSF_OK);
        CHECK_EQ(d->pipeline_new(u, &shader, &p, &error), QSF_OK);
        CHECK_EQ(d->wait(u, p, SECOND, &error), QSF_OK);
        CHECK_EQ(d->group_new(u, p, &(qsf_device_range){ a, 0, 64 }, 1, &g, &error), QSF_OK);
        set(FAKE_LOSE, at);
        set(FAKE_SILENT, 1);
        CHECK_EQ(d->submit(u, &(qsf_device_dispatch){ p, g, 1, 1, 1 }, 1, &error), QSF_OK);
        CHECK_EQ(d->read_start(u, a, 0, &word[0], 4, &r[0], &error), QSF_OK);
        CHECK_EQ(d->read_start(u, a, 0, &word[1], 4, &r[1], &error), QSF_OK);
        for (int i = 0; i < 2; i++) CHECK_EQ(d->wait(u, r[i], SECOND, &error), QSF_E_IO);
        says(QSF_E_IO, "the driver was reset");
        CHECK_EQ(d->state(u, &error), QSF_E_IO);
        CHECK_EQ(d->submit(u, &(qsf_device_dispatch){ p, g, 1, 1, 1 }, 1, &error), QSF_E_IO);
        CHECK_EQ(d->poll(u, p, &error), QSF_E_IO);
        CHECK(word[0] == 1 && word[1] == 2);
        set(FAKE_SILENT, 0);
        d->close(u);
    }
}

/* A wait ends after its time, and what is given up touches no memory later. */
TEST(a_silent_device_hangs_nobody)
{
    qsf_device *d = fake_device();
    uint32_t word = 3;
    qsf_device_id a = 0, p = 0, r = 0;
    set(FAKE_SILENT, 1);
    CHECK_EQ(d->buffer_new(d->user, QSF_DEVICE_STORAGE, 64, &a, &error), QSF_OK);
    CHECK_EQ(d->pipeline_new(d->user, &shader, &p, &error), QSF_OK);
    CHECK_EQ(d->read_start(d->user, a, 0, &word, 4, &r, &error), QSF_OK);
    CHECK_EQ(d->poll(d->user, p, &error), QSF_PENDING);
    CHECK_EQ(d->wait(d->user, p, SECOND / 50, &error), QSF_PENDING);
    CHECK_EQ(d->wait(d->user, r, SECOND / 50, &error), QSF_PENDING);
    const qsf_device_dispatch early = { p, 0, 1, 1, 1 };
    CHECK_EQ(d->submit(d->user, &early, 1, &error), QSF_E_ARGUMENT);
    says(QSF_E_ARGUMENT, "ready");
    d->release(d->user, r);
    d->release(d->user, p);
    CHECK_EQ(d->poll(d->user, r, &error), QSF_E_ARGUMENT);
    set(FAKE_SILENT, 0);
    CHECK_EQ(d->state(d->user, &error), QSF_OK);
    CHECK_EQ(word, 3);
    d->close(d->user);
}

/* ---- numbers ---- */
TEST(numbers_are_used_again)
{
    qsf_device *d = fake_device();
    qsf_device_id id[1000], most = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++) {
            CHECK_EQ(d->buffer_new(d->user, QSF_DEVICE_STORAGE, 4, &id[i], &error), QSF_OK);
            if (id[i] > most) most = id[i];
            d->state(d->user, NULL);
            if (i % 3 == 0) d->release(d->user, id[i]);
        }
        for (int i = 0; i < 1000; i++) if (i % 3) d->release(d->user, id[i]);
    }
    CHECK(most <= 1000);
    d->close(d->user);
}

/* After all of the above nothing is left in the library but the list's own instance. */
TEST(every_handle_is_released) { CHECK_EQ(alive(), 1); }

int main(int argc, char **argv)
{
    folder = argc > 1 ? argv[1] : ".";
    test_begin(argc - 1, argv + 1);
    snprintf(whole, sizeof whole, "%s/whole/" FAKE_FILE, folder);
    snprintf(old, sizeof old, "%s/old/" FAKE_FILE, folder);
    char why[256];
    void *library = qsf_native_library(whole, why, sizeof why);
    if (!library) {
        printf("%s\n", why);
        return 1;
    }
    const native_fn a = qsf_native_symbol(library, "fake_webgpu_set"),
        b = qsf_native_symbol(library, "fake_webgpu_alive");
    set = (fake_set_fn)a;
    alive = (fake_alive_fn)b;
    if (qsf_devices_open(NULL, whole, &found, &error)) {
        printf("%s\n", error.text);
        return 1;
    }
    RUN(a_library_is_found_or_not);
    RUN(devices_are_described);
    RUN(no_adapter_and_no_device);
    RUN(a_full_device_is_reported_per_buffer);
    RUN(what_the_library_refuses_is_reported_once);
    RUN(a_device_lost_in_the_middle_ends_everything);
    RUN(a_silent_device_hangs_nobody);
    RUN(numbers_are_used_again);
    RUN(every_handle_is_released);
    qsf_devices_close(found);
    return test_end();
}
