#!/usr/bin/env python3
"""A large file by several connections, from servers that know ranges, or not, or fail.
SPDX-License-Identifier: MIT

    hub_pieces_test.py QSF_RUN [TEST...]        qsf lies next to it

Needs the requirements of tests/parity/make_tiny.py (numpy, gguf).
"""
import pathlib, random, signal, subprocess, threading, unittest

import hub_case
from hub_case import QSF_RUN, SMALL, Case
from hub_server import HubServer, sha256

REPO, FILE = "owner/a", "a-Q4_0.gguf"
PIECE = 1 << 20
DATA = SMALL + random.Random(1).randbytes(16 * PIECE - len(SMALL) + 5)     # barely large enough


def first_of(request):
    return int((request.headers["Range"] or "bytes=0-")[6:].split("-")[0])


class Pieces(Case):
    def setUp(self):
        super().setUp()
        self.lock = threading.Lock()

    def pull(self, hub):
        return subprocess.run([pathlib.Path(QSF_RUN).with_name("qsf"), "pull", f"hf:{REPO}"],
                              capture_output=True, text=True, env=self.env(hub))

    def blob(self, more=""):
        return self.hub / f"models--{REPO.replace('/', '--')}" / "blobs" / f"{sha256(DATA)}{more}"

    def whole(self, hub):
        """The ranges that a download asked for."""
        r = self.pull(hub)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertTrue(self.snapshot(REPO, FILE).read_bytes() == DATA)
        self.assertEqual([p.name for p in self.blob().parent.iterdir()], [self.blob().name])
        return [(a["range"] or "bytes=0-")[6:].split("-") for a in hub.of("files")]

    def hub_of(self, spoil=None, **options):
        return HubServer({REPO: {FILE: DATA}}, spoil, **options)

    def test_connections_share_a_file_and_ask_the_hub_once_each(self):
        """After the first piece, no other one is sent before three of them are asked for."""
        others = threading.Barrier(3)

        def spoil(request, where):
            if where == "files" and first_of(request) in (PIECE, 2 * PIECE, 3 * PIECE):
                others.wait()
            return False
        with self.hub_of(spoil) as hub:
            ranges = self.whole(hub)
            self.assertEqual(sorted(int(first) for first, _ in ranges), list(range(0, len(DATA), PIECE)))
            self.assertLessEqual(len(hub.of("hub", "GET")), 1 + 4)      # the list, and four redirections

    def test_a_server_without_ranges(self):
        with self.hub_of(ranges=False) as hub:
            self.assertLessEqual(len(self.whole(hub)), 2)

    def test_a_server_that_wants_one_connection(self):
        busy = threading.Lock()

        def spoil(request, where):
            if where != "files":
                return False
            if not busy.acquire(blocking=False):
                return request.answer(429, b"", {"Retry-After": "50"}) or True
            try:
                return request.reply(request.server.hub) or True
            finally:
                busy.release()
        with self.hub_of(spoil) as hub:
            self.whole(hub)

    def test_connections_that_end_early_and_addresses_that_expire(self):
        n = 0

        def spoil(request, where):
            nonlocal n
            if where != "files":
                return False
            with self.lock:
                n += 1
                mine = n
            if mine % 5 == 4:
                return request.answer(403, b"expired") or True
            first, last = (int(x) for x in request.headers["Range"][6:].split("-"))
            request.send_response(206)
            request.send_header("Content-Length", str(last + 1 - first))
            request.send_header("Content-Range", f"bytes {first}-{last}/{len(DATA)}")
            request.end_headers()
            request.wfile.write(DATA[first:(first + last) // 2] if mine % 3 else DATA[first:last + 1])
            request.close_connection = True
            return True
        with self.hub_of(spoil) as hub:
            self.whole(hub)

    def test_nothing_is_lost_if_all_connections_fail_at_once(self):
        """The first three pieces come, then there is nothing but 503, then all is well."""
        fails = 0

        def spoil(request, where):
            nonlocal fails
            if where != "files" or first_of(request) < 3 * PIECE:
                return False
            with self.lock:
                fails += 1
                return fails <= 5 and (request.answer(503, b"", {"Retry-After": "0"}) or True)
        with self.hub_of(spoil) as hub:
            ranges = self.whole(hub)
            self.assertEqual([first for first, _ in ranges].count("0"), 1)

    def test_a_stop_keeps_the_beginning_and_what_came_after_it(self):
        """The second piece stays away until the program has been stopped."""
        stopped, came = threading.Event(), threading.Event()
        self.addCleanup(stopped.set)

        def spoil(request, where):
            if where != "files" or stopped.is_set():
                return False
            at = first_of(request) // PIECE
            if at == 1:
                stopped.wait()
                return True
            if at == 5:                 # the window's end: one of 2, 3 and 4 is whole by now
                request.reply(request.server.hub)
                came.set()
                return True
            return False
        with self.hub_of(spoil) as hub:
            r = subprocess.Popen([pathlib.Path(QSF_RUN).with_name("qsf"), "pull", f"hf:{REPO}"],
                                 stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=self.env(hub))
            self.addCleanup(r.kill)
            came.wait()
            r.send_signal(signal.SIGINT)
            self.assertEqual(r.wait(), 130)
            stopped.set()
            part = self.blob(".incomplete").read_bytes()
            self.assertLessEqual(len(part), PIECE)
            self.assertEqual(part, DATA[:len(part)])
            ahead = self.blob(".ahead").stat().st_size          # 16 bytes and what came, of each piece
            self.assertGreater(ahead, PIECE)
            before = len(hub.of("files"))
            ranges = self.whole(hub)[before:]
            asked = sum(int(last) + 1 - int(first) for first, last in ranges)
            self.assertLessEqual(asked, len(DATA) - len(part) - (ahead - 5 * 16))

    def test_what_is_kept_is_no_more_trusted_than_what_comes(self):
        self.blob().parent.mkdir(parents=True)
        at = (2 * PIECE).to_bytes(8, "little")
        with self.hub_of() as hub:
            self.blob(".ahead").write_bytes(at + (10).to_bytes(8, "little") + b"?" * 10)
            self.assertIn("SHA-256", self.pull(hub).stderr)
            self.assertEqual(list(self.blob().parent.iterdir()), [])
            self.blob(".ahead").write_bytes(at + (1 << 40).to_bytes(8, "little") + b"?" * 10)
            self.whole(hub)

    def test_a_file_that_another_program_began_is_resumed(self):
        self.blob().parent.mkdir(parents=True)
        self.blob(".incomplete").write_bytes(DATA[:5 * PIECE + 77])
        with self.hub_of() as hub:
            ranges = self.whole(hub)
            self.assertEqual(min(int(first) for first, _ in ranges), 5 * PIECE + 77)


if __name__ == "__main__":
    hub_case.main()
