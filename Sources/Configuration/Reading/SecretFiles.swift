import Platform

/// Reads secrets that stand in files of their own: `remote_password file:/run/secrets/site`.
///
/// So a configuration file can be shown, copied and kept under version control, and containers and systemd can hand out what is secret.
struct SecretFiles: Sendable {
    /// Why a secret cannot be used.
    struct Refusal: Error, Equatable {
        /// A sentence, without the secret.
        let message: String
    }

    /// What a value begins with that names a file.
    static let prefix = "file:"

    let files: any FileSource

    /// The file that a value names; nil for a value that is the secret itself.
    static func path(in value: String) -> String? {
        value.hasPrefix(prefix) ? String(value.dropFirst(prefix.count)).trimmed : nil
    }

    /// The secret that `value` stands for: the value itself, or what is in the file that it names.
    func secret(of value: String) throws(Refusal) -> String {
        guard let path = Self.path(in: value) else { return value }
        guard !path.isEmpty else {
            throw Refusal(
                message: "no path follows \"\(Self.prefix)\"; expected \(Self.prefix)PATH, such as file:/run/secrets/password.")
        }
        return try contents(ofFile: path)
    }

    /// The text of a file, without the line break at its end.
    func contents(ofFile path: String) throws(Refusal) -> String {
        var bytes: [UInt8]
        do throws(FileFailure) {
            bytes = try files.contents(ofFile: path, bytesMax: Limits.valueBytesMax)
        } catch {
            throw Refusal(message: "the file \(error.path) with the secret cannot be read: \(error.reason).")
        }
        if bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
        if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        guard !bytes.isEmpty else { throw Refusal(message: "the file \(path) with the secret is empty.") }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Refusal(message: "the file \(path) with the secret is not valid UTF-8.")
        }
        guard !bytes.contains(UInt8(ascii: "\n")) else {
            throw Refusal(message: "the file \(path) with the secret has more than one line; the secret stands there alone.")
        }
        guard LineReader.complaint(about: text) == nil else {
            throw Refusal(message: "the file \(path) with the secret holds a control character.")
        }
        return text
    }
}

extension ConfigurationOption {
    /// Whether what an option says is for nobody's eyes: it is masked wherever the configuration is shown, and may stand in a file of its own.
    public static func isSecret(_ name: String) -> Bool {
        ["bridge_psk", "martlet_cluster_token"].contains(name) || (name.holds("password") && !name.hasSuffix("_file"))
            || name.holds("secret")
    }
}

/// A file that a secret was read from.
public struct SecretFile: Sendable, Equatable {
    /// The option, or the variable of the environment, that names it.
    public let option: String
    public let path: String
}
