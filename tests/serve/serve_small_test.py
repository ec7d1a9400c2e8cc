#!/usr/bin/env python3
"""A qsf-serve of any build, maybe under an emulator, answers; the other tests of the server say how.
SPDX-License-Identifier: MIT

    serve_small_test.py COMMAND...
"""
import os
import subprocess
import sys

from serve_server import CHAT, TESTS, WORK, Server


def main():
    command = sys.argv[1:]
    subprocess.run([sys.executable, TESTS / "parity" / "make_tiny.py", WORK.name, "llama"], check=True,
                   stdout=subprocess.DEVNULL)
    s = Server(command, WORK.name + "/llama.gguf", "--alias", "tiny", "--chat-template", "chatml",
               "--threads", "2", "--quiet", "--cache-file", WORK.name + "/kept")
    try:
        assert s.ask("GET", "/health")[0] == 200
        assert s.ask("GET", "/v1/models")[2]["data"][0]["id"] == "tiny"
        once, again = s.complete("once upon"), s.complete("once upon")
        assert once and once == again, (once, again)
        events = s.events("/v1/chat/completions", messages=CHAT, max_tokens=4, seed=1,
                          response_format={"type": "json_object"})
        assert len(events) > 2 and events[-1] == "[DONE]", events
        assert s.ask("POST", "/v1/completions", "{")[0] == 400
    except BaseException:
        s.process.kill()
        raise
    if command[0].endswith((".exe", "wine", "wine64")):         # it cannot be asked to end
        s.process.kill()
        s.process.wait()
    else:
        s.end()
        assert os.path.getsize(WORK.name + "/kept")
    print("ok")


main()
