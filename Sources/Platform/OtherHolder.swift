internal import Glibc

/// Whether a file is there for somebody else, such as mosquitto, which would not start any more if its owner or group were changed.
public enum OtherHolder {
    /// Who needs the file or directory as it is: an owner or a group that is neither root nor the user, or mosquitto, whose own directories
    /// hold it. nil when it can be given to the user.
    ///
    /// - Parameters:
    ///   - path: of something that is there.
    ///   - userName: who is to be let in.
    public static func name(of path: String, besides userName: String) -> String? {
        guard let status = SystemCall.status(of: path) else { return nil }
        let user = getpwnam(userName)?.pointee
        if status.st_uid != 0, status.st_uid != user?.pw_uid { return UserName.of(status.st_uid) ?? "\(status.st_uid)" }
        if status.st_gid != 0, status.st_gid != user?.pw_gid { return groupName(status.st_gid) }
        let isMosquittos = directories.contains { path == $0 || path.hasPrefix($0 + "/") }
        return isMosquittos && userName != "mosquitto" ? "mosquitto" : nil
    }

    /// mosquitto's directories, as its packages make them.
    public static let directories = [
        "/etc/mosquitto", "/var/lib/mosquitto", "/var/log/mosquitto", "/run/mosquitto", "/var/run/mosquitto",
    ]

    private static func groupName(_ number: gid_t) -> String {
        getgrgid(number).map { String(cString: $0.pointee.gr_name) } ?? "the group \(number)"
    }
}
