#!/usr/bin/env python3
"""Models by name in the native programs, from a server that answers as Hugging Face's hub does.
SPDX-License-Identifier: MIT

    hub_test.py QSF_RUN [TEST...]

Needs the requirements of tests/parity/make_tiny.py (numpy, gguf).
"""
import contextlib, os, pathlib, pty, re, resource, signal, subprocess, sys, threading, unittest, unittest.mock

import hub_case, make_hf_tiny
from hub_case import MODEL, QSF_RUN, REPOS, SMALL, TEXT, Case
from hub_server import COMMITS, TOKEN, HubServer, sha256
from split_gguf import in_two_parts


class Names(Case):
    def test_a_name_is_downloaded_once_and_answers(self):
        with HubServer(REPOS) as server:
            said = self.good(server, "-hf", "owner/tiny-GGUF")
            self.assertIn("downloading owner/tiny-GGUF/tiny-Q4_K_M.gguf", said)
            link = self.snapshot("owner/tiny-GGUF", "tiny-Q4_K_M.gguf")
            repo = self.hub / "models--owner--tiny-GGUF"
            data = REPOS["owner/tiny-GGUF"]["tiny-Q4_K_M.gguf"]
            self.assertEqual(os.readlink(link), f"../../blobs/{sha256(data)}")
            self.assertEqual(link.read_bytes(), data)
            self.assertEqual((repo / "refs" / "main").read_text(), COMMITS["main"])
            self.assertEqual([p.name for p in (repo / "blobs").iterdir()], [sha256(data)])
            self.assertEqual(len(server.of("files")), 1)
            self.assertNotIn("downloading", self.good(server, "-m", "hf:owner/tiny-GGUF"))
            self.assertEqual(len(server.of("files")), 1)

    def test_parts_of_names(self):
        names = {
            "hf:owner/tiny-GGUF:f16": ("tiny-F16.gguf", "main"),
            "hf://owner/tiny-GGUF/sub folder/tiny-Q2_K.gguf": ("sub folder/tiny-Q2_K.gguf", "main"),
            "hf:owner/tiny-GGUF/tiny-F16.gguf@refs/pr/1": ("tiny-F16.gguf", "refs/pr/1"),
            "hf:owner/tiny-GGUF@v2:Q4_K_M": ("tiny-Q4_K_M.gguf", "v2"),
        }
        with HubServer(REPOS, page=2) as server:
            for name, (path, revision) in names.items():
                self.good(server, name)
                link = self.snapshot("owner/tiny-GGUF", path, revision)
                self.assertEqual(link.read_bytes(), REPOS["owner/tiny-GGUF"][path], name)
            repo = self.hub / "models--owner--tiny-GGUF"
            self.assertEqual((repo / "refs/refs/pr/1").read_text(), COMMITS["refs/pr/1"])


class Choice(Case):
    def test_what_is_not_there_is_an_error_that_lists_what_is(self):
        errors = {
            "hf:owner/tiny-GGUF:Q5_K_M":
                r"tiny-GGUF has no model in Q5_K_M; it has F16 \(\d+ MB\), Q4_K_M \(1 MB\)",
            "hf:owner/tiny-GGUF/none.gguf":
                r"no file none.gguf; it has tiny-F16.gguf \(\d+ MB\), tiny-Q4_K_M.gguf",
            "hf:owner/weights": r"no GGUF or QSF file \(of 1 in all\); .*qsf-convert",
            "hf:owner/tiny-GGUF@v9": "404.*Invalid rev id",
        }
        with HubServer(REPOS) as server:
            for name, words in errors.items():
                self.assertRegex(self.bad(server, name), words)

    def test_a_smaller_one_if_the_budget_is_smaller(self):
        repo = {"a-Q4_K_M.gguf": SMALL + b"4" * 40_000_000, "a-Q3_K_S.gguf": SMALL}
        with HubServer({"owner/big": repo}) as server:
            self.good(server, "-hf", "owner/big", "--ram-budget", "40")
            self.assertTrue(self.snapshot("owner/big", "a-Q3_K_S.gguf").is_file())

    def test_the_description_says_what_fits(self):
        """The model needs 3.8 MB, whatever follows its data in the file."""
        for rest, budget, taken in ((38_000_000, 40, "a-Q4_K_M.gguf"), (1_500_000, 3, "a-Q3_K_S.gguf")):
            repo = f"owner/{taken[2:6]}"
            files = {"a-Q4_K_M.gguf": SMALL + b"4" * rest, "a-Q3_K_S.gguf": SMALL}
            with HubServer({repo: files}) as server:
                said = self.run_model(server, "-hf", repo, "--ram-budget", budget,
                                      QSF_HUB_CONNECTIONS="1").stderr.decode()
                self.assertTrue(self.snapshot(repo, taken).is_file(), said)
                self.assertEqual(sum(a["method"] == "GET" for a in server.of("files")), 2)

    def test_the_parts_of_a_split_model_are_downloaded(self):
        parts = [self.home / f"a-q8_0-0000{n}-of-00002.gguf" for n in (1, 2)]
        in_two_parts(MODEL, *parts)
        repo = {f"q8/{p.name}": p.read_bytes() for p in parts}
        with HubServer({"owner/split": repo}) as server:
            said = self.good(server, "-hf", "owner/split")
            self.assertIn(f"part {len(parts)} of {len(parts)}", said)
            server.close()
            self.good(server, "-hf", "owner/split", "--offline")
            for p in parts[1:]:
                self.snapshot("owner/split", f"q8/{p.name}").unlink()
            self.bad(server, "-hf", "owner/split", "--offline")


