import Glibc
import Platform

/// What systemd wants to hear of a service: `sd_notify`'s protocol, spoken directly.
///
/// Without NOTIFY_SOCKET in the environment nobody listens, and every call does nothing.
struct ServiceManager: Sendable {
    private let socket: String?
    /// How often it must hear that the service is well; nil when it does not ask.
    let watchdogMilliseconds: UInt64?

    /// As the environment of the process says.
    init() { self.init { getenv($0).map { String(cString: $0) } } }

    init(variable: (String) -> String?) {
        socket = variable("NOTIFY_SOCKET").flatMap { $0.hasPrefix("/") || $0.hasPrefix("@") ? $0 : nil }
        let isOurs = variable("WATCHDOG_PID").map { $0 == "\(getpid())" } ?? true
        let microseconds = variable("WATCHDOG_USEC").flatMap { UInt64($0) } ?? 0
        watchdogMilliseconds = socket != nil && isOurs && microseconds >= 3000 ? microseconds / 1000 : nil
    }

    func ready(_ status: String) { send("READY=1\nSTATUS=\(status)\nMAINPID=\(getpid())") }

    func reloading() { send("RELOADING=1\nMONOTONIC_USEC=\(MonotonicClock.milliseconds() * 1000)") }

    func stopping() { send("STOPPING=1") }

    func isWell() { send("WATCHDOG=1") }

    private func send(_ text: String) {
        guard let socket else { return }
        ServiceSocket.send(text, to: socket)
    }
}
