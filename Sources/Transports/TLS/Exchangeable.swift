internal import EpollLoop

/// A value that threads read and one replaces now and then.
final class Exchangeable<Value: Sendable>: @unchecked Sendable {
    private let lock = Lock()
    private var stored: Value

    init(_ value: Value) {
        stored = value
    }

    var value: Value { lock.withLock { stored } }

    func replace(with value: Value) {
        // The old value's end may take a while: it comes after the lock's.
        let old = lock.withLock {
            let old = stored
            stored = value
            return old
        }
        withExtendedLifetime(old) {}
    }
}
