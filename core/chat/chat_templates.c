/* The named chat templates, for models without a template and for callers that choose another one.
 * They are Jinja like a model's own and run the same way.
 * SPDX-License-Identifier: MIT */
#include "chat/chat.h"

/* For templates without a place for the system message: `system` is its content, or none if the
 * conversation has no system message; `turns` are the other messages. */
#define SYSTEM_APART \
    "{% set first = messages and messages[0].role == 'system' %}" \
    "{% set system = messages[0].content if first else none %}" \
    "{% set turns = messages[1:] if first else messages %}"
#define EACH(of) "{% for m in " of " %}"
#define END "{% endfor %}"
#define IS(role) "m.role == '" role "'"
#define ANSWER(text) "{% if add_generation_prompt %}" text "{% endif %}"

#define DS_USER "<\xef\xbd\x9cUser\xef\xbd\x9c>"
#define DS_ASSISTANT "<\xef\xbd\x9c" "Assistant\xef\xbd\x9c>"
#define DS_END "<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"

static const char *const chat_names[] = { "chatml", "llama2", "llama3", "mistral", "phi3", "gemma", "zephyr",
                                          "command-r", "deepseek", "plain", NULL };

/* In the order of the names: what ends an answer, and the template. */
static const struct chat_known { const char *stop, *jinja; } chat_known[QSF_ARRAY_LEN(chat_names) - 1] = {
    { "<|im_end|>",
      EACH("messages") "{{ '<|im_start|>' + m.role + '\n' }}{{ m.content }}{{ '<|im_end|>\n' }}" END
      ANSWER("{{ '<|im_start|>assistant\n' }}") },

    /* the system message is part of the first question, which is trimmed with it */
    { "</s>",
      SYSTEM_APART EACH("turns")
      "{% if " IS("user") " %}{{ '[INST] ' if loop.first else '<s>[INST] ' }}"
      "{% if loop.first and system is not none %}"
      "{{ '<<SYS>>\n' }}{{ system }}{{ ('\n<</SYS>>\n\n' + m.content).rstrip() }}"
      "{% else %}{{ m.content.strip() }}{% endif %}{{ ' [/INST]' }}"
      "{% elif " IS("assistant") " %}{{ ' ' }}{{ m.content.strip() }}{{ ' </s>' }}{% endif %}" END },

    { "<|eot_id|>",
      EACH("messages") "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' }}"
      "{{ m.content.strip() }}{{ '<|eot_id|>' }}" END
      ANSWER("{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}") },

    { "</s>",
      SYSTEM_APART EACH("turns")
      "{% if " IS("user") " %}{{ '[INST] ' }}"
      "{% if loop.first and system is not none %}{{ system }}{{ '\n\n' }}{% endif %}"
      "{{ m.content }}{{ ' [/INST]' }}"
      "{% elif " IS("assistant") " %}{{ m.content }}{{ '</s>' }}{% endif %}" END },

    { "<|end|>",
      EACH("messages") "{% if m.role in ['system', 'user', 'assistant'] %}"
      "{{ '<|' + m.role + '|>\n' }}{{ m.content }}{{ '<|end|>\n' }}{% endif %}" END
      ANSWER("{{ '<|assistant|>\n' }}") },

    /* it has no system message: that goes before the first question */
    { "<end_of_turn>",
      SYSTEM_APART EACH("turns")
      "{{ '<start_of_turn>' + ('model' if " IS("assistant") " else m.role) + '\n' }}"
      "{% if loop.first and system is not none %}{{ system }}{{ '\n\n' }}{% endif %}"
      "{{ m.content.strip() }}{{ '<end_of_turn>\n' }}" END
      ANSWER("{{ '<start_of_turn>model\n' }}") },

    { "</s>",
      EACH("messages") "{{ '<|' + m.role + '|>\n' }}{{ m.content }}{{ '</s>\n' }}" END
      ANSWER("{{ '<|assistant|>\n' }}") },

    { "<|END_OF_TURN_TOKEN|>",
      SYSTEM_APART
      "{% if system is not none %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' }}{{ system }}"
      "{{ '<|END_OF_TURN_TOKEN|>' }}{% endif %}"
      EACH("turns") "{% if m.role in ['user', 'assistant'] %}"
      "{{ '<|START_OF_TURN_TOKEN|><|' + ('USER' if " IS("user") " else 'CHATBOT') + '_TOKEN|>' }}"
      "{{ m.content.strip() }}{{ '<|END_OF_TURN_TOKEN|>' }}{% endif %}" END
      ANSWER("{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}") },

    /* the last system message stands before everything */
    { DS_END,
      "{{ messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | list | last }}"
      EACH("messages") "{% if " IS("user") " %}{{ '" DS_USER "' }}{{ m.content }}"
      "{% elif " IS("assistant") " %}{{ '" DS_ASSISTANT "' }}{{ m.content }}{{ '" DS_END "' }}"
      "{% endif %}" END
      ANSWER("{{ '" DS_ASSISTANT "' }}") },

    { "\nUser:",
      EACH("messages") "{{ {'user': 'User: ', 'assistant': 'Assistant: '}[m.role] }}{{ m.content }}"
      "{{ '\n' }}" END
      ANSWER("{{ 'Assistant:' }}") },
};

#undef SYSTEM_APART
#undef EACH
#undef END
#undef IS
#undef ANSWER
#undef DS_USER
#undef DS_ASSISTANT
#undef DS_END

const char *const *qsf_chat_names(void) { return chat_names; }

const char *qsf_chat_known(const char *name, const char **stop)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(chat_known); i++)
        if (!strcmp(name, chat_names[i])) {
            *stop = chat_known[i].stop;
            return chat_known[i].jinja;
        }
    return NULL;
}
