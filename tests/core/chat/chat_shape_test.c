/* Conversations of every shape with templates of every kind: the whole content is written, with
 * roles that the template knows.
 * SPDX-License-Identifier: MIT */
#include "chat/chat.h"
#include "test.h"

enum { OUT = 1 << 16 };
static qsf_error error;

/* What a template writes for these messages in JSON, or the error's text. */
static const char *written(const char *jinja, const char *messages, const char *tools, const char *kwargs,
                           bool as_given)
{
    static char out[OUT];
    const qsf_platform *p = qsf_platform_native();
    qsf_json json, list = { 0 }, args = { 0 };
    qsf_chat_text t;
    if (qsf_json_read(p, messages, strlen(messages), "messages", &json, &error)) return error.text;
    if (tools) qsf_json_read(p, tools, strlen(tools), "tools", &list, &error);
    if (kwargs) qsf_json_read(p, kwargs, strlen(kwargs), "kwargs", &args, &error);
    const qsf_chat_ask ask = { .platform = p, .jinja = jinja, .json = json.nodes, .bos = "<s>", .eos = "</s>",
                               .tools = tools ? list.nodes : NULL, .kwargs = kwargs ? args.nodes : NULL,
                               .generate = true, .as_given = as_given, .now = 1000000000 };
    memset(&error, 0, sizeof error);
    snprintf(out, sizeof out, "%s", qsf_chat_write(&ask, &t, &error) ? error.text : t.text);
    qsf_chat_text_drop(&t);
    qsf_json_drop(&json);
    if (tools) qsf_json_drop(&list);
    if (kwargs) qsf_json_drop(&args);
    return out;
}

/* ---- templates of each kind ---- */

#define FOR "{% for m in messages %}"
#define END "{% endfor %}"
#define NO "{{ raise_exception('no') }}"
#define TURN "<{{ m.role }}>{{ m.content }}"
#define CALLS "{% for c in m.tool_calls %}!{{ c.function.name }}({{ c.function.arguments | tojson }})" END

static const char
    names_all[] = FOR TURN CALLS END,
    /* Qwen 3.5: requires the system message first, and a question */
    system_first[] = "{% if not messages | selectattr('role', 'equalto', 'user') | list %}" NO "{% endif %}"
        FOR "{% if m.role == 'system' and not loop.first %}" NO "{% elif m.role not in ['system', 'user', "
        "'assistant', 'tool'] %}" NO "{% endif %}" TURN CALLS END,
    /* Mistral: roles alternate; the last question gets the system message; calls drop text */
    in_turns[] = "{% if messages[0].role == 'system' %}{% set s = messages[0].content %}"
        "{% set messages = messages[1:] %}{% endif %}{% set ns = namespace(i=0) %}"
        FOR "{% if not (m.role == 'tool' or m.tool_calls) %}{% if (m.role == 'user') != (ns.i % 2 == 0) %}" NO
        "{% endif %}{% set ns.i = ns.i + 1 %}{% endif %}" END
        FOR "{% if m.role == 'user' %}[{% if loop.last and s %}{{ s }};{% endif %}{{ m.content }}]"
        "{% elif m.tool_calls %}{% if m.tool_calls[0].id | length != 9 %}" NO "{% endif %}" CALLS
        "{% elif m.role == 'assistant' %}{% if not m.content %}" NO "{% endif %}{{ m.content }}."
        "{% elif m.role == 'tool' %}={{ m.content }}{% else %}" NO "{% endif %}" END,
    /* Gemma: no system role; other roles are copied by name */
    no_system[] = "{% if messages[0].role == 'system' %}" NO "{% endif %}"
        FOR "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}" NO "{% endif %}"
        "<{{ 'model' if m.role == 'assistant' else m.role }}>{{ m.content }}" END,
    /* Harmony: drops all but a leading system message; one call per message */
    drops[] = "{% if messages[0].role in ['system', 'developer'] %}<developer>{{ messages[0].content }}"
        "{% set messages = messages[1:] %}{% endif %}"
        FOR "{% if m.role == 'user' %}<user>{{ m.content }}{% elif m.tool_calls %}"
        "{% set f = m.tool_calls[0].function %}!{{ f.name }}({{ f.arguments | tojson }})"
        "{% elif m.role == 'assistant' %}<assistant>{{ m.content }}{% elif m.role == 'tool' %}"
        "{% if loop.first or messages[loop.index0 - 1].role == 'user' %}" NO "{% endif %}"
        "={{ m.content | tojson }}{% endif %}" END,
    /* writes only the last of several system messages */
    last_system[] = "{{ messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | "
        "list | last }}" FOR "{% if m.role in ['user', 'assistant'] %}" TURN "{% endif %}" END,
    one_call[] = FOR "{% if m.tool_calls and m.tool_calls | length > 1 %}" NO "{% endif %}" TURN CALLS END,
    wants_text[] = FOR "<{{ m.role }}>{{ m.content.strip() }}" END,
    first_part[] = FOR "<{{ m.role }}>{{ m.content if m.content is string else m.content[0].text }}" END,
    one_message[] = FOR "{% if loop.last %}{{ m.content }}{% endif %}" END;

