"""What other packages call the options.
SPDX-License-Identifier: MIT

tools/make_python.py makes it from js/peers.js:
change those, not this file.
"""
# By our names; without letter case and signs.
PEERS = {
    "max_tokens": "maxnewtokens maxoutputtokens maxcompletiontokens maxgenlen "
        "maxlength npredict numpredict",
    "min_tokens": "minnewtokens minlength",
    "stop": "stopsequences stopstrings stopprompts stoptokens customstoptriggers antiprompt",
    "temperature": "temp samplingtemperature",
    "repeat_penalty": "repetitionpenalty penaltyrepeat",
    "frequency_penalty": "penaltyfreq freqpenalty",
    "presence_penalty": "penaltypresent prespenalty",
    "repeat_last_n": "penaltylastn repeatpenaltytokens lasttokens",
    "typical_p": "typp typical",
    "seed": "randomseed samplingseed",
    "banned_texts": "badwords badwordsids bannedstrings",
    "logit_bias": "tokenbias logitbiases sequencebias",
    "logprobs": "nprobs outputscores returnlogprobs",
    "ignore_end": "ignoreeos",
    "response_format": "grammar jsonschema schema format output structuredoutputs "
        "guidedjson responseconstraint",
    "reasoning_budget": "thinkingbudget thinkingbudgettokens thoughttokens "
        "reasoningeffort maxreasoningtokens",
    "chat_template_kwargs": "enablethinking think thinking templatekwargs extrabody",
    "template": "chattemplate chatwrapper prompttemplate convtemplate",
    "continue_final_message": "addgenerationprompt prefill responseprefix",
    "tools": "functions availabletools",
    "max_tool_rounds": "maxsteps stopwhen maxiterations maxtoolcalls",
    "parallel_tool_calls": "maxparallelfunctioncalls disableparalleltooluse",
    "adapters": "lora loraadapters loras",
    "ram_budget": "memory rambudget memorybudget maxmemory memorylimit",
    "context_length": "nctx numctx ctxsize contextsize contextwindow "
        "contextwindowsize maxcontext maxmodellen",
    "batch_size": "batch nbatch numbatch batchsize nubatch prefillchunksize maxbatchsize",
    "threads": "nthreads numthreads numthread maxthreads",
    "kv_type": "kv cachetypek cachetypev kvcachetype kvtype typek typev",
    "kv_window": "slidingwindow slidingwindowsize",
    "kv_sinks": "attentionsinksize nkeep numkeep",
    "device": "backend executionproviders",
    "gpu_layers": "ngpulayers numgpu",
    "max_parallel": "sequences parallel nparallel nseqmax",
    "add_special": "addspecialtokens addbos addbostoken",
    "parse_special": "special encodespecialtokens",
    "special": "skipspecialtokens renderspecial",
    "normalize": "embdnormalize normalizeembeddings",
    "pooling": "poolingtype poolingmode",
    "top_n": "topdocuments returntop",
}