class Refusals(Case):
    def test_they_say_what_where_and_what_to_do(self):
        with HubServer(REPOS) as server:
            self.assertRegex(self.bad(server, "-hf", "private/tiny"),
                             r"api/models/private/tiny.*401.*not found.*HF_TOKEN")
            self.assertRegex(self.bad(server, "-hf", "private/tiny", HF_TOKEN="hf_wrong"),
                             r"401.*Invalid credentials: Bearer \*\*\*")
            self.assertRegex(self.bad(server, "-hf", "gated/tiny", HF_TOKEN=TOKEN),
                             f"403.*restricted.*accept its conditions at {server.url}/gated/tiny")
            self.good(server, "-hf", "private/tiny", HF_TOKEN=TOKEN)

    def test_the_token_is_the_hubs_alone(self):
        (self.home / "token").write_text(f" {TOKEN} \n")
        with HubServer(REPOS) as server:
            self.good(server, "-hf", "private/tiny")
            self.assertEqual({a["authorization"] for a in server.of("hub")}, {f"Bearer {TOKEN}"})
            self.assertEqual({a["authorization"] for a in server.of("files")}, {None})

    def test_a_hub_that_asks_to_wait_is_waited_for(self):
        n = []

        def spoil(request, where):
            n.append(where)
            if len(n) < 3:
                request.answer(429, b"slowly", {"Retry-After": "0.05"})
            return len(n) < 3
        with HubServer(REPOS, spoil) as server:
            self.good(server, "-hf", "owner/tiny-GGUF")
        with HubServer(REPOS, lambda r, _: r.answer(429, b"", {"Retry-After": "3600"}) or True) as server:
            self.assertRegex(self.bad(server, "hf:owner/weights"), "429, and asks to wait 3600 s")

    def test_a_server_that_is_no_hub(self):
        page = lambda r, _: r.answer(200, b"<html>hello</html>", {"Content-Type": "text/html"}) or True
        with HubServer(REPOS, page) as server:
            self.assertIn("is that a hub's address?", self.bad(server, "-hf", "owner/weights"))
        self.assertIn("http(s) address", self.bad("ftp://x", "-hf", "a/b", code=2))
        self.assertIn("libcurl, which cannot be loaded", self.bad("http://127.0.0.1:9", "-hf", "a/b", code=3,
                                                                  QSF_CURL_LIB="/none/libcurl.so"))
        self.assertIn("is not the name of a model", self.bad("http://127.0.0.1:9", "-hf", "a", code=2))

    def test_answers_without_an_end(self):
        def endless(status):
            def spoil(request, where):
                request.send_response(status)
                request.end_headers()
                try:
                    while True:
                        request.wfile.write(b"[" + b'{"type":"file","path":"a"},' * 40000)
                except OSError:
                    request.close_connection = True
                return True
            return spoil
        with HubServer(REPOS, endless(200)) as server:
            self.assertIn("is that a hub's address?", self.bad(server, "-hf", "owner/weights"))
        with HubServer(REPOS, endless(404)) as server:
            self.assertIn("answered 404", self.bad(server, "-hf", "owner/weights"))

    def test_names_from_a_hub_stay_within_its_folder(self):
        bad = {"../x-Q4_K_M.gguf": SMALL, "a/../../y-Q4_K_M.gguf": SMALL, "/z-Q4_K_M.gguf": SMALL}
        with HubServer({"owner/bad": bad}) as server:
            self.assertIn("no GGUF", self.bad(server, "-hf", "owner/bad"))
        for header, value in (("X-Linked-ETag", '"../../../evil"'), ("X-Repo-Commit", "../" * 13 + "x")):
            about = {"X-Repo-Commit": "1" * 40, "X-Linked-ETag": '"abc"', "X-Linked-Size": 5, header: value}
            spoil = lambda r, _: "/resolve/" in r.path and (r.answer(200, b"", about) or True)
            with HubServer(REPOS, spoil) as server:
                self.assertIn(f"has no {header.replace('Linked-', '')[-4:]}"[:6],
                              self.bad(server, "-hf", "owner/tiny-GGUF"))
        self.assertEqual([p for p in self.home.rglob("*evil*")], [])


