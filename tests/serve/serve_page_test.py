#!/usr/bin/env python3
"""The page that qsf-serve answers "/" with: types, copies that are still right, headers, who may have it.
SPDX-License-Identifier: MIT

    serve_page_test.py QSF_SERVE [NAME...]      the tests whose names have one of the words
"""
import pathlib
import re

from serve_server import TESTS, run

DEMO = TESTS.parent / "demo"
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
LOCAL, SERVER = '<html lang="en" data-engine="local">', '<html lang="en" data-engine="server">'


def files_of(text):
    """What a file of the page asks for."""
    return {name.removeprefix("./") for name in re.findall(
        r"""(?:from |import\(|(?:href|src)=)["']([\w./-]+\.(?:js|css|svg|html))["']""", text)}


def needed():
    """The files of the page whose engine is the server, found by what they ask for."""
    found, todo = set(), ["index.html"]
    while todo:
        name = todo.pop()
        if name in found or name == "local.js":         # the other engine
            continue
        found.add(name)
        todo += files_of((DEMO / name).read_text(encoding="utf-8"))
    return found


def test_page_has_its_files_and_no_others(s):
    names = needed()
    assert {"index.html", "demo.css", "demo.js", "served.js", "client.js"} <= names, names
    for name in names:
        path, text = DEMO / name, (DEMO / name).read_text(encoding="utf-8")
        status, headers, got = s.ask("GET", "/" + name)
        assert status == 200 and headers["Content-Type"] == TYPES[path.suffix], (name, headers)
        assert got == text.replace(LOCAL, SERVER), name
    assert SERVER in s.ask("GET", "/")[2] and s.ask("GET", "/")[2] == s.ask("GET", "/index.html")[2]
    assert s.ask("GET", "/?model=tiny")[0] == 200
    # a service worker of the page with the package, which had this address before, goes
    assert s.ask("GET", "/sw.js")[2] == (DEMO / "retire.js").read_text(encoding="utf-8")
    for name in sorted({p.name for p in DEMO.iterdir()} - names - {"sw.js"}) + ["js/browser.js", "page.c"]:
        assert s.ask("GET", "/" + name)[0] == 404, name


def test_page_comes_once(s):
    for path in ("/", "/demo.js", "/icon.svg"):
        _, headers, text = s.ask("GET", path)
        tag, length = headers["ETag"], headers["Content-Length"]
        assert re.fullmatch(r'"[0-9a-f]{20}"', tag) and headers["Cache-Control"] == "no-cache"
        assert int(length) == len(text.encode())
        for given in (tag, "W/" + tag, f'"a", {tag}', f'"a",W/{tag} , "b"', "*"):
            status, headers, text = s.ask("GET", path, headers={"If-None-Match": given})
            assert (status, text) == (304, ""), (path, given, status)
            assert headers["ETag"] == tag and headers["Content-Length"] in (None, length)
        for given in ('"other"', tag[1:-1], tag[:-2] + '"', ""):
            assert s.ask("GET", path, headers={"If-None-Match": given})[0] == 200, (path, given)
        status, headers, text = s.ask("HEAD", path)
        assert (status, text) == (200, "") and headers["Content-Length"] == length and headers["ETag"] == tag
    assert s.ask("GET", "/")[1]["ETag"] != s.ask("GET", "/demo.js")[1]["ETag"]
    three = b"GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\n\r\n" * 2
    got = s.raw(three + b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert got.count(b"HTTP/1.1 304 Not Modified") == 2 and got.endswith(b'{"status":"ok"}'), got


def test_page_may_run_its_own_scripts_alone(s):
    for path in ("/", "/demo.js", "/demo.css", "/icon.svg"):
        headers = s.ask("GET", path)[1]
        rules = dict(rule.strip().split(" ", 1) for rule in headers["Content-Security-Policy"].split(";"))
        assert rules["default-src"] == "'self'" and "script-src" not in rules, rules
        for name in ("base-uri", "form-action", "frame-ancestors", "object-src"):
            assert rules[name] == "'none'", name
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in headers
    other = re.search(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=|(?:href|src)=.https?:",
                      s.ask("GET", "/")[2])
    assert not other, other


def test_no_other_path_is_a_file(s):
    for path in ("//", "/.", "/demo.js/", "/demo.js/.", "/./demo.js", "/a/../demo.js", "/../demo/demo.js",
                 "/%64emo.js", "/demo.js%00", "/..%2fdemo.js", "/demo/demo.js", "/DEMO.JS", "/demo.js;x",
                 "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "/favicon.ico"):
        status, headers, text = s.ask("GET", path)
        assert status == 404 and "json" in headers["Content-Type"], (path, status, text)
    status, headers, _ = s.ask("POST", "/", "{}")
    assert status == 405 and headers["Allow"] == "GET, HEAD, OPTIONS"
    assert s.ask("DELETE", "/demo.js")[0] == 405


def test_who_has_the_page(s):
    with s.other("--api-key", "key") as locked:
        assert locked.ask("GET", "/")[0] == 200 and locked.ask("GET", "/served.js")[0] == 200
        assert locked.ask("GET", "/v1/models")[0] == 401 and locked.ask("GET", "/local.js")[0] == 401
        assert locked.ask("GET", "/", headers={"Host": "evil.example"})[0] == 403
        assert locked.ask("GET", "/", headers={"Origin": "https://evil.example"})[0] == 403
    with s.other("--no-page") as bare:
        assert [bare.ask("GET", path)[0] for path in ("/index.html", "/demo.js")] == [404] * 2
        assert bare.ask("GET", "/")[2] == "Ollama is running"       # what Ollama's clients look for
        assert bare.ask("GET", "/v1/models")[0] == 200


if __name__ == "__main__":
    run(__doc__, globals())
