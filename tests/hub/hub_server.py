"""A server that answers as Hugging Face's hub does, and another origin where its files are: js/test/hub.js in
Python.
SPDX-License-Identifier: MIT
"""
import hashlib, http.server, json, re, threading, urllib.parse

TOKEN = "hf_secret_token"
COMMITS = {"main": "1" * 40, "v2": "2" * 40, "refs/pr/1": "3" * 40}


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def is_large(path):
    return path.endswith((".gguf", ".qsf", ".safetensors"))


def etag(path, data):
    return sha256(data) if is_large(path) else git_sha1(data)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request, address):           # a client that went away
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    where = ""

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, str(value))
        if "Content-Length" not in dict(headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code, text, headers=()):
        self.answer(status, json.dumps({"error": text}).encode(),
                    {"X-Error-Code": code, "X-Error-Message": text, "Content-Type": "application/json",
                     **dict(headers)})

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub = self.server.hub
        with hub.lock:
            hub.asked.append({"where": self.where, "method": self.command, "path": self.path.split("?")[0],
                              "range": self.headers["Range"], "authorization": self.headers["Authorization"]})
        if not (hub.spoil and hub.spoil(self, self.where)):
            self.reply(hub)


class Files(Handler):
    """Where files are: addresses are signed, and tokens must not come here."""
    where = "files"

    def reply(self, hub):
        url = urllib.parse.urlsplit(self.path)
        signature = urllib.parse.parse_qs(url.query).get("X-Amz-Signature", [""])[0]
        repo, path = hub.signed.get(signature, ("", ""))
        if not repo:
            return self.answer(403, b"expired")
        data = hub.sent(hub.repos[repo][path])
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"] or "")
        if not found or not hub.ranges:
            return self.answer(200, data, {"ETag": '"files"'})
        first, last = int(found[1]), min(int(found[2] or len(data)), len(data) - 1)
        if first >= len(data):
            return self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        return self.answer(206, data[first:last + 1], {"ETag": '"files"',
                           "Content-Range": f"bytes {first}-{last}/{len(data)}"})


class Hub(Handler):
    where = "hub"

    def reply(self, hub):
        url = urllib.parse.urlsplit(self.path)
        found = re.fullmatch(r"(/api/models)?/([^/]+/[^/]+)/(tree|resolve)/([^/]+)(?:/(.*))?", url.path)
        repo, how, revision, path = found.groups()[1:] if found else ("", "", "", "")
        given = self.headers["Authorization"]
        if given and given != f"Bearer {TOKEN}":
            return self.refuse(401, "InvalidToken", f"Invalid credentials: {given}")
        if repo not in hub.repos or (repo.startswith("private") and not given):
            return self.refuse(401, "RepoNotFound", "Repository not found")
        commit = COMMITS.get(urllib.parse.unquote(revision),
                             revision if revision in COMMITS.values() else None)
        if not commit:
            return self.refuse(404, "RevisionNotFound", "Invalid rev id")
        files = hub.repos[repo]
        if how == "tree" and found[1]:
            return self.tree(hub, url, files)
        if repo.startswith("gated"):
            return self.refuse(403, "GatedRepo", f"Access to model {repo} is restricted")
        path = urllib.parse.unquote(path or "")
        if path not in files:
            return self.refuse(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
        about = {"X-Repo-Commit": commit, "ETag": f'"{etag(path, files[path])}"', "Accept-Ranges": "bytes"}
        if not is_large(path):
            return self.answer(200, files[path], about)
        with hub.lock:
            signature = str(len(hub.signed) + 1)
            hub.signed[signature] = (repo, path)
        place = f"{hub.files_url}/{urllib.parse.quote(path)}?X-Amz-Signature={signature}"
        return self.answer(302, b"", {**about, "ETag": '"redirection"', "X-Linked-Size": len(files[path]),
                           "X-Linked-ETag": f'"{etag(path, files[path])}"', "Location": place})

    def tree(self, hub, url, files):
        first = int(urllib.parse.parse_qs(url.query).get("cursor", ["0"])[0])
        last = first + hub.page
        rows = [{"type": "file", "oid": git_sha1(data), "size": len(data), "path": path,
                 **({"lfs": {"oid": sha256(data), "size": len(data), "pointerSize": 134}} if is_large(path)
                    else {})} for path, data in list(files.items())[first:last]]
        rows = [{"type": "directory", "oid": "0", "size": 0, "path": "folder"}, *rows]
        more = {"Link": f'<{hub.url}{url.path}?recursive=true&cursor={last}>; rel="next"'} \
            if last < len(files) else {}
        self.answer(200, json.dumps(rows).encode(), {"Content-Type": "application/json", **more})


class HubServer:
    """repos: {"owner/name": {path: bytes}}.  "private/..." needs TOKEN, "gated/..." is refused to all.
    spoil(request, where) may answer instead, and then returns true; where is "hub" or "files".
    sent(bytes): what comes in place of a file's bytes.  asked: of each request."""

    def __init__(self, repos, spoil=None, page=1000, ranges=True, sent=lambda data: data):
        self.repos, self.spoil, self.page, self.ranges, self.sent = repos, spoil, page, ranges, sent
        self.asked, self.signed, self.lock = [], {}, threading.Lock()
        self.servers = [Server(("127.0.0.1", 0), kind) for kind in (Hub, Files)]
        self.url, self.files_url = (f"http://127.0.0.1:{s.server_address[1]}" for s in self.servers)
        for server in self.servers:
            server.hub = self
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def of(self, where, method=None):
        return [a for a in self.asked if a["where"] == where and method in (None, a["method"])]

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
