import Glibc
import Platform
import Testing

/// Certificates in a directory of a test's own, made with the openssl program.
final class TestAuthority {
    let directory: String

    init() throws {
        directory = "/tmp/martlet-tls-\(RandomBytes.seed())"
        try #require(mkdir(directory, 0o700) == 0)
        run("req -x509 \(Self.curve) -keyout ca.key -out ca.crt -days 30 -subj '/CN=authority'")
    }

    deinit {
        _ = system("rm -rf '\(directory)'")
    }

    func path(_ file: String) -> String { "\(directory)/\(file)" }

    /// Makes NAME.crt and NAME.key.
    func issue(_ name: String, subject: String) {
        run("req \(Self.curve) -keyout \(name).key -out \(name).csr -subj '\(subject)'")
        run("x509 -req -in \(name).csr -CA ca.crt -CAkey ca.key -CAcreateserial -out \(name).crt -days 30")
    }

    /// Makes NAME.enc of NAME.key: the key under a password.
    func encryptKey(_ name: String, password: String) {
        run("pkey -in \(name).key -aes256 -passout 'pass:\(password)' -out \(name).enc")
    }

    /// The bytes of a file.
    func bytes(_ file: String) throws -> [UInt8] {
        let stream = try #require(fopen(path(file), "r"))
        defer { fclose(stream) }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        return Array(bytes[..<fread(&bytes, 1, bytes.count, stream)])
    }

    private func run(_ arguments: String) {
        let status = system("cd '\(directory)' && openssl \(arguments) >openssl.log 2>&1")
        if status != 0 { Issue.record("openssl \(arguments)") }
    }

    private static let curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
}
