/// When messages of a fixed rate are due: message k at `start + k / rate`, whatever became of the ones before.
///
/// A message that is late for want of a window or of time keeps the stamp of when it was due, so that what a stalled broker delays is
/// measured in full (no coordinated omission).
struct OpenLoop {
    private let start: UInt64
    private let nanosecondsPerMessage: Double
    private var sent: UInt64 = 0

    init(start: UInt64, messagesPerSecond: Double) {
        self.start = start
        nanosecondsPerMessage = 1e9 / messagesPerSecond
    }

    /// When the next message is due, in nanoseconds.
    var nextDue: UInt64 { start &+ UInt64(Double(sent) * nanosecondsPerMessage) }

    /// The next message has been put out.
    mutating func advance() { sent += 1 }
}
