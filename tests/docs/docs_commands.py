#!/usr/bin/env python3
"""Runs what the documents say, as they say it, in a copy of the tree.
SPDX-License-Identifier: MIT

    docs_commands.py TREE WORK_FOLDER BUILD...   the builds give objects, so that nothing is compiled twice
    docs_commands.py --list TREE                 every block and what becomes of it

A block is what stands between ``` or is indented by four spaces. BLOCKS names each by its first words and
says what becomes of it; a block that it does not name fails the test, and so does a name or a replacement
without its block. The commands of one document run in one shell, one after another; what two or more spaces
separate from a command is a comment.
"""

import argparse, os, pathlib, re, shutil, subprocess, sys

import compile_once, python_blocks
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
# Before the JavaScript of a document; and how it runs.
PAGE = """import {serve} from 'TREE/demo/serve.mjs';
const server = await serve([['/m', 'TREE/smollm2-4bit.qsf']]);
const url = `http://127.0.0.1:${server.address().port}/m`, signal = AbortSignal.timeout(60000);
"""
PAGE_SHELL = """test -d node_modules/qsf || { mkdir -p node_modules; cp -r build/wasm/js node_modules/qsf; }
ln -sf "$SMOLLM2" smollm2-135m-4bit.qsf
QSF_CACHE=$PWD/cache node page.mjs"""
BUILD_FIRST = ("README.md", "docs/wasm.md")  # what they make, the others use

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


def blocks(tree):
    """(document, line, language, text) of every block."""
    folders = ("", "docs", "js", "demo", "examples/*", "tests/*", "tools")
    pages = {p for f in folders for p in tree.glob(f"{f}/*.md" if f else "*.md")}
    for path in sorted(pages - {tree / "docs/api.md"}):  # its blocks are declarations of qsf.h
        name, lines, fence, begin, kept = (
            path.relative_to(tree).as_posix(),
            path.read_text().splitlines(),
            None,
            0,
            [],
        )
        for i, line in enumerate(lines + [""]):
            if fence is not None:
                if line.startswith("```"):
                    yield name, begin, fence, "\n".join(kept)
                    fence, kept = None, []
                else:
                    kept.append(line)
            elif line.startswith("```"):
                fence, begin = line[3:].strip(), i + 2
            elif line.startswith("    ") and (kept or not lines[i - 1].strip()):
                begin = begin if kept else i + 1
                kept.append(line[4:])
            elif kept:
                yield name, begin, "", "\n".join(kept)
                kept = []


def commands(text):
    return [
        re.split(r"\s{2,}", line.strip())[0]
        for line in re.sub(r"\s*\\\n\s*", " ", text).splitlines()
        if line.strip()
    ]


def classified(tree):
    unused, out, bad = set(BLOCKS), [], []
    for name, line, language, text in blocks(tree):
        found = [k for k in BLOCKS if k[0] == name and text.lstrip().startswith(k[1])]
        if len(found) != 1:
            bad.append(
                f"{name}:{line}: {text.splitlines()[0]!r} is in BLOCKS of tests/docs/docs_commands.py "
                f"{len(found)} times: say there how it is tried, or why it is not"
            )
            continue
        unused.discard(found[0])
        out.append((name, line, language, text, BLOCKS[found[0]]))
    return out, bad + [
        f"BLOCKS of tests/docs/docs_commands.py has {k}, which no document has" for k in sorted(unused)
    ]


def replaced(text, replace, where):
    """text with every replacement made; each has to find its words."""
    for old, new in replace:
        if old not in text:
            raise SystemExit(f"{where}: a replacement of {old!r} finds nothing")
        text = text.replace(old, new)
    return text


def copy_if_there(source, target):
    """shutil.copy2, but a file that a concurrent test has deleted meanwhile is not an error."""
    try:
        shutil.copy2(source, target)
    except FileNotFoundError:
        pass


class Tree:
    """A copy of the tree, with programs that are built as the documents say."""

    def __init__(self, tree, folder, generator, table, tools):
        self.folder, self.log, self.seconds = folder, folder.parent / f"{folder.name}.log", {}
        shutil.copytree(
            tree,
            folder,
            symlinks=True,
            ignore=lambda f, names: [
                n for n in names if n in ("build", ".git", "node_modules", "__pycache__")
            ],
            copy_function=copy_if_there,
        )
        self.env = {
            k: v for k, v in os.environ.items() if not k.startswith("CMAKE_") and not k.startswith("QSF_TEST")
        }
        self.env |= {
            "CC": "gcc",
            "QSF_OBJECTS": str(table),
            "QSF_TREE": str(folder),
            "CMAKE_BUILD_PARALLEL_LEVEL": "2",
            **tools,
        }
        if generator:
            self.env["CMAKE_GENERATOR"] = generator
        self.log.write_text("")

    def shell(self, where, script):
        begin, at = sum(os.times()[2:4]), self.log.stat().st_size
        with open(self.log, "a") as log:
            code = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            ).returncode
        self.seconds[where] = sum(os.times()[2:4]) - begin
        if code:
            sys.exit(
                f"{where}: exit code {code}\n"
                + "\n".join(self.log.read_bytes()[at:].decode("utf-8", "replace").splitlines()[-40:])
            )


