/// Why a store did not do what was asked.
public enum StoreError: Error, Hashable, Sendable {
    /// Another client has it: the file, and which process if that is known.
    case inUse(String, process: Int? = nil)
    /// A later version of this library wrote it.
    case newer(String)
    /// A build of this library from before its first release wrote it.
    case unreleased(String)
    /// The file is something else.
    case foreign(String)
    /// The file is not what was written, or the disk does not give it back: the file, and what is wrong.
    case damaged(String, String)
    /// There is no room: the disk's, or the store's own bound.
    case noRoom(String)
    /// The kernel or the disk refuses: the file, and why. Nothing is committed any more.
    case failed(String, String)
    /// It was closed.
    case closed
}

extension StoreError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .inUse(let path, let process?): "\(path) is used by another client (process \(process))"
        case .inUse(let path, nil): "\(path) is used by another client"
        case .newer(let path): "\(path) was written by a later version"
        case .unreleased(let path): "\(path) was written by a build from before the first release, and cannot be read: remove it"
        case .foreign(let path): "\(path) is no client's store"
        case .damaged(let path, let why): "\(path) is damaged: \(why)"
        case .noRoom(let path): "there is no room for \(path)"
        case .failed(let path, let why): "\(path): \(why)"
        case .closed: "it was closed"
        }
    }
}
