internal import Glibc

/// Paths as messages show them: whole, so that they can be looked up and typed wherever the reader stands.
public enum FullPath {
    /// The path from the root on; as it is if it is whole already, or the directory that the process works in is gone.
    public static func of(_ path: String) -> String {
        guard !path.hasPrefix("/"), let directory = getcwd(nil, 0) else { return path }
        defer { free(directory) }
        let place = String(cString: directory)
        var rest = path[...]
        while rest.hasPrefix("./") { rest = rest.dropFirst(2).drop { $0 == "/" } }
        guard !rest.isEmpty, rest != "." else { return place }
        return place == "/" ? "/\(rest)" : "\(place)/\(rest)"
    }
}
