import Glibc
import Platform

extension FileObstacle {
    /// Says what is in the way and what to type against it, as sentences without the last full stop. `user` is who may
    /// not, and who should.
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
        case .closedDirectory(let path):
            let remedy = Self.leaving(path, besides: name, "name a copy in another place") ?? "Open it: chmod o+x \(path)"
            return "the directory \(path) is closed to \(who). \(remedy)"
        case .unwritableDirectory(let path):
            return "\(who) may not make files in the directory \(path)\(Self.ownership(path)). \(Self.giving(path, to: name))"
        case .unreadable(let path):
            let remedy = ReadRight(userNamed: name)?.remedy(for: path) ?? Self.giving(path, to: name)
            return "\(who) may not read \(path)\(Self.ownership(path)). \(remedy)"
        case .unwritable(let path):
            return "\(who) may not write to \(path)\(Self.ownership(path)). \(Self.giving(path, to: name))"
        case .readOnlyFileSystem(let path): return "\(path) lies on a file system that is mounted read-only. Name another place"
        case .distrustedLink(let path):
            return
                "\(path) is a symbolic link in a directory that is not root's alone, which root does not follow. Name the file itself"
        }
    }

    /// How the user gets a file or a directory; what somebody else needs as it is stays so.
    private static func giving(_ path: String, to name: String) -> String {
        leaving(path, besides: name, "name another place") ?? "Give it away: chown \(name) \(path)"
    }

    private static func leaving(_ path: String, besides name: String, _ remedy: String) -> String? {
        OtherHolder.name(of: path, besides: name).map { "It is there for \($0), so leave it as it is and \(remedy)" }
    }

    private static func ownership(_ path: String) -> String {
        UserName.owner(of: path).map { ", which belongs to \($0)" } ?? ""
    }
}
