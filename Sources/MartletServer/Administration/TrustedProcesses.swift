import Glibc

/// Which processes of this machine may do everything over a Unix socket: root's, and those of the broker's user. Belongs to the control thread.
///
/// Members of the broker's group are not among them: a proxy that reaches the socket through its group brings strangers.
final class TrustedProcesses {
    /// By their numbers.
    private var names: [UInt32: String] = [:]

    func includes(_ user: UInt32) -> Bool { user == 0 || user == geteuid() }

    /// What the audit calls a user of this machine.
    func name(of user: UInt32) -> String {
        if let name = names[user] { return name }
        // This thread alone asks for users while the broker runs: the static answer is its own.
        let name = getpwuid(user).map { String(cString: $0.pointee.pw_name) } ?? "uid \(user)"
        names[user] = name
        return name
    }
}
