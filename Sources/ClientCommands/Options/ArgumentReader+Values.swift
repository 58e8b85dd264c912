internal import MQTTCodec

/// What an option's value stands for; each says what is wrong with one that stands for nothing.
extension ArgumentReader {
    func number<Number: FixedWidthInteger>(
        _ text: String, _ range: ClosedRange<Number>, else complaint: @autoclosure () -> String
    ) throws(ArgumentError) -> Number {
        guard let number = Number(text), range.contains(number) else { throw ArgumentError(complaint()) }
        return number
    }

    func port(_ text: String) throws(ArgumentError) -> UInt16 {
        // mosquitto takes 0 for a Unix socket, which has an option of its own.
        try number(text, 1...UInt16.max, else: "Error: Invalid port given: \(text)")
    }

    func qos(_ text: String, else complaint: @autoclosure () -> String) throws(ArgumentError) -> QoS {
        guard let qos = UInt8(text).flatMap(QoS.init(rawValue:)) else { throw ArgumentError(complaint()) }
        return qos
    }

    func version(_ text: String) throws(ArgumentError) -> ProtocolVersion {
        switch text {
        case "5", "mqttv5": .v5
        case "311", "mqttv311": .v311
        case "31", "mqttv31": .v31
        default: throw ArgumentError("Error: Invalid protocol version argument given.")
        }
    }

    func encoded(_ text: String, _ option: String) throws(ArgumentError) -> EncodedString {
        guard let encoded = EncodedString(text) else {
            throw ArgumentError("Error: \(option) takes at most 65535 bytes and no null character.")
        }
        return encoded
    }

    func name(_ text: String, _ what: String, _ option: String) throws(ArgumentError) -> TopicName {
        guard let name = TopicName(text) else {
            throw ArgumentError("Error: Invalid \(what) '\(text)', does it contain '+' or '#'?")
        }
        return name
    }

    func filter(_ text: String, _ what: String) throws(ArgumentError) -> TopicFilter {
        guard let filter = TopicFilter(text) else {
            throw ArgumentError("Error: Invalid \(what) '\(text)', are all '+' and '#' wildcards correct?")
        }
        return filter
    }

    /// nil for anything but pairs of digits.
    static func bytes(hexadecimal text: String) -> [UInt8]? {
        let digits = text.utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
        guard !digits.isEmpty, digits.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = digits[index], let low = digits[index + 1] else { return nil }
            bytes.append(UInt8(high << 4 | low))
        }
        return bytes
    }
}
