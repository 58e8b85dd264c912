import Glibc

/// Which processes have a file below a directory open to write to it, as far as they are shown to whoever asks.
struct DirectoryWriters {
    /// Each as `martlet (pid 42)`, in the order of their numbers.
    let names: [String]

    init(below directory: String) {
        guard let real = realpath(directory, nil) else {
            names = []
            return
        }
        let beginning = String(cString: real) + "/"
        free(real)
        names = Self.names(in: "/proc").compactMap { Int32($0) }.sorted().filter { Self.writes($0, beginning) }.map {
            "\(Self.program($0)) (pid \($0))"
        }
    }

    private static func writes(_ process: Int32, _ beginning: String) -> Bool {
        let descriptors = "/proc/\(process)/fd"
        return names(in: descriptors).contains { name in
            let path = "\(descriptors)/\(name)"
            var status = stat()
            // The link may be written to where the file may be: whoever reads a log keeps nobody from removing it.
            guard lstat(path, &status) == 0, status.st_mode & S_IWUSR != 0 else { return false }
            return target(of: path)?.hasPrefix(beginning) ?? false
        }
    }

    private static func program(_ process: Int32) -> String {
        target(of: "/proc/\(process)/exe")?.split(separator: "/").last.map { String($0) } ?? "a process"
    }

    private static func target(of link: String) -> String? {
        var letters = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(link, &letters, letters.count)
        return count > 0 ? String(decoding: letters.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self) : nil
    }

    private static func names(in directory: String) -> [String] { DevDirectory.names(in: directory) ?? [] }
}