static const struct { const char *name, *jinja; } kinds[] = {
    { "names all", names_all }, { "system first", system_first }, { "in turns", in_turns },
    { "no system", no_system }, { "drops", drops }, { "last system", last_system }, { "one call", one_call },
    { "wants text", wants_text }, { "first part", first_part },
};

/* ---- the remedies ---- */

#define M(role, content) "{\"role\": \"" role "\", \"content\": \"" content "\"}"
#define S(x) M("system", x)
#define U(x) M("user", x)
#define A(x) M("assistant", x)
#define D(x) M("developer", x)
#define C(id) "{\"id\": \"" id "\", \"type\": \"function\", \"function\": {\"name\": \"f" id \
              "\", \"arguments\": {}}}"
#define CALL(content, calls) "{\"role\": \"assistant\", \"content\": \"" content \
                             "\", \"tool_calls\": [" calls "]}"
#define T(id, x) "{\"role\": \"tool\", \"tool_call_id\": \"" id "\", \"content\": \"" x "\"}"
#define ID "abcdefgh1"
#define ID2 "abcdefgh2"

static void check(const char *jinja, const char *messages, const char *text)
{
    char list[2048];
    snprintf(list, sizeof list, "[%s]", messages);
    CHECK_STR(written(jinja, list, NULL, NULL, false), text);
}

TEST(later_system_messages_go_before_the_next_question)
{
    check(system_first, S("s") "," U("a") "," A("b") "," S("t") "," U("c"),
          "<system>s<user>a<assistant>b<user>t\n\nc");
    check(system_first, U("a") "," S("t") "," A("b") "," U("c"), "<user>a\n\nt<assistant>b<user>c");
    check(system_first, U("a") "," A("b") "," S("t") "," S("u"), "<user>a<assistant>b<user>t\n\nu");
    check(system_first, U("a") "," S("t") "," U("c"), "<user>a<user>t\n\nc");
    check(in_turns, S("s") "," U("a") "," A("b") "," S("t") "," U("c"), "[a]b.[s;t\n\nc]");
    check(in_turns, U("a") "," CALL("", C(ID)) "," T(ID, "r") "," S("t"), "[a]!f" ID "({})=r .[t]");
    check(no_system, U("a") "," S("t") "," A("b"), "<user>a\n\nt<model>b");
    check(no_system, S("s") "," U("a") "," A("b") "," S("t") "," U("c"), "<user>s\n\na<model>b<user>t\n\nc");
    check(drops, S("s") "," U("a") "," A("b") "," S("t") "," U("c"),
          "<developer>s<user>a<assistant>b<user>t\n\nc");
    check(names_all, U("a") "," S("t") "," A("b"), "<user>a<system>t<assistant>b");
    check(last_system, U("a") "," S("t"), "t<user>a");
}

TEST(system_messages_at_the_beginning)
{
    check(system_first, S("s") "," S("t") "," U("a"), "<system>s\n\nt<user>a");
    check(drops, S("s") "," D("t") "," U("a"), "<developer>s\n\nt<user>a");
    check(last_system, S("s") "," S("t") "," U("a"), "s\n\nt<user>a");
    check(no_system, S("s") "," S("t") "," U("a"), "<user>s\n\nt\n\na");
    check(no_system, S("s"), "<user>s");
    check(no_system, S("s") "," A("a"), "<user>s<model>a");
    check(system_first, S("s"), "<user>s");
    check(no_system, S("") "," U("a"), "<user>a");
    check(drops, S("s"), "<developer>s");
}

TEST(developer_messages_are_for_templates_that_know_them)
{
    check(drops, D("s") "," U("a"), "<developer>s<user>a");
    check(names_all, D("s") "," U("a"), "<system>s<user>a");
    check(system_first, D("s") "," U("a"), "<system>s<user>a");
    check(system_first, U("a") "," D("s") "," U("b"), "<user>a<user>s\n\nb");
    check(no_system, D("s") "," U("a"), "<user>s\n\na");
}

