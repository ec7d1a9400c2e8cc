#!/usr/bin/env python3
"""A model that answers while it is downloaded: the server sends more when the program has shown that it uses
what has come.
SPDX-License-Identifier: MIT

    hub_arrive_test.py QSF_RUN [TEST...]

Needs the requirements of tests/parity/make_tiny.py (numpy, gguf).
"""
import pathlib, signal, subprocess, threading, unittest

import hub_case
from cli_case import WORK
from hub_case import MODEL, QSF_RUN, Case
from hub_server import HubServer
from split_gguf import with_gaps

LONG = pathlib.Path(WORK.name, "long.gguf")
with_gaps(MODEL, LONG, 1 << 18)
# What follows a GGUF file's data is not read.
DATA = LONG.read_bytes() + b"4" * 500_000
REST = LONG.stat().st_size
FIRST = 1 << 20                     # bytes of the first read, which has the description


class Arrives(Case):
    def setUp(self):
        super().setUp()
        self.weights, self.rest = threading.Event(), threading.Event()
        self.sent = DATA

    def spoil(self, request, where):
        if where != "files":
            return False
        if len(request.server.hub.of("files")) > 1:
            return request.answer(404) or True
        request.send_response(200)
        request.send_header("Content-Length", str(len(DATA)))
        request.end_headers()
        for piece, until in ((slice(0, FIRST), self.weights), (slice(FIRST, REST), self.rest),
                             (slice(REST, None), None)):
            request.wfile.write(self.sent[piece])
            request.wfile.flush()
            if until:
                until.wait()
        request.close_connection = True
        return True

    def start(self, hub, *args, asks=("--raw", "-p", "Hi there")):
        r = subprocess.Popen([QSF_RUN, "-hf", "owner/a", "-n", "4", "--temperature", "0", "-t", "1", *asks,
                              *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=self.env(hub), bufsize=0)
        for pipe in (r.stdin, r.stdout, r.stderr):
            self.addCleanup(pipe.close)
        self.addCleanup(r.wait)
        self.addCleanup(r.kill)
        self.addCleanup(self.rest.set)
        self.addCleanup(self.weights.set)
        return r

    def until(self, stream, words):
        said = b""
        while words not in said:
            byte = stream.read(1)
            self.assertTrue(byte, said)
            said += byte

    def answer(self, *asks, said=b""):
        return subprocess.run([QSF_RUN, MODEL, "-n", "4", "--temperature", "0", "-t", "1", *asks], input=said,
                              capture_output=True, check=True).stdout

    def test_an_answer_with_a_template_needs_no_more(self):
        asks = ("--chat-template", "chatml", "-p", "Hi there")
        self.weights.set()
        with HubServer({"owner/a": {"a-Q4_0.gguf": DATA}}, self.spoil) as hub:
            r = self.start(hub, asks=asks)
            self.until(r.stdout, self.answer(*asks).rstrip())
            self.rest.set()
            self.assertEqual(r.wait(), 0)

    def test_a_chat_begins_with_the_description_and_waits_for_the_rest_at_its_end(self):
        asks, lines = ("-i", "--chat-template", "chatml", "-v"), b"Hi there\nAnd you?\n"
        answer = self.answer(*asks, said=lines)
        with HubServer({"owner/a": {"a-Q4_0.gguf": DATA}}, self.spoil) as hub:
            r = self.start(hub, asks=asks)
            self.until(r.stderr, b"KV cache")
            self.weights.set()
            r.stdin.write(lines)
            self.until(r.stdout, answer.rstrip())
            self.assertFalse(self.snapshot("owner/a", "a-Q4_0.gguf").exists())
            r.stdin.close()
            self.rest.set()
            self.assertEqual(r.wait(), 0, r.stderr.read())
            self.assertEqual(self.snapshot("owner/a", "a-Q4_0.gguf").read_bytes(), DATA)

    def test_an_interruption_of_a_chat_that_waits_for_weights_keeps_what_came(self):
        with HubServer({"owner/a": {"a-Q4_0.gguf": DATA}}, self.spoil) as hub:
            r = self.start(hub, asks=("-i", "--chat-template", "chatml", "-v"))
            self.until(r.stderr, b"KV cache")
            r.stdin.write(b"Hi there\n")
            self.until(r.stderr, b"cached\n")           # of the message's tokens: they are computed
            r.send_signal(signal.SIGINT)
            self.assertEqual((r.stdout.read().strip(), r.wait()), (b"", 130))
        part, = self.hub.glob("*/blobs/*.incomplete")
        self.assertGreaterEqual(part.stat().st_size, FIRST)

    def test_an_answer_needs_the_weights_and_no_more(self):
        answer = self.answer("--raw", "-p", "Hi there")
        with HubServer({"owner/a": {"a-Q4_0.gguf": DATA}}, self.spoil) as hub:
            r = self.start(hub, "-v")
            self.until(r.stderr, b"KV cache")           # a context is there, without its weights
            self.weights.set()
            self.until(r.stdout, answer.rstrip())
            self.assertFalse(self.snapshot("owner/a", "a-Q4_0.gguf").exists())
            self.rest.set()
            self.assertEqual(r.communicate()[0], b"\n")
            self.assertEqual(r.returncode, 0)
            self.assertEqual(self.snapshot("owner/a", "a-Q4_0.gguf").read_bytes(), DATA)
            self.assertEqual(len(hub.of("files")), 1)

    def test_a_file_with_another_sum_is_an_error_after_the_answer(self):
        self.weights.set()
        self.sent = DATA[:-1] + b"?"
        with HubServer({"owner/a": {"a-Q4_0.gguf": DATA}}, self.spoil) as hub:
            r = self.start(hub)
            self.until(r.stdout, self.answer("--raw", "-p", "Hi there").rstrip())
            self.rest.set()
            self.assertIn(b"SHA-256", r.communicate()[1])
            self.assertEqual(r.returncode, 3)
            self.assertFalse(self.snapshot("owner/a", "a-Q4_0.gguf").exists())

    def test_pieces_of_a_large_file_come_in_the_order_of_layers(self):
        """What follows the weights stays away; the window of the download is narrower than that."""
        data, asks = DATA + b"5" * (20 << 20), ("--raw", "-p", "Hi there")

        def spoil(request, where):
            if where == "files" and int(request.headers["Range"][6:].split("-")[0]) >= REST:
                self.rest.wait()
            return False
        with HubServer({"owner/a": {"a-Q4_0.gguf": data}}, spoil) as hub:
            r = self.start(hub, "--ram-budget", "64")
            self.until(r.stdout, self.answer(*asks).rstrip())
            self.rest.set()
            self.assertEqual(r.wait(), 0, r.stderr.read())
            self.assertEqual(self.snapshot("owner/a", "a-Q4_0.gguf").read_bytes(), data)
            ranges = [a["range"][6:].split("-") for a in hub.of("files")]
            self.assertGreater(len(ranges), len(data) // (64_000_000 // 32 // 6))
            self.assertEqual(ranges[0][0], "0")

    def test_an_interruption_keeps_what_came(self):
        with HubServer({"owner/a": {"a-Q4_0.gguf": DATA}}, self.spoil) as hub:
            r = self.start(hub, "-v")
            self.until(r.stderr, b"KV cache")
            r.send_signal(signal.SIGINT)
            self.assertEqual((r.communicate()[0], r.returncode), (b"", 130))
        part, = self.hub.glob("*/blobs/*.incomplete")
        self.assertEqual(part.read_bytes(), DATA[:part.stat().st_size])
        self.assertGreaterEqual(part.stat().st_size, FIRST)

    def test_a_file_that_ends_too_early_is_an_error_that_says_so(self):
        self.sent = DATA[:FIRST]
        self.weights.set()
        self.rest.set()
        with HubServer({"owner/a": {"a-Q4_0.gguf": DATA}}, self.spoil) as hub:
            said = self.start(hub).communicate()[1].decode()
        self.assertRegex(said, "reading .* failed.*\n.*404")


if __name__ == "__main__":
    hub_case.main()
