import Platform

/// The way from the log into the broker, once there is one: what is logged before is not published.
package final class LogOutlet: Sendable {
    package typealias Receiver = @Sendable (_ topic: String, _ text: String) -> Void

    private let receiver = Locked<Receiver?>(nil)

    package init() {}

    package func connect(to receiver: @escaping Receiver) { self.receiver.replace(with: receiver) }

    package func publish(_ topic: String, _ text: String) {
        receiver.value?(topic, text)
    }
}
