/* The cache's files: one that grows is read, and renamed while it is open, as the model that
 * arrives is.
 * SPDX-License-Identifier: MIT */
#include "store.h"
#include "test.h"

#include <stdlib.h>

static char folder[600], before[700], after[700], why[STORE_WHY];

static void folder_make(void)
{
    const char *tmp = getenv("TMPDIR");
    const uint64_t now = qsf_platform_native()->now_ns(NULL);
    snprintf(folder, sizeof folder, "%.400s/qsf_store_test_%llu", tmp && *tmp ? tmp : "/tmp",
             (unsigned long long)now);
    snprintf(before, sizeof before, "%s/a.incomplete", folder);
    snprintf(after, sizeof after, "%s/a", folder);
    CHECK(store_make(folder, why));
}

TEST(a_file_that_is_read_grows_and_gets_another_name)
{
    uint64_t len = 1;
    char got[5] = "";
    folder_make();
    store_file *writes = store_open(before, &len, why), *reads = store_open_again(before);
    CHECK(writes && reads);
    CHECK_EQ(len, 0);
    CHECK(store_write(writes, 0, "abcd", 4, why));
    CHECK_EQ(store_read(reads, 1, got, 2), 2);
    CHECK_STR(got, "bc");
    CHECK_EQ(store_read(reads, 3, got, 2), 1);
    CHECK(store_write(writes, 4, "ef", 2, why));
    CHECK(store_close(writes, true, why));
    CHECK(store_rename(before, after, why));
    CHECK_EQ(store_read(reads, 2, got, 4), 4);
    CHECK_STR(got, "cdef");
    CHECK(!store_size(before, &len) && store_size(after, &len));
    CHECK_EQ(len, 6);
    CHECK(store_close(reads, false, why));
    CHECK(store_remove(after) && store_remove(folder));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(a_file_that_is_read_grows_and_gets_another_name);
    return test_end();
}
