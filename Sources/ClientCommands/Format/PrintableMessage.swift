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
    private let output: ClientArguments.Output
    private let isPretty: Bool
    private let addsNewline: Bool
    private let isForTerminal: Bool

    /// - Parameters:
    ///   - arguments: say how messages are shown.
    ///   - isForTerminal: whether a terminal shows them: then nothing that others have written moves its cursor or turns the direction of
    ///     writing. Everywhere else bytes stay as they are.
    public init(_ arguments: ClientArguments, isForTerminal: Bool = false) {
        (output, isPretty, addsNewline) = (arguments.output, arguments.isPretty, arguments.addsNewline)
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
