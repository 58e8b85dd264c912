import BrokerCore
import BrokerModel
import MQTTCodec

/// A test that plays the log makes its records.
extension LogRecord {
    var messages: [Message] { entries.messages }

    /// Adds what a shard has written.
    mutating func append(_ batch: LogBatch) {
        for part in batch.parts { append(batch.entries(of: part)) }
    }

    mutating func append(_ will: SavedWill) {
        var entry: [UInt8] = []
        LogEntry.append(will: will.message, will.name, of: [], to: &entry)
        append(entry)
    }

    mutating func append(_ step: FlowStep, of session: [UInt8]) {
        var entry: [UInt8] = []
        session.withUnsafeBytes { LogEntry.append(step, of: $0, to: &entry) }
        append(entry)
    }

    /// Adds a message of QoS 1 whose turn it is there.
    mutating func append(_ payload: String, to topic: String, _ share: LoggedShare, hops: UInt8 = 0) {
        var entry: [UInt8] = []
        Array(topic.utf8).withUnsafeBytes { topic in
            Array(payload.utf8).withUnsafeBytes { payload in
                var message = LogMessage(
                    topic: topic, properties: UnsafeRawBufferPointer(start: nil, count: 0), payload: payload, qos: .atLeastOnce)
                (message.publisher, message.shares, message.hops) = (3, [share], hops)
                LogEntry.append(message, to: &entry)
            }
        }
        append(entry)
    }

    /// Adds entries as they stand in the log.
    mutating func append(_ added: some Collection<UInt8>) {
        let start = bytes.count
        bytes += added
        let all = bytes
        all.withUnsafeBytes { entries.read($0, from: start) }
    }

    /// The payload of a message, as text.
    func text(_ message: Message) -> String { String(decoding: bytes[message.payload], as: UTF8.self) }
}
