"""The packages of other people's clients: installed from the lists with sums in this folder, outside of
the clone.
SPDX-License-Identifier: MIT
"""
import contextlib, os, pathlib, shutil, subprocess, sys

LISTS = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("QSF_CACHE") or pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "qsf"), "clients")


@contextlib.contextmanager
def _alone(name):
    """Several tests may need the same packages."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{name}.lock", "w") as lock:
        try:
            import fcntl
            fcntl.flock(lock, fcntl.LOCK_EX)
        except ImportError:
            pass
        yield


def _lists(name):
    files = ("package.json", "package-lock.json") if name == "npm" else (f"{name}.lock",)
    return [LISTS / f for f in files]


def installed(name):
    """The folder of a list's packages, or None: no test installs them anew while another uses them."""
    to = CACHE / name
    same = all((to / f.name).exists() and (to / f.name).read_bytes() == f.read_bytes() for f in _lists(name))
    return to if same and (to / "whole").exists() else None


def install(name):
    """The packages of a list; returns their folder."""
    to, listed = CACHE / name, _lists(name)
    with _alone(name):
        if installed(name):
            return to
        print(f"installing {name} in {to}", flush=True)
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir(parents=True)
        if name == "npm":
            for f in listed:
                (to / f.name).write_bytes(f.read_bytes())
            subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=to, check=True)
        else:
            subprocess.run([sys.executable, "-m", "venv", to], check=True)
            subprocess.run([to / "bin" / "python", "-m", "pip", "install", "-q",
                            "--disable-pip-version-check", "--require-hashes", "-r", listed[0]], check=True)
            (to / listed[0].name).write_bytes(listed[0].read_bytes())
        (to / "whole").touch()
        return to
