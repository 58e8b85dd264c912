internal import Glibc

/// A moment on the clock of the machine's time zone.
public struct LocalTime {
    private var fields: tm
    private let seconds: Int
    let nanoseconds: Int

    /// - `seconds`: since 1970.
    public init(seconds: Int, nanoseconds: Int) {
        fields = tm()
        var time = time_t(seconds)
        localtime_r(&time, &fields)
        (self.seconds, self.nanoseconds) = (seconds, nanoseconds)
    }

    /// The clock of this machine.
    public static var now: LocalTime {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return LocalTime(seconds: time.tv_sec, nanoseconds: time.tv_nsec)
    }

    /// The conversion of strftime that has this letter; empty for letters that it does not know.
    func text(_ letter: UInt8) -> [UInt8] { text("%\(Character(UnicodeScalar(letter)))") }

    /// At most 99 bytes, as mosquitto_sub has it.
    func text(_ format: String) -> [UInt8] {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 100) { buffer in
            let count = withUnsafePointer(to: fields) { strftime(buffer.baseAddress, 100, format, $0) }
            return buffer.prefix(count).map { UInt8(bitPattern: $0) }
        }
    }

    /// Seconds since 1970 and nanoseconds: `1470818943.786368637`.
    var unixText: String { "\(seconds).\(padded(nanoseconds, 9))" }
    var nanosecondsText: String { padded(nanoseconds, 9) }
    /// `2016-08-10T09:47:38+0100`.
    var isoText: [UInt8] { text("%FT%T%z") }
    /// The way of mosquitto_sub's JSON: `2020-05-06T21:48:00.123456Z+0100`.
    var microsecondsText: String { String(decoding: text("%FT%T"), as: UTF8.self) + ".\(padded(nanoseconds / 1000, 6))Z" + zone }
    /// As RFC 3339 wants it: `2020-05-06T21:48:00.123456789+01:00`.
    var internetText: String {
        let digits = zone
        return String(decoding: text("%FT%T"), as: UTF8.self) + ".\(padded(nanoseconds, 9))" + digits.prefix(3) + ":"
            + digits.dropFirst(3)
    }

    private var zone: String { String(decoding: text("%z"), as: UTF8.self) }

    private func padded(_ number: Int, _ digits: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, digits - text.count)) + text
    }
}