class Downloads(Case):
    LARGE = SMALL + bytes(range(256)) * 4096
    REPO = {"owner/big": {"big-Q4_0.gguf": LARGE}}

    def cut(self, at):
        """The first answers are cut after `at` bytes."""
        def spoil(request, where):
            if where != "files" or not at:
                return False
            first = int(re.search(r"\d+", request.headers["Range"] or "0")[0])
            request.send_response(206 if first else 200)
            request.send_header("Content-Length", str(len(self.LARGE) - first))
            if first:
                request.send_header("Content-Range", f"bytes {first}-{len(self.LARGE) - 1}/{len(self.LARGE)}")
            request.end_headers()
            request.wfile.write(self.LARGE[first:first + at.pop(0)])
            request.wfile.flush()
            request.close_connection = True
            return True
        return spoil

    def blob(self):
        return self.hub / "models--owner--big" / "blobs" / sha256(self.LARGE)

    def test_what_is_cut_short_is_resumed_by_a_new_redirection(self):
        with HubServer(self.REPO, self.cut([100_000] * 3)) as server:
            self.good(server, "-hf", "owner/big")
            self.assertEqual([a["range"] for a in server.of("files")],
                             [None, *(f"bytes={n}00000-" for n in (1, 2, 3))])
            self.assertEqual(len(server.signed), 5)
            self.assertEqual(self.blob().read_bytes(), self.LARGE)

    def test_a_connection_that_is_lost_is_an_error_with_what_is_kept(self):
        cut = self.cut(at := [100_000])

        def spoil(request, where):
            if where == "files" and not at:
                request.close_connection = True
                return True
            return cut(request, where)
        with HubServer(self.REPO, spoil) as server:
            self.assertRegex(self.bad(server, "-hf", "owner/big"),
                             r"without an answer; 0\.1 MB are kept, and the next try resumes there")

    def test_a_server_without_ranges_sends_it_again(self):
        with HubServer(self.REPO, self.cut([100_000]), ranges=False) as server:
            self.good(server, "-hf", "owner/big")
            self.assertEqual(self.blob().read_bytes(), self.LARGE)

    def test_what_differs_is_not_kept(self):
        for damage in (lambda data: data[:-1] + b"?", lambda data: data + b"more", lambda data: data[:-5]):
            with HubServer(self.REPO, sent=damage) as server:
                self.assertRegex(self.bad(server, "-hf", "owner/big", code=3),
                                 "SHA-256|bytes are offered, and the hub has")
            self.assertFalse(self.blob().exists())
        self.blob().with_name(self.blob().name + ".incomplete").write_bytes(b"x" * 1000)
        with HubServer(self.REPO) as server:
            self.assertIn("SHA-256", self.bad(server, "-hf", "owner/big", code=3))
            self.good(server, "-hf", "owner/big")

    def test_an_interrupted_download_is_resumed_by_the_next_run(self):
        done = threading.Event()

        def spoil(request, where):
            if where != "files" or done.is_set():
                return False
            request.send_response(200)
            request.send_header("Content-Length", str(len(self.LARGE)))
            request.end_headers()
            request.wfile.write(self.LARGE[:100_000])
            request.wfile.flush()
            done.wait()
            return True
        part = self.blob().with_name(self.blob().name + ".incomplete")
        with HubServer(self.REPO, spoil) as server:
            r = subprocess.Popen([QSF_RUN, "-hf", "owner/big"], env=self.env(server),
                                 stderr=subprocess.DEVNULL)
            while not part.exists() or part.stat().st_size < 100_000:
                self.assertIsNone(r.poll())
            r.send_signal(signal.SIGINT)
            self.assertEqual(r.wait(), 130)
            done.set()
            self.assertEqual(part.read_bytes(), self.LARGE[:100_000])
            self.assertFalse(self.snapshot("owner/big", "big-Q4_0.gguf").exists())
            self.bad(server, "-hf", "owner/big", "--offline")
            self.assertIn("0.1 MB of it are here", self.good(server, "-hf", "owner/big"))
            self.assertEqual(server.of("files")[-1]["range"], "bytes=100000-")
            self.assertEqual(self.blob().read_bytes(), self.LARGE)
            self.assertFalse(part.exists())

    def test_a_disk_that_is_full(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
        with HubServer(self.REPO) as server:
            r = subprocess.run([QSF_RUN, "-hf", "owner/big", "-p", "Hi"], capture_output=True,
                               env=self.env(server), preexec_fn=limit)
            self.assertEqual(r.returncode, 5)
            self.assertRegex(r.stderr.decode(), "cannot be written: .*MB are missing; free some.*HF_HOME")
            self.good(server, "-hf", "owner/big")

    def test_one_process_downloads_and_the_others_wait(self):
        go = threading.Event()

        def spoil(request, where):
            if where == "files":
                go.wait()
            return False
        with HubServer(self.REPO, spoil) as server:
            def begin():
                return subprocess.Popen([QSF_RUN, "-hf", "owner/big", "-n", "1", "--raw", "-p", "Hi"],
                                        env=self.env(server), stderr=subprocess.PIPE, stdout=subprocess.PIPE)
            first = begin()
            while not server.of("files"):
                pass
            second = begin()
            self.assertIn(b"another process is downloading it", second.stderr.readline())
            go.set()
            for process in (first, second):
                process.communicate()
                self.assertEqual(process.returncode, 0)
            self.assertEqual(len(server.of("files")), 1)


    def test_a_terminal_shows_progress(self):
        reader, terminal = pty.openpty()
        with HubServer(self.REPO) as server:
            r = subprocess.Popen([QSF_RUN, "-hf", "owner/big", "-n", "1", "--raw", "-p", "Hi"],
                                 stderr=terminal, stdout=subprocess.DEVNULL,
                                 env=self.env(server, TERM="xterm"))
            os.close(terminal)
            said = b""
            with contextlib.suppress(OSError):          # its end
                while part := os.read(reader, 4096):
                    said += part
            os.close(reader)
            self.assertEqual(r.wait(), 0)
        self.assertRegex(said, rb"\r +\d+ %  \d+\.\d of \d\.\d MB  \d+\.\d MB/s  \d+:\d\d left\x1b\[K")


class Offline(Case):
    def test_the_cache_answers_if_the_hub_is_away(self):
        with HubServer(REPOS) as server:
            self.good(server, "-hf", "owner/tiny-GGUF:F16")
        self.assertIn("the cached model is used", self.good(server, "-hf", "owner/tiny-GGUF"))
        for name in ("owner/tiny-GGUF", "owner/tiny-GGUF:f16", "owner/tiny-GGUF/tiny-F16.gguf"):
            self.assertEqual(self.good(server, "-hf", name, "--offline"), "")
            self.assertEqual(self.good(server, "-hf", name, HF_HUB_OFFLINE="1"), "")
        commit = COMMITS["main"]
        self.assertEqual(self.good(server, f"hf:owner/tiny-GGUF/tiny-F16.gguf@{commit}"), "")
        self.assertIn("no connection", self.bad(server, "-hf", "owner/tiny-GGUF:Q2_K"))
        self.assertRegex(self.bad(server, "-hf", "owner/tiny-GGUF:Q2_K", "--offline"),
                         "tiny-GGUF:Q2_K is not in the cache.*--offline")

    def test_a_commit_that_moves_is_followed(self):
        repos = {"owner/a": {"a.gguf": SMALL}}
        with HubServer(repos) as server:
            self.good(server, "-hf", "owner/a")
            repos["owner/a"] = {"a.gguf": SMALL + b"2"}
            with unittest.mock.patch.dict(COMMITS, main="4" * 40):
                self.good(server, "-hf", "owner/a")
                self.assertEqual(self.snapshot("owner/a", "a.gguf").read_bytes(), SMALL + b"2")
                self.assertEqual((self.hub / "models--owner--a/refs/main").read_text(), "4" * 40)


class Addresses(Case):
    def test_those_of_a_hub_are_names(self):
        with HubServer(REPOS) as server:
            for path in ("sub%20folder/tiny-Q2_K.gguf", "tiny-F16.gguf?download=true"):
                self.good(server, f"{server.url}/owner/tiny-GGUF/resolve/refs%2Fpr%2F1/{path}")
            self.good(server, f"{server.url}/owner/tiny-GGUF/blob/v2/tiny-F16.gguf")
            self.good(server, "https://huggingface.co/owner/tiny-GGUF")
        self.assertTrue(self.snapshot("owner/tiny-GGUF", "sub folder/tiny-Q2_K.gguf", "refs/pr/1").is_file())
        self.assertTrue(self.snapshot("owner/tiny-GGUF", "tiny-F16.gguf", "v2").is_file())
        self.assertTrue(self.snapshot("owner/tiny-GGUF", "tiny-Q4_K_M.gguf").is_file())

    def test_others_have_a_cache_of_their_own(self):
        hub = {"HF_ENDPOINT": "http://127.0.0.1:9", "QSF_CACHE": str(self.home / "own"), "HF_TOKEN": TOKEN}
        with HubServer(REPOS) as server:
            url = f"{server.url}/owner/tiny-GGUF/resolve/main/tiny-F16.gguf"
            self.assertIn("downloading tiny-F16.gguf", self.good(server, "-m", url, **hub))
            self.assertEqual(self.good(server, "-m", url + "?X-Amz-Signature=2", **hub), "")
            self.assertEqual({a["authorization"] for a in server.asked}, {None})
            self.assertRegex(self.bad(server, "-m", url + "x", **hub), "404.*is the address right")
            self.assertIn("not the address of a file", self.bad(server, "-m", server.url, code=2, **hub))
        self.assertEqual(self.good(server, "-m", url, "--offline", **hub), "")
        self.assertIn("the cached model is used", self.good(server, "-m", url, **hub))
        found, = (self.home / "own/files").glob("*/*/*.gguf")
        self.assertEqual(found.read_bytes(), REPOS["owner/tiny-GGUF"]["tiny-F16.gguf"])
        self.assertFalse(self.hub.exists())

    def test_a_file_that_changes_on_its_way_is_not_mixed_with_the_new_one(self):
        """The server has another version of the same length after some answers."""
        old, new = (bytes([n]) * (16 << 20) for n in b"ab")

        def pull(url):
            return subprocess.run([pathlib.Path(QSF_RUN).with_name("qsf"), "pull", url], text=True,
                                  capture_output=True,
                                  env=self.env("http://127.0.0.1:9", QSF_CACHE=str(self.home)))
        for header, before in (("ETag", 3), ("Last-Modified", 1)):
            asked = []

            def spoil(request, _):
                asked.append(request.headers["Range"])
                data = old if len(asked) <= before else new
                first, last = (asked[-1] or f"bytes=0-{len(data) - 1}")[6:].split("-")
                request.answer(206 if asked[-1] else 200, data[int(first):int(last) + 1],
                               {header: data[:1].decode(),
                                "Content-Range": f"bytes {first}-{last}/{len(data)}"})
                return True
            with HubServer({}, spoil) as server:
                r = pull(f"{server.url}/{header}/a.gguf")
                self.assertEqual(r.returncode, 5)
                self.assertIn("a.gguf: the server's file has changed since", r.stderr)
                if before == 1:
                    r = pull(f"{server.url}/{header}/a.gguf")
                    self.assertTrue(pathlib.Path(r.stdout.rstrip()).read_bytes() == new, r.stderr)

    def test_parts_follow_the_first(self):
        parts = [self.home / f"a-0000{n}-of-00002.gguf" for n in (1, 2)]
        in_two_parts(MODEL, *parts)
        hub = {"HF_ENDPOINT": "http://127.0.0.1:9", "QSF_CACHE": str(self.home / "own")}
        with HubServer({"owner/split": {p.name: p.read_bytes() for p in parts}}) as server:
            self.good(server, "-m", f"{server.url}/owner/split/resolve/main/{parts[0].name}", **hub)


class HuggingFace(Case):
    """The package itself, with the same server and the same cache."""

    def test_each_finds_what_the_other_has_downloaded(self):
        script = """if 1:
            from huggingface_hub import hf_hub_download, scan_cache_dir
            paths = [hf_hub_download("owner/tiny-GGUF", f"tiny-{q}.gguf") for q in ("Q4_K_M", "F16")]
            paths += [hf_hub_download("owner/tiny-GGUF", "tiny-Q4_K_M.gguf", local_files_only=True)]
            found = scan_cache_dir()
            print(paths, found.warnings, [(r.repo_id, r.nb_files, r.size_on_disk) for r in found.repos])"""
        paths = [str(self.snapshot("owner/tiny-GGUF", f"tiny-{q}.gguf")) for q in ("Q4_K_M", "F16", "Q4_K_M")]
        size = sum(len(REPOS["owner/tiny-GGUF"][f"tiny-{q}.gguf"]) for q in ("F16", "Q4_K_M"))
        with HubServer(REPOS) as server:
            self.good(server, "-hf", "owner/tiny-GGUF")
            r = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                               env=self.env(server, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1"))
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertEqual(r.stdout.strip(), f"{paths} [] [('owner/tiny-GGUF', 2, {size})]")
            self.assertNotIn("downloading", self.good(server, "-hf", "owner/tiny-GGUF:F16"))
            self.assertEqual(len(server.of("files")), 2)


class Cache(Case):
    """qsf list, show, pull and rm."""

    def qsf(self, server, *args, code=0):
        r = subprocess.run([pathlib.Path(QSF_RUN).with_name("qsf"), *args], capture_output=True, text=True,
                           env=self.env(server, QSF_CACHE=str(self.home / "own")))
        self.assertEqual(r.returncode, code, r.stderr)
        return r.stdout if not code else r.stderr

    def blobs(self):
        return sorted(p.stat().st_size for p in self.hub.glob("models--*/blobs/*"))

    def test_it_starts_the_other_programs(self):
        for name in ("run", "bench", "convert"):
            self.assertRegex(self.qsf("", name, "--version"), f"^qsf-{name} ")
        self.assertIn("not a command; there are run, serve", self.qsf("", "runn", code=2))
        self.assertIn("no command", self.qsf("", code=2))
        self.assertIn("qsf pull OWNER/REPO", self.qsf("", "pull", code=2))
        self.assertIn("takes no names", self.qsf("", "list", "x", code=2))

    def test_what_was_pulled_is_listed(self):
        with HubServer(REPOS) as server:
            path = self.qsf(server, "pull", "owner/tiny-GGUF", "hf:owner/tiny-GGUF:F16@v2").split("\n")
            self.assertEqual(path, [str(self.snapshot("owner/tiny-GGUF", "tiny-Q4_K_M.gguf")),
                                    str(self.snapshot("owner/tiny-GGUF", "tiny-F16.gguf", "v2")), ""])
            self.qsf(server, "pull", f"{server.files_url}/a/tiny.gguf?X-Amz-Signature=1")
            shown = self.qsf(server, "show", "owner/tiny-GGUF")
            self.assertEqual(re.sub(r" +\d\.\d MB", "", shown), "  F16  tiny-F16.gguf\n"
                             f"* Q4_K_M  tiny-Q4_K_M.gguf  {path[0]}\n  Q2_K  sub folder/tiny-Q2_K.gguf\n")
        want = ["hf:owner/tiny-GGUF/tiny-F16.gguf@v2", "hf:owner/tiny-GGUF/tiny-Q4_K_M.gguf",
                f"{server.files_url}/a/tiny.gguf"]
        listed = [line.split("  ")[-1] for line in self.qsf(server, "list").splitlines()]
        self.assertEqual(sorted(listed), want)
        for name in listed:
            self.assertRegex(self.qsf(server, "rm", name), r"^0.\d MB freed\n$")
        self.assertEqual(self.qsf(server, "list"), "")
        self.assertEqual([p for p in self.home.rglob("*") if p.is_file() and p.suffix != ".lock"], [])

    def test_what_is_removed_is_not_what_others_have(self):
        names = [f"owner/tiny-GGUF{rest}" for rest in ("", "@v2", ":Q2_K", ":F16@refs/pr/1")]
        files = REPOS["owner/tiny-GGUF"]
        with HubServer(REPOS) as server:
            self.qsf(server, "pull", *names)
            size = {q: len(data) for q, data in zip(("F16", "Q4", "Q2"), list(files.values())[1:4])}
            self.assertEqual(self.blobs(), sorted(size.values()))
            self.assertEqual(self.qsf(server, "rm", "owner/tiny-GGUF:q4_k_m@main"), "0.0 MB freed\n")
            self.assertTrue(self.snapshot("owner/tiny-GGUF", "tiny-Q4_K_M.gguf", "v2").is_file())
            self.assertFalse(self.snapshot("owner/tiny-GGUF", "tiny-Q4_K_M.gguf").is_symlink())
            self.qsf(server, "rm", "owner/tiny-GGUF@v2", "owner/tiny-GGUF/sub folder/tiny-Q2_K.gguf")
            self.assertEqual(self.blobs(), [size["F16"]])
            refs = self.hub / "models--owner--tiny-GGUF/refs"
            self.assertEqual([p.name for p in refs.rglob("*") if p.is_file()], ["1"])
            self.assertIn("nothing of hf:owner/tiny-GGUF:Q8_0 is cached; qsf list shows",
                          self.qsf(server, "rm", "owner/tiny-GGUF:Q8_0", code=5))
            self.qsf(server, "rm", "owner/tiny-GGUF")
            self.assertEqual([p.name for p in self.hub.iterdir()], [".locks"])

    def test_what_cannot_be_removed_is_an_error(self):
        """Folders as deep as no repository's."""
        (self.hub / "models--owner--tiny-GGUF" / "/".join("abcdefghijklmnopqrst")).mkdir(parents=True)
        self.assertIn("not all of it can be removed", self.qsf("", "rm", "owner/tiny-GGUF", code=5))

    def test_a_linked_folder_is_not_the_repositorys(self):
        (self.home / "mine").mkdir()
        (mine := self.home / "mine" / "own-F16.gguf").write_bytes(SMALL)
        with HubServer(REPOS) as server:
            path = pathlib.Path(self.qsf(server, "pull", "owner/tiny-GGUF:F16").rstrip())
            (path.parent / "linked").symlink_to(mine.parent)
            self.assertEqual(len(self.qsf(server, "list").splitlines()), 1)
            self.qsf(server, "rm", "owner/tiny-GGUF:F16")
        self.assertTrue(mine.exists() and not path.exists())

    def test_a_file_of_another_size_in_a_snapshot_is_replaced(self):
        with HubServer(REPOS) as server:
            path = pathlib.Path(self.qsf(server, "pull", "owner/tiny-GGUF:F16").rstrip())
            for damage in (b"", SMALL[:1000]):
                path.unlink()
                path.write_bytes(damage)        # as after a copy that did not end
                self.qsf(server, "pull", "owner/tiny-GGUF:F16")
                self.assertEqual(path.read_bytes(), REPOS["owner/tiny-GGUF"]["tiny-F16.gguf"])

    def test_the_folder_may_have_variables_and_all_letters(self):
        home = self.home / "a \\ b" / "~" / "c$d"
        with HubServer(REPOS) as server:
            for name in ("$QSF_TEST_A/~/c$d", "${QSF_TEST_A}/~/c$d"):
                r = subprocess.run([pathlib.Path(QSF_RUN).with_name("qsf"), "pull", "owner/tiny-GGUF:Q2_K"],
                                   env=self.env(server, HF_HOME=name, QSF_TEST_A=str(home.parents[1])),
                                   capture_output=True)
                self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual([p.name for p in home.iterdir()], ["hub"])


class Folders(Case):
    """qsf-convert and repositories as they were trained."""
    NAME = "owner/shards"

    def setUp(self):
        super().setUp()
        make_hf_tiny.write(self.home, "shards", next(c.files for n, c in make_hf_tiny.good_cases()
                                                     if n == "llama-bias-shards"))
        self.folder = self.home / "shards"
        needed = {p.relative_to(self.folder).as_posix(): p.read_bytes() for p in self.folder.rglob("*")
                  if p.is_file()}
        others = "README.md", "consolidated.safetensors", "pytorch_model.bin", "onnx/model.json", "vocab.json"
        self.repos = {**REPOS, self.NAME: {**dict.fromkeys(others, TEXT), **needed}}
        self.needed = sorted(needed)

    def convert(self, server, *args, code=0):
        out = self.home / "out.qsf"
        r = subprocess.run([pathlib.Path(QSF_RUN).with_name("qsf-convert"), *args, out, "-t", "1"],
                           capture_output=True, env=self.env(server), timeout=120)
        hub_case.needs_directories(r.stderr)
        self.assertEqual(r.returncode, code, r.stderr)
        return r.stderr.decode() if code else out.read_bytes()

    def test_a_folder_comes_by_several_connections_and_converts_alike(self):
        here, two = [], threading.Event()

        def spoil(request, where):
            if where == "files":
                here.append(request.path)
                if len(here) == 2:
                    two.set()
                two.wait()
            return False
        alike = self.convert("", self.folder)
        with HubServer(self.repos, spoil) as server:
            self.assertEqual(self.convert(server, "-hf", self.NAME), alike)
            snapshot = self.snapshot(self.NAME, "")
            self.assertEqual(sorted(p.relative_to(snapshot).as_posix() for p in snapshot.rglob("*")
                                    if p.is_file()), self.needed)
            before = len(server.of("files"))
            self.assertEqual(self.convert(server, f"hf:{self.NAME}"), alike)
            self.assertEqual(len(server.of("files")), before)
        self.assertEqual(self.convert(server, f"hf:{self.NAME}"), alike)
        self.assertEqual(self.convert(server, "-hf", self.NAME, "--offline"), alike)
        next(snapshot.glob("*.safetensors")).unlink()
        self.assertIn("not in the cache", self.convert(server, "-hf", self.NAME, "--offline", code=5))

    def test_damaged_folders_are_refused(self):
        with HubServer(self.repos, sent=lambda data: data[:-1] + b"?") as server:
            self.assertIn("SHA-256", self.convert(server, "-hf", self.NAME, code=3))
        del self.repos[self.NAME][[n for n in self.needed if n.endswith(".safetensors")][0]]
        with HubServer(self.repos) as server:
            self.assertRegex(self.convert(server, "-hf", self.NAME, code=5),
                             "index.json of owner/shards names .*safetensors, which is not there")

    def test_a_gguf_file_by_name(self):
        with HubServer(REPOS) as server:
            self.assertEqual(self.convert(server, "-hf", "owner/tiny-GGUF:Q2_K"), self.convert("", MODEL))
            self.assertIn("no GGUF", self.convert(server, "-hf", "owner/weights", code=5))

    def test_the_list_is_the_converters(self):
        def names(path, array):
            text = (hub_case.TESTS.parent / path).read_text()
            return set(re.findall(r'"([^"]+)"', re.search(array + r"\[\] = \{(.*?)\};", text, re.S)[1]))
        reads, got = names("convert/read/hf.c", "hf_texts"), names("hub/folder.c", "folder_texts")
        self.assertEqual({n for n in reads if ".index." not in n}, got)


class Programs(Case):
    """The other programs that take a model."""

    def test_bench(self):
        bench = str(pathlib.Path(QSF_RUN).with_name("qsf-bench"))
        with HubServer(REPOS) as server:
            r = subprocess.run([bench, "-hf", "owner/tiny-GGUF:Q2_K", "-m", "hf:owner/tiny-GGUF", "-p", "8",
                                "-n", "0", "-t", "1", "-r", "1", "--csv"], capture_output=True, text=True,
                               env=self.env(server))
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertRegex(r.stdout, r"tiny-Q4_K_M.gguf[^$]*tiny-Q2_K.gguf")


if __name__ == "__main__":
    hub_case.main()
