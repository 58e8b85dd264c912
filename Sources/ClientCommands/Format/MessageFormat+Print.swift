internal import MQTTCodec
internal import Platform

extension MessageFormat {
    /// What the format makes of a message, without an end of line. On a terminal the format's own escapes act, and none of the message's.
    func print(
        _ message: PrintableMessage, at time: LocalTime, isPretty: Bool, isForTerminal: Bool = false
    ) -> PrintedMessage {
        var printed = PrintedMessage()
        for part in parts {
            switch part {
            case .bytes(let bytes): printed.bytes += bytes
            case .time(UInt8(ascii: "N")): printed.bytes += Array(time.nanosecondsText.utf8)
            case .time(let letter): printed.bytes += time.text(letter)
            case .field(let field):
                guard isForTerminal else {
                    put(field, message, time, isPretty, &printed)
                    continue
                }
                var shown = PrintedMessage()
                put(field, message, time, isPretty, &shown)
                printed.bytes += field.onTerminal(shown.bytes)
                printed.complaint = shown.complaint ?? printed.complaint
            }
        }
        return printed
    }

    private func put(
        _ field: Field, _ message: PrintableMessage, _ time: LocalTime, _ isPretty: Bool, _ printed: inout PrintedMessage
    ) {
        let properties = message.properties
        switch Character(UnicodeScalar(field.letter)) {
        case "%": printed.bytes.append(field.letter)
        case "A": printed.bytes += field.number(properties.topicAlias)
        case "C": printed.bytes += properties.contentType.map { field.text($0.bytes) } ?? field.blank
        case "D": printed.bytes += properties.correlationData ?? []
        case "E": printed.bytes += field.number(properties.messageExpiryInterval)
        case "F": printed.bytes += field.number(properties.payloadFormatIndicator)
        case "I": printed.bytes += field.text(time.isoText)
        case "j", "J":
            let isEscaped = field.letter == UInt8(ascii: "j")
            if let json = MessageJSON.bytes(of: message, at: time, isEscaped: isEscaped, isPretty: isPretty) {
                printed.bytes += json
            } else {
                printed.complaint = "Error: Message payload is not valid JSON on topic \(message.topic)."
            }
        case "l": printed.bytes += field.number(message.payload.count)
        case "m": printed.bytes += field.number(message.packetIdentifier)
        case "P":
            let pairs = properties.userProperties.map { $0.name.bytes + [UInt8(ascii: ":")] + $0.value.bytes }
            printed.bytes += pairs.joined(separator: [UInt8(ascii: " ")])
        case "p": printed.bytes += field.payload(message.payload, digits: nil)
        case "q": printed.bytes += Array("\(message.qos.rawValue)".utf8)
        case "R": printed.bytes += properties.responseTopic.map { field.text($0.bytes) } ?? []
        case "r": printed.bytes.append(message.retain ? UInt8(ascii: "1") : UInt8(ascii: "0"))
        case "S": printed.bytes += field.number(properties.subscriptionIdentifiers.first)
        case "t": printed.bytes += field.text(message.topic.bytes)
        case "U": printed.bytes += Array(time.unixText.utf8)
        case "x": printed.bytes += field.payload(message.payload, digits: Self.lowerDigits)
        case "X": printed.bytes += field.payload(message.payload, digits: Self.upperDigits)
        default: break
        }
    }

    private static let lowerDigits = Array("0123456789abcdef".utf8)
    private static let upperDigits = Array("0123456789ABCDEF".utf8)
}

extension MessageFormat.Field {
    private static let space = UInt8(ascii: " ")

    /// What has become of the field, for a terminal.
    fileprivate func onTerminal(_ bytes: [UInt8]) -> [UInt8] {
        switch Character(UnicodeScalar(letter)) {
        case "j", "J": TerminalText.json(bytes)
        case "p", "D": TerminalText.lines(bytes)
        default: TerminalText.line(bytes)
        }
    }

    private var padding: UInt8 { padsWithZeros ? UInt8(ascii: "0") : Self.space }

    /// As wide as the field, for a text that is not there.
    fileprivate var blank: [UInt8] { [UInt8](repeating: Self.space, count: width) }

    fileprivate func number(_ number: (some BinaryInteger)?) -> [UInt8] {
        guard let number else { return [UInt8](repeating: padding, count: width) }
        return aligned(Array("\(number)".utf8), padding)
    }

    fileprivate func text(_ text: [UInt8]) -> [UInt8] { aligned(precision.map { Array(text.prefix($0)) } ?? text, Self.space) }

    private func aligned(_ text: [UInt8], _ padding: UInt8) -> [UInt8] {
        let missing = max(0, width - text.count)
        return alignsLeft
            ? text + [UInt8](repeating: Self.space, count: missing) : [UInt8](repeating: padding, count: missing) + text
    }

    /// A payload is cut to the width.
    fileprivate func payload(_ payload: [UInt8], digits: [UInt8]?) -> [UInt8] {
        var kept = payload[...]
        var missing = 0
        if width > 0 {
            kept = kept.prefix(width)
            // mosquitto_sub shows half of the bytes in hexadecimal digits, whether or not there is room for all.
            if digits != nil { kept = kept.prefix(kept.count / 2) }
            missing = width - kept.count * (digits == nil ? 1 : 2)
        } else if alignsLeft {
            missing = payload.count
        }
        let shown = digits.map { digits in kept.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] } } ?? Array(kept)
        return alignsLeft
            ? shown + [UInt8](repeating: Self.space, count: missing) : [UInt8](repeating: padding, count: missing) + shown
    }
}
