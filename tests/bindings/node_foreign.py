#!/usr/bin/env python3
"""The addon in the Node.js of another system, under the emulator of the build's programs: loads, answers with
the tokens of that build's qsf-run, under a schema, and with a session that was saved.
SPDX-License-Identifier: MIT

    node_foreign.py NODE ADDON QSF_RUN PLATFORM WORK_FOLDER [EMULATOR...]
"""
import json, os, pathlib, shutil, subprocess, sys

JS = pathlib.Path(__file__).resolve().parents[2] / "js"
SCRIPT = """
import {writeFileSync} from 'node:fs';
import {load} from 'qsf';
import {tinyModel} from './tiny.mjs';
writeFileSync('tiny.gguf', tinyModel({context: 256}));
const model = await load('tiny.gguf', {backend: 'native', threads: 2}), ids = [];
const options = {temperature: 0, maxTokens: 24, ignoreEnd: true, onToken: id => ids.push(id)};
const text = await model.generate('Once', options).then(answer => answer.text);
const {text: chosen} = await model.chat([{role: 'user', content: 'x'}],
  {template: 'chatml', responseFormat: {type: 'choices', choices: ['yes', 'no']}});
const saved = await model.saveSession(), restored = await model.loadSession(saved);
const wrong = await model.generate('x', {bannedTexts: ['']}).catch(error => error.code);
console.log(JSON.stringify({machine: `${process.platform}-${process.arch}`, backend: model.info.backend, ids,
  length: text.length, chosen, restored: restored > 0, wrong}));
await model.dispose();
"""


def main():
    node, addon, qsf_run, platform, work, *emulator = sys.argv[1:]
    work = pathlib.Path(work)
    shutil.rmtree(work, ignore_errors=True)
    package, native = work / "node_modules" / "qsf", work / "node_modules" / "@qsf" / platform
    for folder in package, native:
        folder.mkdir(parents=True)
    for file in [*JS.glob("*.js"), JS / "package.json"]:
        shutil.copy(file, package)
    shutil.copy(JS / "test" / "tiny.js", work / "tiny.mjs")
    shutil.copy(addon, native / "qsf.node")
    (native / "package.json").write_text('{"name": "addon", "main": "./qsf.node"}')
    (work / "script.mjs").write_text(SCRIPT)
    # Wine calls itself Windows 7, and its pipes are not what libuv expects
    environment = os.environ | {"NODE_SKIP_PLATFORM_CHECK": "1"}

    def said(*command):
        with open(work / "out", "w") as out, open(work / "errors", "w") as errors:
            status = subprocess.run([*emulator, *map(str, command)], cwd=work, env=environment, stdout=out,
                                    stderr=errors, stdin=subprocess.DEVNULL).returncode
        text = (work / "out").read_text()
        if status:
            sys.exit(f"{command[0]} ended with {status}: {text}{(work / 'errors').read_text()}")
        return json.loads(text)

    found = said(node, "script.mjs")
    wanted = said(qsf_run, "-m", "tiny.gguf", "-p", "Once", "--raw", "--temp", 0, "-n", 24, "--ignore-eos",
                  "--json")["ids"]
    expected = {"machine": platform.removesuffix("-musl"), "backend": "native", "ids": wanted,
                "restored": True, "wrong": "ARGUMENT"}
    for name, value in expected.items():
        if found[name] != value:
            sys.exit(f"{name}: {found[name]}, not {value}")
    if found["chosen"] not in ("yes", "no") or not found["length"]:
        sys.exit(f"wrong answers: {found}")


if __name__ == "__main__":
    main()
