"""The certificates that every broker of a comparison shows, made with openssl."""
import pathlib
import subprocess

_KEYS = {
    "p256": ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
    "rsa2048": ("-newkey", "rsa:2048"),
}


def make(directory):
    """Makes NAME.crt and NAME.key in an existing directory, a pair for each kind of key."""
    directory = pathlib.Path(directory)
    # A broker that is started by root may read them as somebody else.
    directory.chmod(0o755)
    for name, key in _KEYS.items():
        subprocess.run(
            ["openssl", "req", "-x509", *key, "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.crt", "-days", "2",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
            cwd=directory, check=True, capture_output=True)
        (directory / f"{name}.key").chmod(0o644)
    return directory
