import MQTTCodec

@testable import BrokerCore

/// Messages and publications for tests of the structures that hold them.
enum StructureMessage {
    static func make(
        _ topic: [UInt8], payload: [UInt8] = [1], qos: QoS = .atLeastOnce, properties: [UInt8] = [], ledger: MessageLedger
    ) -> Message {
        topic.withUnsafeBytes { topic in
            properties.withUnsafeBytes { properties in
                payload.withUnsafeBytes { payload in
                    Message.make(
                        topic: topic, properties: properties, payload: payload, qos: qos, retain: false,
                        expiresAt: Message.neverExpires, publisher: 0, ledger: ledger)
                }
            }
        }
    }

    static func make(_ topic: String, payload: [UInt8] = [1], qos: QoS = .atLeastOnce, ledger: MessageLedger) -> Message {
        make(Array(topic.utf8), payload: payload, qos: qos, ledger: ledger)
    }
}
