#!/usr/bin/env python3
"""Models by name in qsf-serve, from a server that answers as Hugging Face's hub does.
SPDX-License-Identifier: MIT

    hub_serve_test.py QSF_RUN [TEST...]         qsf-serve lies next to it

Needs the requirements of tests/parity/make_tiny.py (numpy, gguf).  Ollama's client is among the packages of
the server's clients (tests/clients/clients.lock).
"""
import contextlib, json, os, pathlib, re, subprocess, sys, threading, unittest
import urllib.error, urllib.request

import hub_case
from hub_case import MODEL, QSF_RUN, REPOS, TESTS, Case
from hub_server import HubServer, sha256

sys.path.append(str(TESTS / "clients"))
import packages


class Serve(Case):
    @contextlib.contextmanager
    def serving(self, hub, *args):
        """The address of qsf-serve with these arguments."""
        serve = pathlib.Path(QSF_RUN).with_name("qsf-serve")
        if not serve.exists():
            self.skipTest("this build has no server")
        r = subprocess.Popen([serve, *args, "--port", "0"], stderr=subprocess.PIPE, text=True,
                             env=self.env(hub))
        try:
            said = ""
            while "http://" not in said:
                line = r.stderr.readline()
                self.assertTrue(line, said)
                said += line if "downloading" not in line else ""
            yield re.search(r"http://[\d.]+:\d+", said)[0]
        finally:
            r.terminate()
            r.communicate()

    def names(self, url):
        with urllib.request.urlopen(f"{url}/v1/models") as answer:
            return [m["id"] for m in json.load(answer)["data"]]

    def ask(self, url, model, path="/v1/completions", member="model"):
        body = json.dumps({"model": model, "prompt": "Hi", "max_tokens": 2}).encode()
        try:
            with urllib.request.urlopen(url + path, body) as answer:
                return answer.status, json.load(answer)[member]
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)["error"]["message"]

    def test_serve(self):
        with HubServer(REPOS) as hub, self.serving(hub, "-hf", "owner/tiny-GGUF", "-m",
                                                   "small=hf:owner/tiny-GGUF:Q2_K", "-t", "1") as url:
            self.assertEqual(self.names(url), ["small", "tiny-Q4_K_M"])
            self.assertEqual(self.ask(url, "owner/tiny-GGUF:F16")[0], 404)
            self.assertEqual(len(hub.of("files")), 2)

    def test_requests_may_name_models(self):
        with HubServer(REPOS) as hub, self.serving(hub, MODEL, "--models-by-name", "-t", "1") as url:
            name = "owner/tiny-GGUF:Q2_K"
            self.assertEqual(self.ask(url, name), (200, name))
            self.assertEqual(self.names(url), [pathlib.Path(MODEL).stem, name])
            self.assertEqual(self.ask(url, name), (200, name))
            self.assertEqual(len(hub.of("files")), 1)
            for name, status, words in (("owner/tiny-GGUF:Q5_K_M", 404, "has no model in Q5_K_M; it has"),
                                        ("owner/missing", 404, "Repository not found"),
                                        ("gated/tiny", 500, "accept its conditions"),
                                        ("owner/../x", 404, "unknown model"), ("none", 404, "unknown model"),
                                        (f"{hub.url}/owner/tiny-GGUF", 404, "unknown model")):
                for _ in range(2):
                    found, message = self.ask(url, name)
                    self.assertEqual(found, status, message)
                    self.assertIn(words, message)
            self.assertEqual(len(self.names(url)), 2)

    def send(self, url, method, path, **body):
        request = urllib.request.Request(url + path, json.dumps(body).encode(), method=method)
        try:
            return urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            return error

    def delete(self, url, model):
        with self.send(url, "DELETE", "/api/delete", model=model) as answer:
            return answer.status

    def test_a_pull_is_watched_while_others_are_served(self):
        """The hub sends half of the file, and the rest when the test has seen that."""
        name, path = "owner/tiny-GGUF:F16", "tiny-F16.gguf"
        data = REPOS["owner/tiny-GGUF"][path]
        half, go = len(data) // 2, threading.Event()

        def spoil(request, where):
            if where != "files" or path not in request.path or go.is_set():
                return False
            request.send_response(200)
            request.send_header("Content-Length", str(len(data)))
            request.end_headers()
            request.wfile.write(data[:half])
            request.wfile.flush()
            go.wait()
            request.wfile.write(data[half:])
            return True
        with HubServer(REPOS, spoil) as hub, self.serving(hub, MODEL, "--models-by-name", "-t", "1",
                                                            "--quiet") as url:
            def pull():
                stream = self.send(url, "POST", "/api/pull", model=name)
                self.assertEqual(json.loads(stream.readline()), {"status": "pulling manifest"})
                while json.loads(stream.readline())["completed"] < half:
                    pass
                return stream
            with pull():                                # its client goes, and it ends
                self.assertEqual(self.delete(url, name), 409)
            while self.delete(url, name) == 409:
                pass
            self.assertEqual(self.delete(url, name), 404)
            with pull() as stream:
                self.assertEqual(self.ask(url, pathlib.Path(MODEL).stem)[0], 200)
                self.assertEqual(self.ask(url, "owner/tiny-GGUF:Q2_K")[0], 200)
                go.set()
                said = [json.loads(line) for line in stream]
            done = {"status": f"pulling {sha256(data)[:12]}", "digest": f"sha256:{sha256(data)}",
                    "total": len(data), "completed": len(data)}
            self.assertEqual(said[-4:], [done, *({"status": s} for s in ("verifying sha256 digest",
                                                                          "writing manifest", "success"))])
            self.assertIn(name, self.names(url))
            self.assertEqual(self.ask(url, name)[0], 200)
            self.assertEqual(self.delete(url, name), 200)
            self.assertFalse(self.snapshot("owner/tiny-GGUF", path).is_symlink())
            self.assertNotIn(name, self.names(url))
            self.assertEqual(self.ask(url, name)[0], 200)
            self.assertTrue(self.snapshot("owner/tiny-GGUF", path).is_file())
            self.assertEqual(self.delete(url, pathlib.Path(MODEL).stem), 403)

    def test_lists_have_what_is_cached(self):
        """As qsf list has it, before a client names it, and without loading it."""
        qsf = pathlib.Path(QSF_RUN).with_name("qsf")

        def run(hub, *args):
            return subprocess.run([qsf, *args], capture_output=True, text=True, check=True,
                                  env=self.env(hub)).stdout

        def tags(url):
            with urllib.request.urlopen(f"{url}/api/tags") as answer:
                return {m["name"]: m["size"] for m in json.load(answer)["models"]}
        first = pathlib.Path(MODEL).stem
        with HubServer(REPOS) as hub:
            run(hub, "pull", "owner/tiny-GGUF:F16", "owner/tiny-GGUF:Q2_K@v2")
            with self.serving(hub, MODEL, "--models-by-name", "-t", "1", "--quiet") as url:
                cached = [line.split("  hf:")[1] for line in run(hub, "list").splitlines()]
                f16, q2_k = "owner/tiny-GGUF/tiny-F16.gguf", "owner/tiny-GGUF/sub folder/tiny-Q2_K.gguf@v2"
                self.assertEqual(cached, [f16, q2_k])
                self.assertEqual(self.names(url), [first, *cached])
                self.assertEqual(tags(url)[f16], len(REPOS["owner/tiny-GGUF"]["tiny-F16.gguf"]))
                with urllib.request.urlopen(f"{url}/api/ps") as answer:
                    self.assertEqual([m["name"] for m in json.load(answer)["models"]], [first])
                asked = len(hub.asked)
                self.assertEqual(self.ask(url, f16), (200, f16))
                self.assertEqual(self.ask(url, q2_k), (200, q2_k))
                self.assertEqual(len(hub.asked), asked)
                self.assertEqual(self.delete(url, f16), 200)
                self.assertEqual(list(tags(url)), [first, q2_k])
                self.assertEqual(self.ask(url, "owner/tiny-GGUF:F16")[0], 200)
                self.assertEqual(set(tags(url)), {first, q2_k, "owner/tiny-GGUF:F16"})

    def test_ollamas_client_pulls_and_deletes(self):
        if not (packages.CACHE / "clients").exists() and not os.environ.get("QSF_TEST_NO_SKIP"):
            self.skipTest("serve_clients_test.py has not installed the client yet")
        try:
            python = packages.install("clients") / "bin" / "python"
        except (OSError, subprocess.CalledProcessError) as wrong:
            self.skipTest(f"the packages of clients.lock cannot be installed: {wrong}")
        script = """if 1:
            import ollama, sys
            client, name = ollama.Client(host=sys.argv[1]), "hf.co/owner/tiny-GGUF:F16"
            def refused(call):
                try:
                    call()
                except ollama.ResponseError as e:
                    return e.status_code, e.error
            said = list(client.pull(name, stream=True))
            assert [said[0].status, said[-1].status] == ["pulling manifest", "success"], said
            assert [s for s in said if s.digest][-1].completed == said[1].total > 0, said
            assert client.pull(name).status == "success"
            assert name in [m.model for m in client.list().models]
            assert client.show(name).modelinfo["general.architecture"]
            assert client.generate(name, "Hi", options={"num_predict": 2, "temperature": 0}).response
            assert client.delete(name).status == "success"
            assert name not in [m.model for m in client.list().models]
            assert refused(lambda: client.delete(name))[0] == 404
            assert refused(lambda: client.pull("owner/tiny-GGUF:Q5_K_M"))[0] == 404
            assert "no model in Q5" in refused(lambda: list(client.pull("owner/tiny-GGUF:Q5_K_M",
                                                                        stream=True)))[1]"""
        with HubServer(REPOS) as hub, self.serving(hub, MODEL, "--models-by-name", "-t", "1") as url:
            r = subprocess.run([python, "-c", script, url], capture_output=True, text=True)
            self.assertEqual(r.returncode, 0, r.stderr)


if __name__ == "__main__":
    hub_case.main()
