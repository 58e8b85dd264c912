internal import CLinux

/// The kernel refused a call: which call, and why.
///
/// Thrown for what the world does to us. What a peer does to its own connection comes as a value, and what only a mistake of ours
/// can cause (EBADF, EFAULT) traps.
public struct SystemError: Error, Sendable {
    /// The error's number, as `errno` gave it.
    public let errno: Int32
    /// The call that failed, such as `bind`.
    public let operation: StaticString

    public init(errno: Int32, operation: StaticString) {
        self.errno = errno
        self.operation = operation
    }
}

extension SystemError: CustomStringConvertible {
    /// As `perror` writes it: `bind: Address already in use`.
    public var description: String {
        "\(operation): \(reason)"
    }

    /// The kernel's words alone: `Address already in use`.
    public var reason: String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { text in
            guard let start = text.baseAddress else { return "Error \(errno)" }
            linux_error_text(errno, start, text.count)
            return String(cString: start)
        }
    }
}

extension SystemError: Equatable {
    /// The same failure of the same call.
    public static func == (left: SystemError, right: SystemError) -> Bool {
        left.errno == right.errno && left.operation.description == right.operation.description
    }
}