TEST(turns_that_do_not_alternate)
{
    check(in_turns, U("a") "," U("b"), "[a\n\nb]");
    check(in_turns, U("a") "," A("b") "," A("c") "," U("d"), "[a]b\n\nc.[d]");
    check(names_all, U("a") "," U("b"), "<user>a<user>b");
    check(in_turns, A("a") "," U("b"), "[]a.[b]");
    check(in_turns, S("s") "," A("a") "," U("b"), "[]a.[s;b]");
    check(no_system, A("a"), "<user><model>a");
    check(names_all, A("a") "," U("b"), "<assistant>a<user>b");
    check(system_first, A("a"), "<user><assistant>a");
    check(in_turns, U("a") "," A("") "," U("b"), "[a] .[b]");
    check(in_turns, U("a") "," CALL("", C(ID)) "," T(ID, "r") "," U("b"), "[a]!f" ID "({})=r .[b]");
}

TEST(calls_and_results_in_shapes_of_their_own)
{
    check(drops, U("a") "," T(ID, "r"), "<user>a<user>tool: r");
    check(drops, U("a") "," CALL("", C(ID) "," C(ID2)) "," T(ID2, "r2") "," T(ID, "r"),
          "<user>a!f" ID "({})=\"r\"!f" ID2 "({})=\"r2\"");
    check(one_call, U("a") "," CALL("x", C(ID) "," C(ID2)) "," T(ID, "r"),
          "<user>a<assistant>x!f" ID "({})<tool>r<assistant>!f" ID2 "({})");
    check(drops, U("a") "," CALL("x", C(ID)) "," T(ID, "r"), "<user>a<assistant>x!f" ID "({})=\"r\"");
    check(in_turns, U("a") "," CALL("x", C(ID)) "," T(ID, "r"), "[a]x.!f" ID "({})=r");
    check(in_turns, U("a") "," CALL("x", C(ID)) "," T(ID, "r") "," A("b") "," U("c"),
          "[a]!f" ID "({})=rx\n\nb.[c]");
    check(in_turns, S("s") "," U("a") "," CALL("", C(ID)) "," T(ID, "r"), "[s\n\na]!f" ID "({})=r");
    check(last_system, U("a") "," CALL("", C(ID)) "," T(ID, "r"),
          "<user>a<assistant><tool_call>\n{\"name\": \"f" ID "\", \"arguments\": {}}\n</tool_call>"
          "<user><tool_response>\nr\n</tool_response>");
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++) {          /* nothing else is taken for a call */
        const char *odd = "[" U("a") "," CALL("b", "\"x\", 5, {}, {\"function\": \"f\"}, [1]") "]";
        CHECK(*written(kinds[i].jinja, odd, NULL, NULL, false) != 0);
    }
    CHECK(strstr(written(in_turns, "[" U("a") "," CALL("", C("call_1")) "," T("call_1", "r") "]", NULL, NULL,
                         false), "[a]!fcall_1({})=r") != NULL);
}

TEST(roles_of_other_interfaces)
{
    check(system_first, M("human", "a") "," M("ai", "b"), "<user>a<assistant>b");
    check(drops, U("a") "," M("critic", "b"), "<user>a<user>critic: b");
    check(no_system, U("a") "," M("critic", "b") "," U("c"), "<user>a\n\ncritic: b\n\nc");
    check(names_all, U("a") "," M("critic", "b"), "<user>a<critic>b");
    check(drops, U("a") "," CALL("", C(ID)) "," M("function", "r"), "<user>a!f" ID "({})=\"r\"");
    check(drops, "{\"content\": \"a\"}", "<user>a");
}

#define PART(x) "{\"type\": \"text\", \"text\": \"" x "\"}"

TEST(contents_in_all_forms)
{
    check(wants_text, "{\"role\": \"user\", \"content\": null}", "<user>");
    check(wants_text, "{\"role\": \"user\", \"content\": []}", "<user>");
    check(wants_text, "{\"role\": \"user\"}", "<user>");
    check(wants_text, "{\"role\": \"user\", \"content\": " PART("a") "}", "<user>a");
    check(names_all, "{\"role\": \"user\", \"content\": null}", "<user>");
    check(first_part, "{\"role\": \"user\", \"content\": [" PART("a") ", " PART("b") "]}", "<user>a\nb");
    check(no_system, U("a") "," A("b") ",{\"role\": \"system\", \"content\": [" PART("s") ", " PART("t") "]},"
          U("c"), "<user>a<model>b<user>s\nt\n\nc");
}

