/// Signals as events: blocked everywhere, and read from a descriptor on a loop.
///
/// Make it on the first thread before any other starts: threads inherit the blocked signals, and a signal to the
/// process goes to any thread that does not block it. Its owner registers `fileDescriptor` on a loop and calls `read()`
/// when it is readable.
public struct SignalSource: Sendable {
    private let descriptor: FileDescriptor

    /// Blocks the signals in the calling thread and in those that it will start.
    public init(signals: [Int32]) throws(SystemError) {
        descriptor = try SystemCall.createSignalDescriptor(signals)
    }

    /// What to register on a loop.
    public var fileDescriptor: Int32 { descriptor.rawValue }

    /// The signals that came, in the order in which the kernel gives them; empty when there is none. Does not block.
    public func read() -> [Int32] {
        var signals: [Int32] = []
        while let signal = SystemCall.readSignal(descriptor) { signals.append(signal) }
        return signals
    }

    /// Gives the descriptor back. The signals stay blocked.
    public func close() {
        descriptor.close()
    }

    /// Lets the signal pass unnoticed in the whole process, as a server does with SIGPIPE.
    public static func ignore(_ signal: Int32) {
        SystemCall.ignoreSignal(signal)
    }
}
