internal import Glibc
internal import JSON
public import MQTTCodec
internal import MartletClient
internal import Platform

/// A message as it is printed.
public struct PrintableMessage: Sendable {
    public var topic: TopicName
    public var payload: [UInt8]
    public var qos: QoS
    public var retain: Bool
    public var duplicate: Bool
    /// 0 at QoS 0.
    public var packetIdentifier: UInt16
    public var properties: Properties

    public init(
        topic: TopicName, payload: [UInt8] = [], qos: QoS = .atMostOnce, retain: Bool = false, duplicate: Bool = false,
        packetIdentifier: UInt16 = 0, properties: Properties = Properties()
    ) {
        (self.topic, self.payload, self.qos, self.retain, self.duplicate) = (topic, payload, qos, retain, duplicate)
        (self.packetIdentifier, self.properties) = (packetIdentifier, properties)
    }
}

/// What a message becomes on standard output.
public struct PrintedMessage: Equatable, Sendable {
    public var bytes: [UInt8] = []
    /// A line for standard error.
    public var complaint: String?
}

/// How messages are printed.
public struct MessagePrinter: Sendable {
    private let output: PrintArguments.Output
    private let isPretty: Bool
    private let addsNewline: Bool
    private let isForTerminal: Bool

    /// - Parameters:
    ///   - arguments: say how messages are shown.
    ///   - isForTerminal: whether a terminal shows them: then nothing that others have written moves its cursor or
    ///     turns the direction of writing. Everywhere else bytes stay as they are.
    public init(_ arguments: ClientArguments, isForTerminal: Bool = false) {
        (output, isPretty, addsNewline) = (arguments.printing.output, arguments.printing.isPretty, arguments.printing.addsNewline)
        self.isForTerminal = isForTerminal
    }

    /// What a message that came at that time becomes.
    public func print(_ message: PrintableMessage, at time: LocalTime) -> PrintedMessage {
        var printed = PrintedMessage()
        switch output {
        case .payload:
            // mosquitto_sub shows nothing of a message without payload, not even a line.
            if message.payload.isEmpty { return printed }
            printed.bytes = foreign(message.payload)
        case .verbose:
            if message.payload.isEmpty {
                guard addsNewline else { return printed }
                printed.bytes = topic(message) + Array(" (null)".utf8)
            } else {
                printed.bytes = topic(message) + [UInt8(ascii: " ")] + foreign(message.payload)
            }
        case .format(let format):
            printed = format.print(message, at: time, isPretty: isPretty, isForTerminal: isForTerminal)
        case .json:
            let line = JSONLine.bytes(of: message, at: time)
            printed.bytes = isForTerminal ? TerminalText.json(line) : line
        }
        if addsNewline { printed.bytes.append(UInt8(ascii: "\n")) }
        return printed
    }

    /// With no line of its own: else a topic could look like another message.
    private func topic(_ message: PrintableMessage) -> [UInt8] {
        isForTerminal ? TerminalText.line(message.topic.bytes) : message.topic.bytes
    }

    private func foreign(_ bytes: [UInt8]) -> [UInt8] { isForTerminal ? TerminalText.lines(bytes) : bytes }
}

/// The line of `--json`: one message, its fields always in this order, absent ones left out.
///
/// | Field | |
/// |---|---|
/// | `time` | when it arrived, RFC 3339 with nanoseconds and the zone |
/// | `topic` | text |
/// | `payload` | the payload as text, where it is UTF-8 |
/// | `payload_base64` | the payload where it is not |
/// | `qos` | 0, 1 or 2 |
/// | `retain` | whether the server kept it |
/// | `duplicate` | whether it may have come before |
/// | `packet_identifier` | of QoS 1 and 2 |
/// | `properties` | of MQTT 5.0, each named as in the standard with underscores; `correlation_data` as text or `correlation_data_base64`; `user_properties` as a list of pairs; `subscription_identifiers` as a list |
enum JSONLine {
    static func bytes(of message: PrintableMessage, at time: LocalTime) -> [UInt8] {
        var writer = JSONWriter(.cJSON)
        writer.object { object in
            object.set("time", time.internetText)
            object.set("topic", utf8: message.topic.bytes)
            set("payload", data: message.payload, of: &object)
            object.set("qos", message.qos.rawValue)
            object.set("retain", message.retain)
            object.set("duplicate", message.duplicate)
            if message.qos != .atMostOnce { object.set("packet_identifier", message.packetIdentifier) }
            if !message.properties.isEmpty { object.object("properties") { write(message.properties, to: &$0) } }
        }
        return writer.bytes
    }

    private static func set(_ name: String, data: [UInt8], of object: inout JSONWriter) {
        if String(validating: data, as: UTF8.self) != nil {
            object.set(name, utf8: data)
        } else {
            object.set("\(name)_base64", utf8: base64(data))
        }
    }

    private static func write(_ properties: Properties, to object: inout JSONWriter) {
        if let value = properties.payloadFormatIndicator { object.set("payload_format_indicator", value) }
        if let value = properties.messageExpiryInterval { object.set("message_expiry_interval", value) }
        if let value = properties.contentType { object.set("content_type", utf8: value.bytes) }
        if let value = properties.responseTopic { object.set("response_topic", utf8: value.bytes) }
        if let data = properties.correlationData { set("correlation_data", data: data, of: &object) }
        let identifiers = properties.subscriptionIdentifiers
        if !identifiers.isEmpty {
            object.array("subscription_identifiers") { list in for identifier in identifiers { list.add(identifier) } }
        }
        guard !properties.userProperties.isEmpty else { return }
        object.array("user_properties") { pairs in
            for property in properties.userProperties {
                pairs.array { pair in
                    pair.add(utf8: property.name.bytes)
                    pair.add(utf8: property.value.bytes)
                }
            }
        }
    }

    /// RFC 4648, with padding.
    static func base64(_ bytes: [UInt8]) -> [UInt8] {
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        var text: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            var bits: UInt32 = 0
            for byte in group { bits = bits << 8 | UInt32(byte) }
            bits <<= UInt32(8 * (3 - group.count))
            for place in 0..<4 {
                text.append(place <= group.count ? letters[Int(bits >> UInt32(18 - 6 * place) & 63)] : UInt8(ascii: "="))
            }
        }
        return text
    }
}

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
