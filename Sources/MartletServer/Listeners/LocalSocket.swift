public import Configuration
import Glibc

/// Where a broker is administered from on its machine whose configuration names no Unix socket for that: a socket of its own, in a directory
/// that nobody else can write to.
///
///     $XDG_RUNTIME_DIR/martlet/1883.sock      of a user who has logged in
///     /run/martlet/1883.sock                  of root, if the directory is root's
///     /tmp/martlet-1000/1883.sock             of any other
public enum LocalSocket {
    /// Where it is; nil without a directory that is safe.
    ///
    /// - Parameters:
    ///   - configuration: whose ports tell brokers of one user apart.
    ///   - variable: gives the value of an environment variable.
    ///   - makesDirectory: whether the directory is made where it is not there.
    public static func path(
        for configuration: BrokerConfiguration, variable: (String) -> String?, makesDirectory: Bool
    ) -> String? {
        directory(variable, makes: makesDirectory).map { "\($0)/\(name(of: configuration))" }
    }

    /// Adds it to a configuration that has no other one.
    public static func add(to configuration: inout BrokerConfiguration, at path: String?) {
        guard let path, !configuration.listeners.contains(where: \.isAdministrationSocket) else { return }
        var listener = ListenerConfiguration(endpoint: .unixSocket(path: path))
        listener.application = .httpAPI
        listener.isDispensable = true
        listener.isBrokersOwn = true
        // The store has one pace for all listeners, which this one, of which no file speaks, must not quicken.
        listener.durability = configuration.strictestDurability
        configuration.listeners.append(listener)
    }

    /// The sockets of brokers of this user that are there, whether somebody listens or not; that of a broker on the usual port first.
    public static func all(_ variable: (String) -> String?) -> [String] {
        guard let directory = directory(variable, makes: false), let stream = opendir(directory) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name.hasSuffix(".sock") { names.append(name) }
        }
        let usual = "\(BrokerConfiguration.defaultPort).sock"
        return names.sorted { ($0 == usual ? 0 : 1, $0) < ($1 == usual ? 0 : 1, $1) }.map { "\(directory)/\($0)" }
    }

    /// Brokers of one user differ in their ports.
    private static func name(of configuration: BrokerConfiguration) -> String {
        for listener in configuration.listeners where listener.application != .httpAPI {
            switch listener.endpoint {
            case .tcp(let port, _), .loopback(let port): return "\(port).sock"
            case .unixSocket: continue
            }
        }
        return "unix.sock"
    }

    /// The user's directory; nil if it is not there, or others can write to it.
    private static func directory(_ variable: (String) -> String?, makes: Bool) -> String? {
        let user = geteuid()
        let path =
            if let own = variable("XDG_RUNTIME_DIR"), own.hasPrefix("/"), isSafe(own, user) {
                "\(own)/martlet"
            } else {
                user == 0 ? "/run/martlet" : "/tmp/martlet-\(user)"
            }
        if makes { mkdir(path, user == 0 ? 0o755 : 0o700) }
        return isSafe(path, user) ? path : nil
    }

    /// Whether a path is a directory of the user's, into which nobody else writes.
    private static func isSafe(_ path: String, _ user: uid_t) -> Bool {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else { return false }
        return status.st_uid == user && status.st_mode & 0o022 == 0
    }
}
