import EpollLoop

/// The way from the log into the broker, once there is one: what is logged before is not published.
final class LogOutlet: @unchecked Sendable {
    private let lock = Lock()
    private var receiver: (@Sendable (_ topic: String, _ text: String) -> Void)?

    func connect(to receiver: @escaping @Sendable (_ topic: String, _ text: String) -> Void) {
        lock.withLock { self.receiver = receiver }
    }

    func publish(_ topic: String, _ text: String) {
        lock.withLock { receiver }?(topic, text)
    }
}
