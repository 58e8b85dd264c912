import Persistence
import Platform

/// Whether the user that the process is now may work with a store.
enum StoreRights {
    /// Finds what is in the way of the store in a directory; nil when nothing is. Nothing is opened.
    static func obstacle(to directory: String) -> FileObstacle? {
        if let obstacle = FileAccess.obstacle(toMakingFilesIn: directory) { return obstacle }
        return SQLiteStore.paths(in: directory).lazy.compactMap { FileAccess.obstacle(toWriting: $0) }.first
    }
}
