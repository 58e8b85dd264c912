import Glibc
import Platform

extension FileObstacle {
    /// What is in the way and what to type against it, as sentences without the last full stop. `user` is who may not, and who should.
    func advice(for user: uid_t = geteuid()) -> String {
        let who = UserName.inWords(user)
        let name = UserName.of(user) ?? "\(user)"
        switch self {
        case .missing(let path): return MissingFile(path).words
        case .missingDirectory(let path):
            let make = geteuid() == 0 && user != 0 ? "install -d -o \(name) -m 750 \(path)" : "mkdir -p \(path)"
            return "the directory \(path) does not exist. Make it: \(make)"
        case .notDirectory(let path): return "\(path) is a file, not a directory. Name a directory"
        case .isDirectory(let path): return "\(path) is a directory. Name a file"
        case .closedDirectory(let path): return "the directory \(path) is closed to \(who). Open it: chmod o+x \(path)"
        case .unwritableDirectory(let path):
            return "\(who) may not make files in the directory \(path)\(Self.ownership(path)). Give it away: chown \(name) \(path)"
        case .unreadable(let path):
            let remedy = ReadRight(userNamed: name)?.remedy(for: path) ?? "Give it away: chown \(name) \(path)"
            return "\(who) may not read \(path)\(Self.ownership(path)). \(remedy)"
        case .unwritable(let path):
            return "\(who) may not write to \(path)\(Self.ownership(path)). Give it away: chown \(name) \(path)"
        case .readOnlyFileSystem(let path): return "\(path) lies on a file system that is mounted read-only. Name another place"
        case .distrustedLink(let path):
            return
                "\(path) is a symbolic link in a directory that is not root's alone, which root does not follow. Name the file itself"
        }
    }

    private static func ownership(_ path: String) -> String {
        UserName.owner(of: path).map { ", which belongs to \($0)" } ?? ""
    }
}
