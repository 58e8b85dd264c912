/// A number that the kernel gave for an open file or socket.
///
/// A plain value: whoever holds the last use of it calls `close()`, once. A descriptor that is registered on a loop is deregistered
/// first, else the number may already mean another socket when the loop takes it off.
public struct FileDescriptor: Hashable, Sendable {
    public let rawValue: Int32

    public init(rawValue: Int32) {
        self.rawValue = rawValue
    }

    /// Gives the number back to the kernel.
    public func close() {
        SystemCall.close(self)
    }
}
