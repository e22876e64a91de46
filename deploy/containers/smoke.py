#!/usr/bin/env python3
"""Tests an image without a container engine: its settings, and its program in a chroot.

usage: smoke.py PROGRAM VERSION REVISION IMAGE

PROGRAM   flexmetal-operator, flexmetal-simulator or kubectl-flexmetal
IMAGE     an archive of `docker buildx build --output type=oci` or `docker save`, or a folder of programs that
          stands for the build stage of deploy/Dockerfile

Needs Linux, root, openssl and unshare. The program runs as user 65532 without a network but the loopback device, where
a name server and a TLS server answer it.
"""

import gzip
import io
import json
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
from pathlib import Path

DOCKERFILE = Path(__file__).resolve().parents[1] / "Dockerfile"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
USER = 65532
NAME = "api.smoke.test"
# Only the operator calls a server without a cluster.
CALLS = {"flexmetal-operator"}
KUBECONFIG = f"""\
apiVersion: v1
kind: Config
current-context: it
contexts: [{{name: it, context: {{cluster: it, user: it}}}}]
clusters: [{{name: it, cluster: {{server: "https://{NAME}:8443"}}}}]
users: [{{name: it, user: {{token: none}}}}]
"""


def check(is_right, message):
    if not is_right:
        sys.exit(f"deploy/containers/smoke.py: {message}")


def unpack_archive(archive, root):
    """Writes the files of an image and returns its configuration."""
    with tarfile.open(archive) as image:
        def read(path):
            return image.extractfile(path).read()

        def blob(descriptor):
            return read("blobs/" + descriptor["digest"].replace(":", "/"))

        manifest = json.loads(read("index.json"))
        while "manifests" in manifest:
            images = [m for m in manifest["manifests"] if m.get("platform", {}).get("os") != "unknown"]
            check(len(images) == 1, f"the archive has {len(images)} images; build it for one platform")
            manifest = json.loads(blob(images[0]))
        for layer in manifest["layers"]:
            data = blob(layer)
            data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
            with tarfile.open(fileobj=io.BytesIO(data)) as files:
                files.extractall(root, filter="tar")
        return json.loads(blob(manifest["config"]))["config"]


def assemble(folder, program, root):
    """Does what the Dockerfile's stage of the program does with files."""
    stages = {}
    for base, name, lines in re.findall(r"^FROM (\S+) AS (\S+)\n((?:(?!FROM ).*\n)*)", DOCKERFILE.read_text(), re.M):
        stages[name] = stages.get(base, "") + lines
    stage = next(lines for lines in stages.values() if f'ENTRYPOINT ["/{program}"]' in lines)
    for source, target in re.findall(r"^COPY --from=build (\S+) (\S+)$", stage, re.M):
        source = folder / Path(source).name if source.startswith("/programs/") else Path(source)
        target = root / target.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def check_settings(settings, program, version, revision):
    check(settings.get("User") == f"{USER}:{USER}", f"the image runs as {settings.get('User')}")
    check(settings.get("Entrypoint") == [f"/{program}"], f"the image starts {settings.get('Entrypoint')}")
    labels = settings.get("Labels") or {}
    expected = {"title": program, "version": version, "revision": revision, "licenses": "Apache-2.0"}
    for name, value in expected.items():
        found = labels.get(f"org.opencontainers.image.{name}")
        check(found == value, f"the label {name} is {found}, expected {value}")
    for name in ("source", "description"):
        check(labels.get(f"org.opencontainers.image.{name}"), f"the label {name} is missing")


