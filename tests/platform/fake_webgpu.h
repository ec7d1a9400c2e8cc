/* What device_fake_test.c tells the library of fake_webgpu.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_FAKE_WEBGPU_H
#define QSF_FAKE_WEBGPU_H

enum {
    FAKE_NO_ADAPTER,        /* 1: none is found */
    FAKE_NO_DEVICE,         /* 1: the adapter makes none */
    FAKE_FULL,              /* n: the nth buffer from now finds no memory */
    FAKE_LOSE,              /* n: the nth submit from now loses the device */
    FAKE_REFUSE,            /* n: the nth submit from now is invalid */
    FAKE_SILENT,            /* 1: pipelines are never ready, and nothing is mapped */
    FAKE_KNOBS
};
typedef void (*fake_set_fn)(int knob, int value);
typedef int  (*fake_alive_fn)(void);

#endif
