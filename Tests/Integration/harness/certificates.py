"""Certificates for one test, made with openssl."""

import os
import subprocess
from pathlib import Path

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*arguments, directory: Path):
    subprocess.run(["openssl", *map(str, arguments)], cwd=directory, check=True, capture_output=True)


class Authority:
    """An authority, and the certificates that it has signed; all as PEM files in a directory."""

    def __init__(self, directory: Path, name: str = "ca"):
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.name = name
        self.certificate = directory / f"{name}.crt"
        openssl("req", "-x509", *CURVE, "-keyout", f"{name}.key", "-out", f"{name}.crt", "-days", "30",
                "-subj", f"/CN={name} of a test", directory=directory)  # fmt: skip
        (directory / "index.txt").touch()
        (directory / "crlnumber").write_text("01\n")

    def issue(self, name: str, subject: str = "/CN=localhost", *, alternative: str = "DNS:localhost,IP:127.0.0.1", days: int = 30) -> Path:
        """Makes NAME.crt and NAME.key; the answer is the former. With fewer than no days it has expired."""
        openssl("req", *CURVE, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject,
                "-addext", f"subjectAltName={alternative}", directory=self.directory)  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", self.certificate, "-CAkey", f"{self.name}.key",
                "-CAcreateserial", "-out", f"{name}.crt", "-days", days, "-copy_extensions", "copy",
                directory=self.directory)  # fmt: skip
        return self.directory / f"{name}.crt"

    def forge(self, name: str, old: bytes, new: bytes):
        """Puts other bytes, as many, into NAME's certificate, and has the authority sign it again: what openssl would not write."""
        subprocess.run(["openssl", "x509", "-in", f"{name}.crt", "-outform", "DER", "-out", f"{name}.der"], cwd=self.directory, check=True)
        whole = (self.directory / f"{name}.der").read_bytes()
        assert len(old) == len(new) and old in whole

        def item(bytes_: bytes) -> tuple[bytes, bytes]:
            """The first item of DER, and what follows it."""
            length, start = bytes_[1], 2
            if length & 0x80:
                start += length & 0x7F
                length = int.from_bytes(bytes_[2:start])
            return bytes_[: start + length], bytes_[start + length :]

        def wrap(tag: int, content: bytes) -> bytes:
            size = len(content).to_bytes((len(content).bit_length() + 7) // 8 or 1)
            return bytes([tag]) + (size if len(content) < 0x80 else bytes([0x80 | len(size)]) + size) + content

        content = whole[len(whole) - len(item(whole)[0]) + (2 if not whole[1] & 0x80 else 2 + (whole[1] & 0x7F)) :]
        body, rest = item(content)
        algorithm, _ = item(rest)
        (self.directory / "body.der").write_bytes(body.replace(old, new))
        openssl("dgst", "-sha256", "-sign", f"{self.name}.key", "-out", "signature.der", "body.der", directory=self.directory)
        signature = wrap(3, b"\0" + (self.directory / "signature.der").read_bytes())
        (self.directory / f"{name}.der").write_bytes(wrap(0x30, body.replace(old, new) + algorithm + signature))
        openssl("x509", "-inform", "DER", "-in", f"{name}.der", "-out", f"{name}.crt", directory=self.directory)

    def revoke(self, name: str | None = None) -> Path:
        """The list of revoked certificates, with NAME on it if it is given."""
        configuration = self.directory / "ca.conf"
        configuration.write_text(
            "[ca]\ndefault_ca=own\n[own]\ndatabase=index.txt\ncrlnumber=crlnumber\ndefault_md=sha256\ndefault_crl_days=30\n"
        )
        common = ["ca", "-config", configuration, "-cert", self.certificate, "-keyfile", f"{self.name}.key"]
        if name:
            openssl(*common, "-revoke", f"{name}.crt", directory=self.directory)
        openssl(*common, "-gencrl", "-out", "revoked.crl", directory=self.directory)
        return self.directory / "revoked.crl"

    def answer(self, name: str, *, is_good: bool) -> Path:
        """What the authority's responder (OCSP) says of NAME's certificate: that it is good, or revoked; as a file for `s_server`."""
        self.revoke()
        what = "-valid" if is_good else "-revoke"
        openssl("ca", "-config", "ca.conf", "-cert", self.certificate, "-keyfile", f"{self.name}.key", what, f"{name}.crt", directory=self.directory)
        openssl("ocsp", "-issuer", self.certificate, "-cert", f"{name}.crt", "-no_nonce", "-reqout", "request.der", directory=self.directory)
        openssl("ocsp", "-index", "index.txt", "-CA", self.certificate, "-rsigner", self.certificate, "-rkey", f"{self.name}.key",
                "-reqin", "request.der", "-respout", "answer.der", "-ndays", "1", directory=self.directory)  # fmt: skip
        return self.directory / "answer.der"

    def publish(self, name: str, link: Path):
        """Lets LINK.crt and LINK.key show the files of NAME, at once, as Kubernetes does: by exchanging a symbolic link."""
        target = self.directory / f"..{name}"
        target.mkdir(exist_ok=True)
        for kind in ("crt", "key"):
            (target / f"tls.{kind}").write_bytes((self.directory / f"{name}.{kind}").read_bytes())
        fresh = link.with_suffix(".new")
        fresh.symlink_to(target)
        os.replace(fresh, link)
