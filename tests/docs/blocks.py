"""What becomes of each block of the documents, by its document and its first words: for docs_commands.py.
SPDX-License-Identifier: MIT
"""

import python_blocks
from fragments import BATCH, FLAT, FRAGMENT, TALK, TURNS


class Run:
    """Shell commands. replace: words of the document and what stands for them here; first: what the block
    depends on; after: what to look at. builds: "both": where make is CMake's generator, and where ./run has
    built with Ninja before; "ninja": there only. What ./test builds with Ninja is not built once more."""

    def __init__(self, *replace, first="", after="", builds=False):
        self.replace, self.first, self.after, self.builds = replace, first, after, builds


class Tried:
    """Another test runs the same: file has these words."""

    def __init__(self, file, *words):
        self.file, self.words = file, words


class Listed:
    """Not run, for a reason.  That programs are there and know the options is still compared."""

    def __init__(self, why):
        self.why = why


class Text:
    """No command."""

    def __init__(self, why="an illustration"):
        self.why = why


class C:
    """C: a program, kept as name; or statements, compiled between before and after."""

    def __init__(self, name=None, before="", after=""):
        self.name, self.before, self.after = name, before, after


class Js:
    """JavaScript: the blocks of a document are one module, which runs in Node.js."""

    def __init__(self, *replace):
        self.replace = replace


TINY = (
    '"$PYTHON" tests/parity/make_tiny.py tiny llama >/dev/null; cp tiny/*.gguf tiny.gguf; head -c 20000 '
    'docs/format.md >wiki.test.raw; '
    'cp wiki.test.raw text'
)
PEERS = "takes an hour, and needs the programs that are compared with"
PROGRAM_FOLDER = ("qsf-convert ", "build/release/qsf-convert "), ("qsf-run ", "build/release/qsf-run ")
QUICK = "-r 1 -p 8 -n 8"

