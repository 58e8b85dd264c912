import Glibc

/// Lines on their way to a descriptor: many with one write, and never half a line in it unless the line is too large for it.
struct LineBuffer {
    private var bytes: [UInt8] = []

    mutating func append(_ line: String) {
        bytes.append(contentsOf: line.utf8)
        bytes.append(UInt8(ascii: "\n"))
    }

    var isFull: Bool { bytes.count >= Limits.logLineBytesMax }

    /// Writes all of it. What the descriptor does not take is given up: a log that nobody can read must not stop the broker.
    mutating func flush(to descriptor: Int32) {
        defer { bytes.removeAll(keepingCapacity: bytes.capacity <= 4 * Limits.logLineBytesMax) }
        bytes.withUnsafeBytes { bytes in
            var offset = 0
            while offset < bytes.count {
                let written = write(descriptor, bytes.baseAddress.map { $0 + offset }, bytes.count - offset)
                if written > 0 {
                    offset += written
                } else if written < 0, errno == EAGAIN {
                    // Somebody made the terminal or pipe that we share non-blocking.
                    var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    guard poll(&entry, 1, -1) >= 0 || errno == EINTR else { return }
                } else if written == 0 || errno != EINTR {
                    return
                }
            }
        }
    }
}
