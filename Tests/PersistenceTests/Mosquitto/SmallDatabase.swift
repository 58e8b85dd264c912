import MQTTCodec

@testable import Persistence

/// A file of version 6, record by record.
struct SmallDatabase {
    private var file = MosquittoFile(version: 6)

    var database: MosquittoDatabase { get throws { try MosquittoDatabase(file.bytes) } }

    mutating func client(_ identifier: String, expiry: UInt32 = .max, endsAt: UInt64 = 0) {
        let lengths = MosquittoFile.big(UInt16(identifier.utf8.count)) + [0, 0, 0, 0]
        file.append(
            6, MosquittoFile.little(endsAt) + MosquittoFile.big(expiry) + [0, 0] + lengths + [0, 0, 0, 0] + Array(identifier.utf8))
    }

    /// A message of QoS 2.
    mutating func message(_ number: UInt64, from source: String, _ topic: String, _ payload: String, retain: Bool = false) {
        let lengths = MosquittoFile.big(UInt16(source.utf8.count)) + [0, 0] + MosquittoFile.big(UInt16(topic.utf8.count))
        let fixed = MosquittoFile.little(number) + MosquittoFile.little(UInt64(0)) + MosquittoFile.big(UInt32(payload.utf8.count))
        let flags: [UInt8] = [2, retain ? 1 : 0]
        file.append(2, fixed + [0, 0] + lengths + [0, 0] + flags + Array("\(source)\(topic)\(payload)".utf8))
    }

    /// A message of QoS 2 to a client.
    mutating func delivery(_ client: String, _ message: UInt64, identifier: UInt16, state: UInt8) {
        append(client, message, identifier, state, direction: 1)
    }

    /// A message of QoS 2 from a client.
    mutating func arrival(_ client: String, _ message: UInt64, identifier: UInt16, state: UInt8) {
        append(client, message, identifier, state, direction: 0)
    }

    private mutating func append(_ client: String, _ message: UInt64, _ identifier: UInt16, _ state: UInt8, direction: UInt8) {
        let numbers = MosquittoFile.little(message) + MosquittoFile.big(identifier) + MosquittoFile.big(UInt16(client.utf8.count))
        file.append(3, numbers + [2, state, 0, direction] + Array(client.utf8))
    }

    mutating func subscribe(_ client: String, _ filter: String, _ qos: QoS, options: UInt8 = 0, identifier: UInt32 = 0) {
        let lengths = MosquittoFile.big(UInt16(client.utf8.count)) + MosquittoFile.big(UInt16(filter.utf8.count))
        file.append(5, MosquittoFile.big(identifier) + lengths + [qos.rawValue, options, 0, 0] + Array("\(client)\(filter)".utf8))
    }

    mutating func retain(_ number: UInt64) { file.append(4, MosquittoFile.little(number)) }
}
