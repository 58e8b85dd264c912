import Glibc
import ServerLoops

/// Lines on their way to a descriptor: many with one write, and never half a line in it unless the line is too large for it.
struct LineBuffer {
    private var bytes: [UInt8] = []

    mutating func append(_ line: LogLine, as layout: LogLayout) {
        if layout.isCustomary {
            append(number: UInt64(max(0, line.seconds)))
            append(": ")
            append(line.text)
        } else {
            append(layout.render(line))
        }
        bytes.append(UInt8(ascii: "\n"))
    }

    private mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { bytes.append(contentsOf: $0) }
    }

    private mutating func append(number: UInt64) {
        var divisor: UInt64 = 1
        while number / divisor >= 10 { divisor *= 10 }
        while divisor > 0 {
            bytes.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
            divisor /= 10
        }
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
