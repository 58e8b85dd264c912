/// A file that only grows.
public enum AppendedFile {
    /// Opens a file to write at its end; makes it if there is none, readable for its owner and group.
    public static func open(_ path: String) throws(SystemError) -> FileDescriptor {
        try SystemCall.openAppended(path, mode: 0o640)
    }
}
