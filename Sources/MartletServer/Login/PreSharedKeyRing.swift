import EpollLoop
import Security

/// The pre-shared keys of a listener that are in force: loops look into it during handshakes, a reload exchanges them.
final class PreSharedKeyRing: @unchecked Sendable {
    private let lock = Lock()
    private var keys: PreSharedKeyFile?

    /// Takes the place of the keys before; nil for none.
    func exchange(_ keys: PreSharedKeyFile?) { lock.withLock { self.keys = keys } }

    /// The key of an identity, nil for one that is not known.
    func key(for identity: String) -> [UInt8]? { lock.withLock { keys }?.key(for: Array(identity.utf8)) }
}
