#!/usr/bin/env python3
"""Follows a release's Containerfile in a folder, starts its server there with chroot, and asks it.
SPDX-License-Identifier: MIT

    contained.py CONTAINERFILE FOLDER MODEL         as root; FOLDER is made anew

It knows the steps that the file has, and fails on others.
"""
import json, os, pathlib, re, shutil, subprocess, sys, tarfile, urllib.request

FILE, ROOT, MODEL = map(pathlib.Path, sys.argv[1:])


def image():
    """The files, in ROOT, and what the other steps say."""
    variables, of = {}, {"ENV": {}}
    for line in FILE.read_text().splitlines():
        step, _, value = line.partition(" ")
        value = re.sub(r"\$\{(\w+)\}", lambda found: variables[found[1]], value)
        if not line or line.startswith("#"):
            continue
        if step == "FROM":
            assert value == "scratch", line
        elif step in ("ARG", "ENV"):
            pairs = dict(one.split("=", 1) for one in value.split())
            (variables if step == "ARG" else of["ENV"]).update(pairs)
        elif step == "ADD":
            archive, target = value.split()
            with tarfile.open(FILE.parent / archive) as opened:
                opened.extractall(ROOT / target.lstrip("/"))
        else:
            assert step in ("USER", "EXPOSE", "ENTRYPOINT"), f"unknown step: {line}"
            of[step] = value
    return of


shutil.rmtree(ROOT, ignore_errors=True)
ROOT.mkdir(parents=True)
made = image()
shutil.copy(MODEL, ROOT / "model.gguf")
(ROOT / "model.gguf").chmod(0o444)
# The container's port may be taken here.
command = [*json.loads(made["ENTRYPOINT"]), "/model.gguf", "--port", "0", "--chat-template", "chatml"]
server = subprocess.Popen([shutil.which("chroot"), f"--userspec={made['USER']}", ROOT, *command],
                          env=made["ENV"], stderr=subprocess.PIPE, text=True)
try:
    said = ""
    for line in server.stderr:
        said += line
        if found := re.search(r" is served at http://([\d.]+):(\d+)", line):
            break
    else:
        sys.exit(f"{command} did not begin: {said}")
    assert found[1] == made["ENV"]["QSF_HOST"], line
    user, group = map(int, made["USER"].split(":"))
    assert os.stat(f"/proc/{server.pid}").st_uid == user, "it runs as another user"
    asked = urllib.request.Request(
        f"http://127.0.0.1:{found[2]}/v1/chat/completions", headers={"Content-Type": "application/json"},
        data=json.dumps({"messages": [{"role": "user", "content": "Hi"}], "temperature": 0}).encode())
    with urllib.request.urlopen(asked, timeout=60) as answered:
        text = json.load(answered)["choices"][0]["message"]["content"]
    assert "Hello you." in text, text
finally:
    server.terminate()
    server.wait()
print("ok")
