#!/usr/bin/env python3
"""Packs a folder so that the same files give the same bytes: names sorted, one time, no owner.
SPDX-License-Identifier: MIT

    make_archive.py OUT.tar.xz|OUT.zip FOLDER

Everything lies in a folder that is named as the archive.  The time is $SOURCE_DATE_EPOCH.  $QSF_PACK_LEVEL:
0, fast, to 9, small (the default is 6).
"""
import lzma, os, pathlib, re, sys, tarfile, time, zipfile

LEVEL = int(os.environ.get("QSF_PACK_LEVEL", "6"))


def files(folder):
    """(name, path, mode) of each file."""
    for path in sorted(folder.rglob("*"), key=lambda p: p.as_posix()):
        if path.is_symlink():
            sys.exit(f"{path}: links are not packed")
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path, 0o755 if os.access(path, os.X_OK) else 0o644


def tar(out, top, folder, when):
    # its window holds a whole program, and the programs have most of their code in common
    with lzma.open(out, "wb", preset=LEVEL) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, path, mode in files(folder):
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size, info.mtime, info.mode = path.stat().st_size, when, mode
            with path.open("rb") as f:
                archive.addfile(info, f)


def zipped(out, top, folder, when):
    date = time.gmtime(max(when, 315532800))[:6]        # a zip's years begin with 1980
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path, mode in files(folder):
            info = zipfile.ZipInfo(f"{top}/{name}", date)
            info.create_system, info.external_attr = 3, (0o100000 | mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes(), compresslevel=max(LEVEL, 1))


def main():
    if len(sys.argv) != 3 or not re.search(r"\.(zip|tar\.xz)$", sys.argv[1]):
        sys.exit(__doc__)
    out, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    top, when = re.sub(r"\.(zip|tar\.xz)$", "", out.name), int(os.environ["SOURCE_DATE_EPOCH"])
    (zipped if out.suffix == ".zip" else tar)(out, top, folder, when)


if __name__ == "__main__":
    main()
