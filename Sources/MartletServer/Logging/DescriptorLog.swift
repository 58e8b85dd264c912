public import BrokerCore
import Configuration
import EpollLoop
import Glibc

/// Writes lines as mosquitto does to one descriptor: seconds since 1970 (or another format), a colon, the text.
///
/// A line is one write, so that lines of several threads never mix.
public final class DescriptorLog: LogSink {
    private let descriptor: Int32
    private let hasTimestamp: Bool
    /// For strftime; nil for seconds since 1970.
    private let timestampFormat: String?

    public init(descriptor: Int32, hasTimestamp: Bool = true, timestampFormat: String? = nil) {
        self.descriptor = descriptor
        self.hasTimestamp = hasTimestamp
        self.timestampFormat = timestampFormat
    }

    public func write(_ topic: LogTopics, _ text: String) {
        var line = hasTimestamp ? "\(timestamp()): \(text)\n" : "\(text)\n"
        line.withUTF8 { bytes in
            var offset = 0
            while offset < bytes.count {
                let written = Glibc.write(descriptor, bytes.baseAddress.map { $0 + offset }, bytes.count - offset)
                if written < 0, errno == EINTR { continue }
                // A log that nobody can read must not stop the broker.
                guard written > 0 else { return }
                offset += written
            }
        }
    }

    private func timestamp() -> String {
        var seconds = time(nil)
        guard let timestampFormat else { return String(seconds) }
        var parts = tm()
        localtime_r(&seconds, &parts)
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            guard let start = buffer.baseAddress, strftime(start, buffer.count, timestampFormat, &parts) > 0 else {
                return String(seconds)
            }
            return String(cString: start)
        }
    }
}
