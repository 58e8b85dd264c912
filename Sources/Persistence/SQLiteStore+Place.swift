internal import Glibc

extension SQLiteStore {
    /// Whether there is a store in a directory, whole or not.
    public static func exists(in directory: String) -> Bool { access(StoreFiles(directory: directory).database, F_OK) == 0 }
}
