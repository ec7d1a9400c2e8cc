/* Names of models and the choice among a repository's files, by the cases that
 * js/test/hub.node.test.js has, too.
 * SPDX-License-Identifier: MIT */
#include "address.h"
#include "name.h"
#include "test.h"
#include "text/json.h"

static qsf_json cases;

/* The cases of this name; tests run in the tree's root. */
static const qsf_json_node *cases_of(const char *name)
{
    static char text[1 << 16];
    qsf_error err = { 0 };
    if (!cases.nodes) {
        FILE *f = fopen("tests/golden/hub_names.json", "rb");
        CHECK(f != NULL);
        const size_t n = f ? fread(text, 1, sizeof text, f) : 0;
        if (f) fclose(f);
        CHECK(qsf_json_read(qsf_platform_native(), text, n, "cases", &cases, &err) == QSF_OK);
    }
    const qsf_json_node *found = qsf_json_member(cases.nodes, name);
    CHECK(found && found->n > 0);
    return found;
}

#define EACH(item, list)                                                                                    \
    (const qsf_json_node *item = qsf_json_first(list), *end = (list) + (list)->skip; item < end;            \
     item = qsf_json_next(item))

static void check_text(const char *of, const char *got, const char *want)
{
    if (!strcmp(got, want)) return;
    fprintf(stderr, "%s: \"%s\", expected \"%s\"\n", of, got, want);
    test_fail(__FILE__, __LINE__, of);
}

static const qsf_json_node *item_of(const qsf_json_node *list, int i)
{
    const qsf_json_node *item = qsf_json_first(list);
    while (i--) item = qsf_json_next(item);
    return item;
}

TEST(names_have_parts)
{
    qsf_error err;
    hub_name n;
    for EACH(c, cases_of("names")) {
        const char *text = item_of(c, 0)->text;
        if (hub_name_read(text, &n, &err)) test_fail(__FILE__, __LINE__, err.text);
        check_text(text, n.repo, item_of(c, 1)->text);
        check_text(text, n.file, item_of(c, 2)->text);
        check_text(text, n.label, item_of(c, 3)->text);
        check_text(text, n.revision, item_of(c, 4)->text);
    }
    for EACH(c, cases_of("wrong"))
        if (hub_name_read(c->text, &n, &err) != QSF_E_ARGUMENT || !strstr(err.text, "OWNER/REPO"))
            test_fail(__FILE__, __LINE__, c->text);
}

TEST(names_stay_within_their_folder)
{
    static const char *const bad[] = { "hf:../..", "hf:a/..", "hf:a/b/../x.gguf", "hf:a/b//x.gguf",
                                       "hf:a/b@../x", "hf:a/b/x:y.gguf", "hf:a/b/c\\d.gguf" };
    qsf_error err;
    hub_name n;
    char text[700] = "hf:a/";
    for (size_t i = 0; i < QSF_ARRAY_LEN(bad); i++)
        if (hub_name_read(bad[i], &n, &err) != QSF_E_ARGUMENT) test_fail(__FILE__, __LINE__, bad[i]);
    memset(text + 5, 'x', sizeof text - 6);
    CHECK(hub_name_read(text, &n, &err) == QSF_E_ARGUMENT);
}

TEST(labels_are_the_last_quantisation_of_a_path)
{
    for EACH(key, cases_of("labels")) {
        char label[64];
        const qsf_json_node *value = qsf_json_next(key);
        hub_label_of(key->text, label, sizeof label);
        check_text(key->text, label, value->text);
        key = value;
    }
}

static void check_repository(const qsf_json_node *c)
{
    hub_files files = { 0 };
    hub_model *all;
    size_t n, i = 0;
    int64_t bytes, parts;
    for EACH(f, qsf_json_member(c, "files")) {
        CHECK(qsf_json_whole(item_of(f, 1), &bytes));
        CHECK(hub_files_add(&files, item_of(f, 0)->text, (uint64_t)bytes));
    }
    CHECK(hub_models(&files, &all, &n));
    CHECK_EQ(n, qsf_json_member(c, "models")->n);
    for EACH(m, qsf_json_member(c, "models")) {
        if (i >= n) break;
        CHECK(qsf_json_whole(item_of(m, 2), &parts) && qsf_json_whole(item_of(m, 3), &bytes));
        check_text("path", all[i].first->path, item_of(m, 0)->text);
        check_text(item_of(m, 0)->text, all[i].label, item_of(m, 1)->text);
        CHECK_EQ(all[i].n_parts, parts);
        CHECK_EQ(all[i++].bytes, bytes);
    }
    n = hub_models_order(all, n);
    CHECK_EQ(n, qsf_json_member(c, "order")->n);
    i = 0;
    for EACH(path, qsf_json_member(c, "order"))
        if (i < n) check_text("order", all[i++].first->path, path->text);
    free(all);
    hub_files_free(&files);
}

TEST(a_repositorys_models_and_the_order_of_trying)
{
    for EACH(c, cases_of("repositories")) check_repository(c);
}

TEST(redirections_keep_https)
{
    const char *tls = "https://hub", *plain = "http://hub", *other = "HTTP://files/a", *safe = "HTTPS://files/a";
    CHECK(hub_redirects_safely(tls, tls, safe));
    CHECK(!hub_redirects_safely(tls, tls, other));
    CHECK(!hub_redirects_safely(tls, safe, plain));
    CHECK(hub_redirects_safely(plain, plain, other));
    CHECK(hub_redirects_safely(plain, safe, other));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(names_have_parts);
    RUN(names_stay_within_their_folder);
    RUN(labels_are_the_last_quantisation_of_a_path);
    RUN(a_repositorys_models_and_the_order_of_trying);
    RUN(redirections_keep_https);
    qsf_json_drop(&cases);
    return test_end();
}
