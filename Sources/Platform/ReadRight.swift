internal import Glibc

/// Whether a user may read files, by their owner, group and mode and those of the directories above them; and what to type so that he may.
///
/// The table of users is read, so make one before other threads run. Access control lists and capabilities are not looked at, but for those
/// of this process.
public struct ReadRight: Sendable {
    /// The user's name, or its number if it has none.
    public let user: String
    /// The name of the user's own group, or its number.
    public let group: String
    private let userNumber: uid_t
    private let groups: Set<gid_t>
    /// Whether it is this process that wants to read.
    private let isProcess: Bool

    /// The user that this process is.
    public init() {
        self.init(user: geteuid(), group: getegid(), isProcess: true)
    }

    /// A user of this machine; nil if there is none of that name.
    public init?(userNamed name: String) {
        guard let entry = getpwnam(name) else { return nil }
        self.init(user: entry.pointee.pw_uid, group: entry.pointee.pw_gid, isProcess: false)
    }

    private init(user: uid_t, group: gid_t, isProcess: Bool) {
        let name = getpwuid(user).map { String(cString: $0.pointee.pw_name) }
        self.user = name ?? "\(user)"
        self.group = getgrgid(group).map { String(cString: $0.pointee.gr_name) } ?? "\(group)"
        var listed = [gid_t](repeating: group, count: 256)
        var count = Int32(listed.count)
        if isProcess {
            count = getgroups(count, &listed)
        } else if getgrouplist(name ?? "", group, &listed, &count) < 0 {
            count = Int32(listed.count)
        }
        userNumber = user
        groups = Set(listed.prefix(Int(max(0, count))) + [group])
        self.isProcess = isProcess
    }

    /// What keeps the user from reading a file that is there: the file, or the first directory that does not let him in; nil if nothing does.
    public func obstacle(to path: String) -> String? {
        guard userNumber != 0 else { return nil }
        guard let resolved = realpath(path, nil) else {
            // As another user root sees everything; as this one a directory in between may be closed.
            return isProcess && errno == EACCES ? closedDirectory(above: path) : nil
        }
        defer { free(resolved) }
        let target = String(cString: resolved)
        if let directory = closedDirectory(above: target) { return directory }
        return allows(target, mask: 0o4) ? nil : target
    }

    /// What to do about an obstacle, as sentences without the last full stop; they end in a command to type, if one is enough.
    ///
    /// A file that another program reads, such as mosquitto, stays as it is: with another group that program would not start any more.
    public func remedy(for obstacle: String) -> String {
        var status = stat()
        guard stat(obstacle, &status) != 0 || status.st_mode & S_IFMT != S_IFDIR else {
            return "The directory \(obstacle) is closed to that user: put a copy of the file where it may go, such as /etc/martlet"
        }
        guard let holder = OtherHolder.name(of: obstacle, besides: user) else {
            return "Type: chgrp \(group) \(obstacle) && chmod g+r \(obstacle)"
        }
        return "It is there for \(holder), so leave it as it is and name a copy instead. Type: " + copying(obstacle)
    }

    /// The command that gives the user a copy of a file, in the place that the packages have for it.
    private func copying(_ path: String) -> String {
        let place = "/etc/martlet"
        let isThere = access(place, F_OK) == 0
        return "install \(isThere ? "" : "-D ")-g \(group) -m 640 \(path)\(isThere ? " \(place)/" : " -t \(place)")"
    }

    private func closedDirectory(above path: String) -> String? {
        var directory = path.hasPrefix("/") ? "" : "."
        for part in path.split(separator: "/").dropLast() {
            directory += "/\(part)"
            guard allows(directory, mask: 0o1) else { return directory }
        }
        return nil
    }

    /// Whether the mode gives the user the right, 4 to read or 1 to enter. What cannot be looked at is left to the kernel.
    private func allows(_ path: String, mask: mode_t) -> Bool {
        if isProcess { return faccessat(AT_FDCWD, path, mask == 0o4 ? R_OK : X_OK, AT_EACCESS) == 0 || errno != EACCES }
        var status = stat()
        guard stat(path, &status) == 0 else { return true }
        if status.st_uid == userNumber { return status.st_mode & (mask << 6) != 0 }
        if groups.contains(status.st_gid) { return status.st_mode & (mask << 3) != 0 }
        return status.st_mode & mask != 0
    }
}
