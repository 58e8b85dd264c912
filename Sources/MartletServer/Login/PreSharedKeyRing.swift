import Platform
import Security

/// The pre-shared keys of a listener that are in force: loops look into it during handshakes, a reload exchanges them.
final class PreSharedKeyRing: Sendable {
    private let keys = Locked<PreSharedKeyFile?>(nil)

    /// Takes the place of the keys before; nil for none.
    func exchange(_ keys: PreSharedKeyFile?) { self.keys.replace(with: keys) }

    /// The key of an identity, nil for one that is not known.
    func key(for identity: String) -> [UInt8]? { keys.value?.key(for: Array(identity.utf8)) }
}
