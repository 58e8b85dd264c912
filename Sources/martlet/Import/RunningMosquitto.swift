import Configuration
import Glibc
import Platform

/// A mosquitto that runs on this machine.
enum RunningMosquitto {
    /// The process that runs with a configuration file; nil when none does, or this user is not shown it.
    static func process(of file: String) -> Int32? {
        guard let wanted = resolved(file), let names = try? DiskFiles().names(inDirectory: "/proc") else { return nil }
        return names.compactMap { Int32($0) }.sorted().first { process in
            guard text(of: "/proc/\(process)/comm")?.hasPrefix("mosquitto\n") == true, sharesRoot(process) else { return false }
            let words = (text(of: "/proc/\(process)/cmdline") ?? "").split(separator: "\0").map(String.init)
            return words.contains { resolved($0) == wanted }
        }
    }

    /// Whether the process means the same files by its paths: one in a container does not.
    private static func sharesRoot(_ process: Int32) -> Bool {
        var own = stat()
        var others = stat()
        guard stat("/", &own) == 0, stat("/proc/\(process)/root/", &others) == 0 else { return geteuid() != 0 }
        return own.st_dev == others.st_dev && own.st_ino == others.st_ino
    }

    private static func text(of path: String) -> String? {
        (try? WholeFile.bytes(of: path, bytesMax: 1 << 16)).map { String(decoding: $0, as: UTF8.self) }
    }

    private static func resolved(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
