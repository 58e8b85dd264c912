import Platform

/// What commands say of a file that they cannot use: what is in the way, and what to type against it.
public enum FileAdvice {
    /// Of a file that is to be read, as sentences without the last full stop; nil when it can be.
    public static func reading(_ path: String) -> String? { obstacle(toReading: path)?.advice() }

    /// What keeps this process from reading a file: one that is to be read is not made, and neither is its directory.
    static func obstacle(toReading path: String) -> FileObstacle? {
        let obstacle = FileAccess.obstacle(toReading: path)
        if case .missingDirectory = obstacle { return .missing(FullPath.of(path)) }
        return obstacle
    }

    /// Of a file that is to be written; nil when it can be.
    public static func writing(_ path: String) -> String? { FileAccess.obstacle(toWriting: path)?.advice() }

    /// The whole path of a file.
    public static func fullPath(of path: String) -> String { FullPath.of(path) }
}