/* Probing a slow template stops, and changes nothing. */
TEST(templates_that_take_long_are_not_probed_on)
{
    static const char slow[] = "{% for i in range(500) %}{% for j in range(1000) %}{% endfor %}{% endfor %}"
                               FOR "{% if m.role != 'assistant' %}" TURN "{% endif %}" END;
    check(slow, D("d") "," S("s") "," U("a") "," U("b") "," A("c") "," A("d") "," S("e") "," M("x", "f"),
          "<developer>d<system>s<user>a<user>b<system>e<x>f");
}

TEST(what_cannot_be_written_is_named)
{
    check(one_message, U("a") "," A("b") "," U("c"), "the chat template does not render message 0 "
          "(role \"user\"), not even in another place or role; choose another template");
    CHECK_EQ(error.status, QSF_E_ARGUMENT);
    check(FOR "{% if m.role == 'assistant' %}" NO "{% endif %}" TURN END, U("a") "," A("b") "," U("c"),
          "chat template, line 1, column 72: no (message 1, whose role is \"assistant\")");
    CHECK_EQ(error.status, QSF_E_CANCELLED);
    check(FOR "{% if 'x' in m.content %}" NO "{% endif %}" TURN END, U("a") "," U("x"),
          "chat template, line 1, column 67: no (message 1, whose role is \"user\")");
    check(one_message, U("a") "," U("b"), "a\n\nb");
}

/* ---- all shapes ---- */

static const char *const bits[] = {
    M("system", "qs#s"), M("developer", "qs#s"), M("user", "qs#s"), M("assistant", "qs#s"),
    "{\"role\": \"assistant\", \"content\": \"qs#s\", \"tool_calls\": [" C(ID) "," C(ID2) "]}",
    "{\"role\": \"tool\", \"tool_call_id\": \"" ID "\", \"name\": \"f\", \"content\": \"qs#s\"}",
    M("critic", "qs#s"), "{\"role\": \"user\", \"content\": [" PART("qs#s") "]}",
};
static const char sweep_tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\", \"parameters\": "
    "{\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"string\", \"description\": \"d\"}}, "
    "\"required\": []}}}]";

#if defined(QSF_TEST_SHORT) || defined(QSF_TEST_SLOW)
enum { SHAPE_EVERY = 7 };
#else
enum { SHAPE_EVERY = 1 };
#endif

static uint32_t n_plain;
static const char sweep_kwargs[] = "{\"functions\":\"\",\"datetime\":\"\"}";

/* Whether the output contains the texts of all n messages, and all calls. */
static bool says_all(const char *text, uint32_t n, bool calls)
{
    char needle[] = "qs#s";
    bool all = error.status == QSF_OK && (!calls || (strstr(text, ID) && strstr(text, ID2)));
    for (uint32_t i = 0; i < n && all; i++) {
        needle[2] = (char)('0' + i);
        all = strstr(text, needle) != NULL;
    }
    return all;
}

/* Checks the conversation of n messages with this number.  If the template writes all of the
 * original, with roles that every template knows, it must stay unchanged. */
static void check_shape(const char *name, const char *jinja, uint32_t shape, uint32_t n, const char *tools)
{
    static char given[OUT];
    char messages[2048] = "[";
    size_t len = 1;
    bool calls = false, plain = true;
    for (uint32_t i = 0, rest = shape; i < n; i++, rest /= QSF_ARRAY_LEN(bits)) {
        const char *bit = bits[rest % QSF_ARRAY_LEN(bits)];
        calls |= strstr(bit, "tool_calls") != NULL;
        plain &= strstr(bit, "user") || strstr(bit, "assistant") || (!i && strstr(bit, "system"));
        if (i) messages[len++] = ',';
        for (; *bit; bit++) messages[len++] = *bit == '#' ? (char)('0' + i) : *bit;
    }
    messages[len++] = ']';
    messages[len] = 0;
    snprintf(given, sizeof given, "%s", written(jinja, messages, tools, sweep_kwargs, true));
    plain &= says_all(given, n, calls) && (!tools || strstr(given, "\"object\""));
    plain &= !strstr(given, "'text'") && !strstr(given, "\"text\"");    /* parts printed as Python or JSON */
    const char *text = written(jinja, messages, tools, sweep_kwargs, false);
    const bool ok = says_all(text, n, calls), same = !plain || !strcmp(text, given);
    CHECK(ok);
    CHECK(same);
    n_plain += plain;
    if (!ok || !same) printf("      %s: %s\n      %.600s\n", name, messages, text);
    if (!same) printf("      as given: %.600s\n", given);
}