def script_of(name, line, text, how):
    lines = (
        commands(replaced("\n".join(commands(text)), how.replace, f"{name}:{line}"))
        if how.replace
        else commands(text)
    )
    shown = "\n".join(f"printf '\\n>>> %s\\n' {quote(c)}\n{c}" for c in lines)
    return "\n".join(part for part in (how.first, shown, how.after) if part)


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def check_listed(tree, name, line, text):
    """Programs of the tree that a block names are there, and know its options."""
    for command in commands(text):
        for part in re.split(r"\s*&&\s*", command):
            words = part.split()
            program = next(
                (w for w in words if w.startswith(("tests/", "tools/", "js/", "build/release/qsf-"))), None
            )
            if not program or not (tree.folder / program).is_file():
                if program and not program.startswith("build/"):
                    sys.exit(f"{name}:{line}: there is no {program}")
                continue
            if program.startswith("build/"):
                known = subprocess.run(
                    [tree.folder / program, "--help", "all"], capture_output=True, text=True, check=True
                ).stdout
            else:
                known = (tree.folder / program).read_text()
            for option in re.findall(
                r"(?<=\s)--?[a-z][\w-]*", " " + part[part.index(program) + len(program) :]
            ):
                if not re.search(re.escape(option) + r"(?![\w-])", known) and not re.search(
                    rf"['\"]{re.escape(option.lstrip('-'))}['\"]", known
                ):
                    sys.exit(f"{name}:{line}: {program} knows no {option}")


def moved(tree, found):
    """Other tests, and the code, have what they are said to have."""
    for name, line, _, _, how in found:
        if isinstance(how, Tried):
            other = (tree / how.file).read_text()
            for words in how.words:
                if words not in other:
                    yield f"{name}:{line}: {how.file} does not have {words!r} any more"


def compare(tree, work, found):
    """What needs no build: fragments of C compile."""
    for name, line, _, text, how in found:
        if isinstance(how, C) and not how.name:
            source = work / "fragment.c"
            source.write_text(how.before + text + "\n" + how.after)
            command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I",
                       tree / "include", "-I", tree / "bindings", source]
            r = subprocess.run(command, capture_output=True, text=True)
            if r.returncode:
                sys.exit(f"{name}:{line}:\n{r.stderr}")


def run(make, ninja, found):
    shells, pages, again = (
        {},
        {},
        [],
    )  # by document: its commands, its JavaScript; what runs where Ninja builds
    for name, line, _, text, how in found:
        if isinstance(how, Run):
            script = script_of(name, line, text, how)
            if how.builds != "ninja":
                shells.setdefault(name, []).append(script)
                script = "\n".join(c for c in script.splitlines() if c.startswith("cmake "))
            if how.builds:
                again.append((f"{name}:{line} with Ninja", script))
        elif isinstance(how, C) and how.name:
            (make.folder / how.name).write_text(text)
        elif isinstance(how, Js):
            pages.setdefault(name, []).append(replaced(text, how.replace, f"{name}:{line}"))
    for name in sorted(shells, key=lambda n: (n not in BUILD_FIRST, n)):
        make.shell(name, "\n".join(shells[name]))
    for where, script in again:
        ninja.shell(where, script)
    for name, line, _, text, how in found:
        if isinstance(how, Listed):
            check_listed(make, name, line, text)
    for name, scripts in pages.items():
        (make.folder / "page.mjs").write_text(
            "\n".join([PAGE.replace("TREE", str(make.folder)), *scripts, "process.exit(0);"])
        )
        make.shell(f"{name}, JavaScript", PAGE_SHELL)


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--list", action="store_true")
    a.add_argument("tree", type=pathlib.Path)
    a.add_argument("work", type=pathlib.Path, nargs="?")
    a.add_argument("builds", nargs="*")
    o = a.parse_args()
    tree = o.tree.resolve()
    found, bad = classified(tree)
    if o.list:
        for name, line, _, text, how in found:
            said = getattr(how, "why", None) or getattr(how, "file", None) or text.splitlines()[0]
            print(f"{name}:{line}: {type(how).__name__.lower()}: {said}")
    bad += moved(tree, found)
    if bad:
        sys.exit("\n".join(bad))
    if o.list: return
    work = o.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    compare(tree, work, found)
    table = work / "objects"
    compile_once.index(table, str(tree), o.builds)
    model = subprocess.run(
        [tree / "tools/get-model.sh", "smollm2-135m-q4_1"], capture_output=True, text=True, check=True
    ).stdout.strip()
    own = shutil.copy(model, work / "smollm2.gguf")  # what a block writes to, it does not take from others
    tools = {"PYTHON": sys.executable, "SMOLLM2": str(own),
             "CMAKE_C_COMPILER_LAUNCHER": str(compile_once.launcher(work, str(tree), o.builds))}
    make = Tree(tree, work / "make", None, table, tools)
    ninja = Tree(tree, work / "ninja", "Ninja", table, tools)
    run(make, ninja, found)
    compiled = pathlib.Path(f"{table}.compiled")
    n_compiled = len(compiled.read_text().splitlines()) if compiled.exists() else 0
    print(f"{len(found)} blocks; {n_compiled} objects compiled")
    for where, seconds in (make.seconds | ninja.seconds).items():
        print(f"{seconds:6.1f} s of processors  {where}")


if __name__ == "__main__":
    main()