def in_root(root, *command, **options):
    """Starts a program of the image as its user."""
    chroot = [shutil.which("chroot") or "/usr/sbin/chroot", f"--userspec={USER}:{USER}", root, *command]
    return subprocess.Popen(chroot, env={}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def answer_names():
    """A name server for one name. It counts the questions for it."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    questions = []

    def serve():
        while True:
            query, client = server.recvfrom(512)
            question = query[12:]
            wanted = b"".join(bytes([len(p)]) + p.encode() for p in NAME.split(".")) + b"\0"
            is_a = question.startswith(wanted) and question[len(wanted):len(wanted) + 4] == b"\0\1\0\1"
            question = question[: len(question.split(b"\0", 1)[0]) + 5]
            head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, int(is_a), 0, 0)
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4\x7f\0\0\1" if is_a else b""
            questions.append(is_a)
            server.sendto(head + question + answer, client)

    threading.Thread(target=serve, daemon=True).start()
    return questions


def answer_tls(folder):
    """A TLS server whose certificate is signed by `authority.pem`. It keeps the first line of each request."""
    run = lambda *command: subprocess.run(["openssl", *command], check=True, capture_output=True, cwd=folder)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]
    run("req", "-x509", *key, "-keyout", "authority.key", "-out", "authority.pem", "-days", "2", "-subj", "/CN=smoke")
    run("req", "-x509", *key, "-keyout", "server.key", "-out", "server.pem", "-days", "2", "-subj", "/CN=server",
        "-CA", "authority.pem", "-CAkey", "authority.key", "-addext", f"subjectAltName=DNS:{NAME}",
        "-addext", "basicConstraints=critical,CA:FALSE")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server = socket.create_server(("127.0.0.1", 8443))
    requests, refused = [], []

    def serve():
        while True:
            plain, _ = server.accept()
            try:
                with context.wrap_socket(plain, server_side=True) as client:
                    requests.append(client.recv(4096).split(b"\r\n")[0].decode())
                    client.sendall(b"HTTP/1.1 503 Smoke\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            except OSError as error:
                refused.append(str(error))

    threading.Thread(target=serve, daemon=True).start()
    return requests, refused


def wait_for(process, results, what):
    for _ in range(300):
        if results:
            return
        if process.poll() is not None:
            break
        threading.Event().wait(0.1)
    process.kill()
    check(results, f"{what}; the program said: {process.communicate()[0]}")


def check_calls(root, program):
    """The program resolves a name, refuses an unknown authority and trusts one of the image's certificates."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    (root / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
    (root / "kubeconfig").write_text(KUBECONFIG)
    start = lambda: in_root(root, f"/{program}", "--kubeconfig=/kubeconfig", "--listen=127.0.0.1:8081")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        questions = answer_names()
        requests, refused = answer_tls(folder)
        for is_known, results in ((False, refused), (True, requests)):
            if is_known:
                with (root / CERTIFICATES).open("a") as bundle:
                    bundle.write((folder / "authority.pem").read_text())
            process = start()
            wait_for(process, questions, f"no question for {NAME} reached the name server")
            wait_for(process, results, "no TLS handshake " + ("ended" if is_known else "was refused"))
            check(is_known or not requests, f"the program trusted an unknown authority: {requests}")
            process.kill()
            process.communicate()
        print(f"resolved {NAME}, refused an unknown authority, then sent {requests[0]!r}")


def main(program, version, revision, image):
    check(program in DOCKERFILE.read_text(), f"deploy/Dockerfile has no {program}")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        if Path(image).is_dir():
            assemble(Path(image), program, root)
        else:
            check_settings(unpack_archive(image, root), program, version, revision)
        files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())
        check(files == sorted([program, CERTIFICATES]), f"the image has {files}")
        count = (root / CERTIFICATES).read_text().count("BEGIN CERTIFICATE")
        check(count > 50, f"the image has {count} certificates")
        words = in_root(root, f"/{program}", "--version").communicate(timeout=20)[0]
        print(words.strip())
        for what in (version, revision):
            check(what in words, f"--version prints {words.strip()!r} without {what}")
        if program in CALLS:
            check_calls(root, program)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    if "SMOKE_NETWORK" not in os.environ:
        # A network of its own: nothing outside answers, and port 53 is free.
        os.execvpe("unshare", ["unshare", "--net", sys.executable, *sys.argv], {**os.environ, "SMOKE_NETWORK": "own"})
    main(*sys.argv[1:])
