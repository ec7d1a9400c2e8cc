#!/usr/bin/env python3
"""Writes what a release is made of as SPDX 2.3: its files, and the libraries that are compiled into them.
SPDX-License-Identifier: MIT

    make_sbom.py VERSION COMMIT FOLDER >qsf-VERSION.spdx.json

The libraries are those that tools/deps.sh pins, with the sums of the archives it takes them from.  The
time is $SOURCE_DATE_EPOCH.
"""
import hashlib, json, os, pathlib, re, sys, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Name in tools/deps.sh: name of the library, licence, package URL of its archive up to the version.
LIBRARIES = {
    "lz4": ("lz4", "BSD-2-Clause", "pkg:pypi/lz4@"),
    "zstandard": ("zstd", "BSD-3-Clause", "pkg:pypi/zstandard@"),
    "yyjson": ("yyjson", "MIT", "pkg:pypi/yyjson@"),
    "libevent": ("libevent", "BSD-3-Clause", "pkg:github/libevent/libevent@release-"),
}
NOT_INSIDE = {"jinja2"}         # its tests are run


def pinned():
    """(name, version, SHA-256) of what tools/deps.sh fetches."""
    text = (ROOT / "tools" / "deps.sh").read_text()
    found = re.findall(r"^(\w+)==([\d.]+) --hash=sha256:([0-9a-f]{64})", text, re.M)
    event = re.search(r"^event=libevent-(\S+)\nevent_sum=([0-9a-f]{64})$", text, re.M)
    found.append(("libevent", event[1], event[2]))
    strange = {name for name, _, _ in found} ^ (LIBRARIES.keys() | NOT_INSIDE)
    if strange:
        sys.exit(f"make_sbom.py and tools/deps.sh differ in {', '.join(sorted(strange))}")
    return [row for row in found if row[0] not in NOT_INSIDE]


def package(name, version, licence, purl, sums, comment):
    refs = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]
    return {"SPDXID": f"SPDXRef-Package-{name}", "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "externalRefs": refs if purl else [],
            "licenseConcluded": licence, "licenseDeclared": licence,
            "copyrightText": "NOASSERTION", "checksums": sums, "comment": comment}


def sha256(value):
    return {"algorithm": "SHA256", "checksumValue": value}


def relation(a, kind, b):
    return {"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}


def document(version, commit, folder):
    packages = [package("qsf", version, "MIT", None, [], f"commit {commit}")]
    relations = [relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Package-qsf")]
    for name, number, value in pinned():
        called, licence, purl = LIBRARIES[name]
        packages.append(package(called, number, licence, purl + number, [sha256(value)],
                                f"sources from the archive of {name} {number}, the version of which this is"))
        relations.append(relation("SPDXRef-Package-qsf", "DEPENDS_ON", packages[-1]["SPDXID"]))
    files = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        name = re.sub(r"[^A-Za-z0-9.-]", "-", path.name)
        files.append({"SPDXID": f"SPDXRef-File-{name}", "fileName": f"./{path.name}",
                      "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(data).hexdigest()},
                                    sha256(hashlib.sha256(data).hexdigest())],
                      "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"})
        relations.append(relation(files[-1]["SPDXID"], "GENERATED_FROM", "SPDXRef-Package-qsf"))
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"qsf-{version}", "documentNamespace": f"https://spdx.org/spdxdocs/qsf-{version}-{commit}",
            "creationInfo": {"created": when, "creators": ["Tool: libqsf-make_sbom.py"]},
            "packages": packages, "files": files, "relationships": relations}


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    json.dump(document(sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])), sys.stdout, indent=1)
    print()
