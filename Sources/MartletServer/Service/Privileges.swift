import BrokerCore
import Glibc

/// `user`: a broker that root starts goes on as somebody who may do less.
struct Privileges {
    /// Whom the broker goes on as.
    struct User {
        let name: String
        let user: uid_t
        let group: gid_t
    }

    /// The user that a broker started by root becomes; nil when it stays who it is.
    ///
    /// mosquitto's default user may be missing, then it is nobody; a user that the file names must exist.
    ///
    /// - Parameters:
    ///   - name: as the configuration has it.
    ///   - warn: gets what the operator should know, as sentences.
    static func user(named name: String, warn: (String) -> Void) throws(ServerError) -> User? {
        guard geteuid() == 0 else { return nil }
        guard name != "root" else {
            warn("The broker should not be run as root.")
            return nil
        }
        if let user = find(name) { return user }
        guard name == "mosquitto" else { throw .unknownUser(name) }
        warn("Unable to drop privileges to 'mosquitto' because this user does not exist. Trying 'nobody' instead.")
        guard let nobody = find("nobody") else { throw .unknownUser("nobody") }
        return nobody
    }

    /// Finds that user without saying anything; nil also for a name that nobody has.
    static func successor(named name: String) -> User? {
        guard geteuid() == 0, name != "root" else { return nil }
        return find(name) ?? (name == "mosquitto" ? find("nobody") : nil)
    }

    /// A user whom the machine has under this name; nil for none, and for root.
    static func other(named name: String) -> User? { name == "root" ? nil : find(name) }

    /// Does something with the rights of a user, and is root again afterwards; nil when the kernel does not let it. Not while other threads
    /// run: they would have these rights too.
    static func acting<Result>(as user: User, _ body: () -> Result) -> Result? {
        let count = getgroups(0, nil)
        var groups = [gid_t](repeating: 0, count: max(0, Int(count)))
        guard count >= 0, getgroups(count, &groups) >= 0, initgroups(user.name, user.group) == 0 else { return nil }
        defer { setgroups(groups.count, groups) }
        guard setegid(user.group) == 0 else { return nil }
        defer { setegid(0) }
        guard seteuid(user.user) == 0 else { return nil }
        defer { seteuid(0) }
        return body()
    }

    /// Becomes the user, for good and for all threads. Call when everything that needs root is open.
    static func drop(to user: User) throws(ServerError) {
        guard initgroups(user.name, user.group) == 0 else { throw failure("initgroups", user) }
        guard setgid(user.group) == 0 else { throw failure("setgid", user) }
        guard setuid(user.user) == 0 else { throw failure("setuid", user) }
    }

    private static func find(_ name: String) -> User? {
        // The table of users is read before any thread runs: the static answer is ours.
        guard let entry = getpwnam(name) else { return nil }
        return User(name: name, user: entry.pointee.pw_uid, group: entry.pointee.pw_gid)
    }

    private static func failure(_ operation: String, _ user: User) -> ServerError {
        .privileges(user: user.name, operation: operation, errno: errno)
    }
}