/* Checks all conversations of one and two messages, and some longer ones. */
static void check_shapes(const char *name, const char *jinja, uint32_t most, const char *tools)
{
    uint32_t count = 1;
    for (uint32_t n = 1; n <= most; n++) {
        const uint32_t every = n == 1 ? 1 : n == 2 ? SHAPE_EVERY : 1 + 96 * SHAPE_EVERY;
        count *= QSF_ARRAY_LEN(bits);
        for (uint32_t i = count % every; i < count && !test_failed; i += every)
            check_shape(name, jinja, i, n, tools);
    }
}

TEST(every_shape_is_written_by_every_kind_of_template)
{
    const char *stop;
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++)
        check_shapes(kinds[i].name, kinds[i].jinja, 5, NULL);
    for (const char *const *name = qsf_chat_names(); *name; name++)
        check_shapes(*name, qsf_chat_known(*name, &stop), 5, NULL);
}

/* Long conversations: repeated turns are left out of the probe, but not of the output. */
TEST(long_conversations_are_written_whole)
{
    enum { TURNS = 300 };
    static char messages[TURNS * 64];
    char needle[16];
    size_t n = 0;
    for (unsigned i = 0; i < TURNS; i++)
        n += (size_t)snprintf(messages + n, sizeof messages - n,
                              "%c{\"role\": \"%s\", \"content\": \"qs%us\"}", i ? ',' : '[',
                              i == 150 || i == 299 ? "system" : i % 2 ? "assistant" : "user", i);
    messages[n++] = ']';
    for (size_t k = 0; k < QSF_ARRAY_LEN(kinds); k++) {
        const char *text = written(kinds[k].jinja, messages, NULL, NULL, false);
        for (unsigned i = 0; i < TURNS; i++) {
            snprintf(needle, sizeof needle, "qs%us", i);
            CHECK(strstr(text, needle) != NULL);
        }
        if (test_failed) printf("      %s: %.300s\n", kinds[k].name, text);
    }
}

static const char *const models[] = {
    "Apertus-8B-Instruct", "ByteDance-Seed-OSS", "GLM-4.6", "HuggingFaceTB-SmolLM3-3B", "Kimi-K2-Instruct",
    "LFM2-8B-A1B", "MiniMax-M2", "Mistral-Small-3.2-24B-Instruct-2506",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B",
    "Qwen3-Coder", "Qwen3.5-4B", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-ai-DeepSeek-V3.1",
    "fireworks-ai-llama-3-firefunction-v2", "google-gemma-2-2b-it", "google-gemma-4-31B-it",
    "ibm-granite-granite-3.3-2B-Instruct", "ibm-granite-granite-4.0", "meetkai-functionary-medium-v3.2",
    "meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct", "microsoft-Phi-3.5-mini-instruct",
    "mistralai-Ministral-3-14B-Reasoning-2512", "mistralai-Mistral-Nemo-Instruct-2407", "openai-gpt-oss-120b",
    "CohereForAI-c4ai-command-r-plus-tool_use", "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
};

TEST(every_shape_is_written_by_templates_of_models)
{
    static char jinja[OUT];
    const char *shared = getenv("QSF_SHARED_DIR");
    for (size_t i = 0; i < QSF_ARRAY_LEN(models); i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/data/templates/%s.jinja", shared ? shared : "../shared", models[i]);
        FILE *f = fopen(path, "rb");
        if (!f) SKIP("no data/templates in QSF_SHARED_DIR");
        jinja[fread(jinja, 1, sizeof jinja - 1, f)] = 0;
        fclose(f);
        check_shapes(models[i], jinja, 4, sweep_tools);
    }
    CHECK(n_plain > 30);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(later_system_messages_go_before_the_next_question);
    RUN(system_messages_at_the_beginning);
    RUN(developer_messages_are_for_templates_that_know_them);
    RUN(turns_that_do_not_alternate);
    RUN(calls_and_results_in_shapes_of_their_own);
    RUN(roles_of_other_interfaces);
    RUN(contents_in_all_forms);
    RUN(templates_that_take_long_are_not_probed_on);
    RUN(what_cannot_be_written_is_named);
    RUN(every_shape_is_written_by_every_kind_of_template);
    RUN(long_conversations_are_written_whole);
    RUN(every_shape_is_written_by_templates_of_models);
    return test_end();
}