BLOCKS = {
    # ---- docs/many-machines.md
    ("docs/many-machines.md", "mpirun -np 4"): "needs an MPI; tests/mpi/mpi_test.py starts the same",
    # ---- README.md
    ("README.md", './run "Why'): Run(('"Why is the sky blue?"', '"Why is the sky blue?" -n 16 -t 1'),
        ("./test", ": this one"),
        builds="ninja",
    ),
    ("README.md", "cmake --preset release"): Run(
        ('model.gguf "Hello"', 'model.gguf "Hello" -t 1'),
        ("qsf-bench model.qsf", f"qsf-bench model.qsf {QUICK}"),
        ("--ram-budget 500", "--ram-budget 500 <hello.txt"),
        builds="both",
        first=TINY
        + '; ln -s "$SMOLLM2" model.gguf; "$PYTHON" tests/tools/make_hf_tiny.py hf >/dev/null; '
          'ln -s hf/llama model-folder; echo Hello >hello.txt',
    ),
    ("README.md", "build/release/qsf-serve model.gguf"): Tried(
        "tests/serve/serve_test.py", "/v1/chat/completions"),
    ("README.md", '<script type="module">'): Tried(
        "js/test/bundlers.browser.test.js", "<script type=\"module\">import {load} from '${at}/browser.js'"),
    ("README.md", "import {load} from 'qsf';"): Tried(
        "js/README.md", "import {load} from 'qsf';", "of model.chat(messages,"),
    ("README.md", "#include <qsf.h>"): C(name="example.c"),
    ("README.md", "cmake --install"): Run(
        ("/usr/local", '"$PWD/prefix"'),
        first='PKG_CONFIG_PATH=$PWD/prefix/lib/pkgconfig LD_LIBRARY_PATH=$PWD/prefix/lib; export '
              'PKG_CONFIG_PATH LD_LIBRARY_PATH',
        after="./a.out | grep .",
    ),
    # ---- docs/get-started.md, docs/building.md
    ("docs/get-started.md", './run "Why'): Tried("README.md", './run "Why is the sky blue?"'),
    ("docs/building.md", "cmake --preset release"): Tried(
        "README.md", "cmake --preset release && cmake --build --preset release"),
    ("docs/building.md", "python3 tools/amalgamate.py"): Tried(
        "tests/suites/single_file.sh", "python3 tools/amalgamate.py", "cc -O1 -o", "qsf.c\" -lpthread -lm"),
    ("docs/building.md", "cmake --install"): Tried("README.md", "cmake --install build/release --prefix"),
    **{block: Tried(*words) for block, words in python_blocks.BLOCKS.items()},
    # ---- docs/flat.md
    ("docs/flat.md", "uint32_t model = qsf_flat_model_new"): C(before=FLAT, after="}\n"),
    # ---- docs/library.md
    ("docs/library.md", "cc example.c"): Run(
        first='PKG_CONFIG_PATH=$PWD/prefix/lib/pkgconfig; export PKG_CONFIG_PATH'),
    ("docs/library.md", "find_package(qsf"): Tried(
        "tests/suites/consumer/CMakeLists.txt", "find_package(qsf 0.2 REQUIRED)"),
    ("docs/library.md", "QSFConfig *config"): C(before=FRAGMENT, after="}\n"),
    ("docs/library.md", "#include <stdio.h>"): Tried("tests/docs/docs_test.py", '```c example', "library.md"),
    ("docs/library.md", "chat.tools = tools;"): C(before=TALK, after="}\n"),
    ("docs/library.md", "bool waiting = false;"): C(before=TURNS, after="}\n"),
    ("docs/library.md", "for (i = 0, n = 0;"): C(before=BATCH, after="}\n"),
    ("docs/library.md", "qsf_context_options o;"): C(before=FRAGMENT, after="}\n"),
    ("docs/library.md", "qsf_batch_begin"): C(before=FRAGMENT, after="}\n"),
    ("docs/library.md", "qsf_convert_options o;"): C(
        before='#include "qsf_convert.h"\n'
        "void show(void *, const char *, const char *, uint64_t, uint64_t);\nint complain(const char *);\n"
        "int fragment(void);\nint fragment(void)\n{\n",
        after="return 0;\n}\n",
    ),
    # ---- docs/embeddings.md
    ("docs/embeddings.md", "qsf-run bge-small.gguf --embedding"): Tried(
        "tests/cli/cli_embed_test.py", "--embedding", "--json"),
    ("docs/embeddings.md", "qsf-run reranker.gguf --rerank"): Tried(
        "tests/cli/cli_embed_test.py", "--rerank"),
    ("docs/embeddings.md", "const int32_t ids[]"): C(before="#include <stdlib.h>\n" + FRAGMENT,
                                                      after="free(out);\n}\n"),
    ("docs/embeddings.md", "const [cat, dog] ="): Tried("js/test/embed.node.test.js", "model.embed("),
    ("docs/hub.md", "qsf-run -hf OWNER/REPO"): Tried("tests/hub/hub_test.py", "-hf", "@refs/pr/1"),
    ("docs/hub.md", "qsf-convert -hf"): Tried("tests/hub/hub_test.py", "self.NAME", "owner/tiny-GGUF:Q2_K"),
    ("docs/hub.md", "qsf list"): Tried("tests/hub/hub_test.py", '"list"', '"show"', '"pull"', '"rm"'),
    ("docs/adapters.md", "W x + scale"): Text("a formula"),
    ("docs/adapters.md", "qsf-run model.gguf --lora"): Tried("tests/cli/cli_lora_test.py", "--lora"),
    ("docs/adapters.md", "qsf_adapter *a;"): Tried("tests/core/engine/lora_test.c", "qsf_adapter_load"),
    # ---- docs/serve.md
    ("docs/serve.md", "qsf-serve model.gguf"): Tried("tests/serve/serve_test.py", "/v1/chat/completions"),
    ("docs/serve-models.md", "qsf-serve --model small"): Tried(
        "tests/serve/serve_models_test.py", "a_budget"),
    ("docs/serve-models.md", "qsf-serve --models-dir"): Tried("tests/serve/serve_models_test.py", "a_folder"),
    ("docs/serve.md", "# /etc/systemd/system/qsf-serve.socket"): Text("a unit of systemd"),
    ("docs/serve.md", "# /etc/systemd/system/qsf-serve.service"): Text("a unit of systemd"),
    ("docs/serve.md", "FROM debian"): Text("a container file"),
    ("docs/serve-log.md", "2026-11-26T14:40:49"): Text("lines of a log"),
    # ---- docs/parity.md
    ("docs/parity.md", "qsf-parity model.gguf"): Tried(
        "tests/parity/qsf_parity_test.py", '"--lib"', '"verify"'),
    ("docs/parity.md", "qsf-parity keygen"): Tried("tests/parity/qsf_parity_test.py", '"keygen"', '"--sign"'),
    ("docs/adding.md", "CHANGELOG.md "): Text("what git says of a trial"),
    ("docs/adding.md", "core/layers/layer.c "): Text("the same"),
    # ---- formulas and pictures
    ("docs/format.md", "((8/w)"): Text("a formula"),
    ("docs/format.md", "index = 4 m[t]"): Text("a formula"),
    ("docs/format.md", '"QSFX"'): Text("a layout"),
    ("docs/how-it-works.md", "programs "): Text(),
    ("docs/how-it-works.md", "prompt text"): Text(),
    ("docs/how-it-works.md", "connection"): Text(),
    # ---- CONTRIBUTING.md
    ("CONTRIBUTING.md", "./test "): Listed("the tests themselves"),
    ("CONTRIBUTING.md", "cmake --preset debug"): Listed("another build; ./test builds and runs the same"),
    ("CONTRIBUTING.md", "/* When other programs"): Tried(
        "core/base/pool_rest.c",
        "When other programs compete for the processors, a thread that shares one with them"
    ),
    ("CONTRIBUTING.md", "if (rows[i].token"): Tried("core/engine/step.c", "token %d; the vocabulary has %u"),
    ("CONTRIBUTING.md", "float *x;"): Tried(
        "core/layers/buffers.h", "float *x;             /* [rows][ld_embd]"),
    ("CONTRIBUTING.md", "core: each thread"): Text(),
    ("docs/memory.md", "resident 25.7 MB now"): Text("an output"),
    # ---- docs/memory.md
    ("docs/memory.md", "tests/tools/make_random_qwen.py"): Listed(
        "takes minutes and a gigabyte; tests/core/engine/memory_test.py holds the same promise"),
    ("docs/memory.md", "tests/tools/make_moe_gguf.py"): Listed(
        "takes minutes and 7.5 gigabytes; tests/core/weights/experts_file_test.py does the same with 200 MB"),
    ("docs/memory.md", "tests/bench/formats.py"): Listed("takes an hour, and needs a text that is not here"),
    ("docs/memory.md", "tests/bench/picolm.py"): Listed(PEERS),
    # ---- docs/performance.md
    ("docs/performance.md", "cmake --preset release"): Run(
        ("tools/get-model.sh qwen2.5-coder-0.5b-q4_k_m", "echo tiny.gguf"),
        ("tools/get-model.sh gemma3-270m-q4_k_m", "echo tiny.gguf"),
        ("smollm2=$(tools/get-model.sh smollm2-135m-q4_1)", "smollm2=tiny.gguf"),
    ),
    ("docs/performance.md", "tests/bench/report.py"): Listed(PEERS),
    ("docs/performance.md", "build/release/qsf-bench qwen-4bit.qsf "): Run(
        ("qwen-4bit.qsf ", "qwen-4bit.qsf -r 1 -t 1 "),
        ("-d 128,4096", "-d 8,16"),
        ("--isa avx2,avx512", "--isa scalar"),
        ("-n 64", "-n 8"),
        ("--json", "-p 8 -n 8 --json"),
        ("--compare then.json", "-p 8 -n 8 --compare then.json --tolerance 100"),
        ("--limits", "-p 8 -n 8 --limits --buffer 16"),
        ("--parts", "-n 8 --parts"),
    ),
    ("docs/performance.md", "build/release/qsf-bench --kernels "): Run(
        ("build/release/qsf-bench --kernels\n", ": all of it takes minutes\n"),
        ("--kernels --filter", "--kernels -r 1 -t 1 --buffer 16 --filter"),
    ),
    ("docs/performance.md",
     'tests/bench/compare.py --models "$smollm2=smollm2-4bit.qsf" "$qwen=qwen-4bit.qsf" \\\n    '
     '--threads 2 --rounds 5'): Listed(PEERS),
    ("docs/overhead.md", "ninja -C build/release schema_accept"): Listed("needs JSONSchemaBench"),
    ("docs/overhead.md", "tests/bench/around.py"): Listed("takes minutes, alone on a machine"),
    ("docs/performance.md", "tests/bench/busy.py"): Run(
        ('--llama "$smollm2"', "--busy 0 --rounds 1 --prompt 8 --answer 8"),
        ("tests/bench/busy.py smollm2-4bit.qsf --where", ": not --where"),
    ),
    ("docs/performance.md", "cmake --build build/wasm && "): Listed(PEERS),
    ("docs/performance.md", "build/release/qsf-convert --head-clusters"): Run(
        ("tests/core/layers/head_topk.py build/release/qsf-bench", ": takes an hour"),
        ("--positions 4096", "--positions 16 -t 1"),
        ("--positions 0 -n 24 -r 9", "--positions 0 -n 4 -r 1"),
        ("--head-clusters 2048", "--head-clusters 16"),
    ),
    ("docs/performance.md", "build/release/qsf-convert smollm2.qsf"): Run(
        ("--chunks 8", "--chunks 1"), ("--chunks 2", "--chunks 1"), first="ln -s smollm2-4bit.qsf smollm2.qsf"
    ),
    ("docs/performance.md",
     'tests/bench/compare.py --models "$smollm2=smollm2-4bit.qsf" "$qwen=qwen-4bit.qsf" \\\n    '
     '--threads 2 --rounds 3'): Listed(PEERS),
    # ---- docs/tracing.md
    ("docs/tracing.md", "qsf-run model.qsf"): Tried("tests/cli/cli_trace_test.py", "--trace"),
    ("docs/tracing.md", "qsf-run model.gguf"): Tried("tests/cli/cli_trace_test.py", "--record"),
    ("docs/tracing.md", "qsf_kernel_use use"): C(before=FRAGMENT, after="}\n"),
    ("docs/tracing.md", "static void on_record"): C(
        before="#include <qsf.h>\n#include <stdio.h>\n",
        after="qsf_record_fn heard(void);\nqsf_record_fn heard(void) { return on_record; }\n",
    ),
    ("docs/tracing.md", "qsf_context_options o;"): C(
        before="#include <qsf.h>\nvoid on_record(void *user, const qsf_record *r);\n" + FRAGMENT,
        after="}\n"),
    # ---- docs/quantisers.md
    ("docs/embedding-clusters.md", "qsf-convert --embedding-clusters"): Run(
        *PROGRAM_FOLDER,
        ("--embedding-clusters 256", "--embedding-clusters 16"),
        ("--chunks 8", "--chunks 1"),
        first="cp --remove-destination tiny.gguf smollm2-135m-q4_1.gguf",
    ),
    ("docs/quantisers.md", "qsf-convert --calibrate self"): Run(
        PROGRAM_FOLDER[0],
        first="cp --remove-destination tiny.gguf model.gguf",
    ),
    # ---- docs/webgpu.md
    ("docs/webgpu.md", "qsf-run --device gpu"): Tried("tests/serve/serve_device_test.py",
                                                      '"--device", "gpu"'),
    ("docs/webgpu.md", "qsf-serve --device gpu"): Tried("tests/serve/serve_device_test.py",
                                                        '"--device", "gpu"'),
    ("docs/webgpu.md", "const model = await load(url, {device"): Tried(
        "js/test/gpu.browser.test.js", "[{device: 'cpu'}, {}, {device: 'gpu', threads: 1}"),
    ("docs/webgpu.md", "const model = await load(url, {gpuMemory"): Tried("js/test/gpu.node.test.js",
                                                                          "gpuStream: 'all'}"),
    ("docs/webgpu.md", "await load(path, {gpu"): Tried("js/test/gpu.node.test.js", "{...HOW, gpu: DAWN}"),
    ("docs/webgpu.md", "python3 tests/bench/make_shapes.py models"): Listed("needs a GPU"),
    ("docs/webgpu.md", "qsf-run --list-devices"): Tried("tests/cli/cli_devices_test.py", '"--list-devices"'),
    # ---- docs/wasm.md
    ("docs/wasm.md", "tools/wasm-toolchain.sh"): Run(
        ("-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF"),
        ("node demo/serve.mjs", "timeout 1 node demo/serve.mjs --port 0"),
        ("$HOME/.cache/qsf/models", "tiny || test $? = 124"),
    ),
    ("docs/wasm.md", "python3 examples/wasi/chat.py"): Run(
        ("python3", '"$PYTHON"'),
        ("<QUESTIONS", "<questions.txt"), (" MODEL ", " tiny.gguf "),
        (" FOLDER ", " tiny "),
        ("MODEL_IN_FOLDER", '"$(cd tiny && echo *.gguf)"'),
        first="echo Hello >questions.txt",
    ),
    # ---- docs/grammars.md
    ("docs/grammars.md", "qsf-run model.gguf -p"): Run(
        PROGRAM_FOLDER[1], ("model.gguf", "tiny.gguf"), ("-p ", "-n 8 -p "),
        first="echo '{\"enum\": [7]}' >person.json; printf 7 >answer.json",
    ),
    ("docs/grammars.md", "static const char schema[]"): C(
        before="#include <string.h>\n" + FRAGMENT, after="}\n"),
    ("docs/grammars.md", "root   ::="): Text(),
    ("docs/grammars.md", 'start: pair (","'): Text(),
    ("docs/sampling.md", '{"id":28'): Text(),
    ("docs/shortcuts.md", "qsf-run llama"): Tried("tests/core/turn/mtp_test.py", '"--draft-model", head'),
    ("docs/sampling.md", "qsf-run model.gguf --samplers"): Tried("tests/cli/cli_options_test.py",
                                                                 "--samplers"),
    ("docs/tools.md", "qsf-run model.gguf -p"): Tried("tests/cli/cli_chat_test.py", "--tools"),
    ("docs/tools.md", '{"id"'): Text(),
    ("docs/chat.md", "qsf-run model.gguf --json-schema"): Tried("tests/cli/cli_chat_test.py", "--json-schema",
                                                                "--accept"),
    ("docs/chat.md", "> What is the weather"): Text(),
    ("docs/chat.md", "qsf-run model.gguf --render"): Tried("tests/cli/cli_chat_test.py", "--render",
                                                           "--no-generation-prompt"),
    ("docs/wasm.md", "cp -r build/wasm/demo"): Run(("/var/www", "www"), first="mkdir -p www/chat/models"),
    # ---- js/README.md
    ("js/README.md", "import {load} from 'qsf';"): Js(
        ("await model.dispose();", ""),
        ("maxTokens: 200", "maxTokens: 16"),
        ("contextLength: 2048", "contextLength: 2048, threads: 1"),
    ),
    ("js/README.md", "const cats = model.conversation({system: 'You know cats.', temperature: 0});"): Tried(
        "js/test/conversations.node.test.js", "model.conversation("),
    ("js/README.md", "import {cache, estimate}"): Js(),
    ("js/README.md", "await load(url, {memory: 24"): Js(),
    ("js/README.md", "await load('hf:OWNER/REPO');"): Tried(
        "js/test/hub.node.test.js", "await get('hf:owner/tiny-GGUF')", "await estimate('hf:owner/tiny-GGUF'"),
    ("js/README.md", "import {generateText}"): Tried("js/test/ai.node.test.js", "createQsf(model"),
    ("js/README.md", "const encoder ="): Tried("js/test/embed.node.test.js", "encoder.rerank("),
    ("js/README.md", "const schema ="): Js(),
    ("js/README.md", "const tools ="): Js(),
    # ---- docs/bundlers.md
    ("docs/bundlers.md", "npm install "): Tried("tests/suites/js.sh", 'tools/pack.sh "$wasm"', "npm install"),
    ("docs/bundlers.md", "cp -r node_modules/qsf"): Run(
        first='mkdir -p node_modules public; cp -r build/wasm/js node_modules/qsf',
        after="test -f public/qsf/worker-web.js",
    ),
    ("docs/bundlers.md", "const model = await load('/model.qsf', {workerUrl"): Tried(
        "js/test/bundlers.browser.test.js", "workerUrl: '/qsf/worker-web.js'"),
    ("docs/bundlers.md", "export default {\n  optimizeDeps"): Tried("js/test/bundlers.mjs", "recipe('vite')"),
    ("docs/bundlers.md", "'use client';"): Tried("js/test/bundlers.mjs", "recipe('next')"),
    ("docs/bundlers.md", "esbuild app.js"): Tried(
        "js/test/bundlers.browser.test.js",
        "'worker-web=node_modules/qsf/worker-web.js', '--format=esm', '--outdir=dist'",
    ),
    ("docs/bundlers.md", '<script type="module">'): Tried(
        "js/test/bundlers.browser.test.js", "<script type=\"module\">import {load} from '${at}/browser.js'"
    ),
    ("docs/bundlers.md", "node js/test/bundlers.mjs"): Listed("takes minutes, and fetches the bundlers"),
    # ---- records
    ("tests/golden/README.md", "pip download"): Listed("needs another engine's source"),
    ("tests/golden/README.md", "python3 make_greedy.py"): Listed("needs another engine, and takes minutes"),
    ("tests/golden/README.md", "cp preset_kernels"): Listed("needs another engine's source"),
}
