import BrokerModel
import MQTTCodec

/// Whose a share group's messages are, as the log's steps say: each is the session's that was dealt it last, or sent it with QoS 2. What a session has not
/// taken leaves it for another one of the node, or, under another name, for another node. [MQTT-4.8.2-4 v5]
///
/// Steps come in any order.
struct DealtHolders {
    private struct Holder {
        /// Of its step; `UInt64.max` for nobody.
        let number: UInt64
        /// The hash of its Client Identifier.
        let session: UInt64
    }

    private var holders: [MessageName: Holder] = [:]

    /// Whether it is anybody's, or was passed on.
    func contains(_ name: MessageName) -> Bool { holders[name] != nil }

    func isPassedOn(_ name: MessageName) -> Bool { holders[name]?.number == .max }

    /// Says of a message whether it is another session's, or nobody's.
    func isOthers(than session: EncodedString) -> (MessageName) -> Bool {
        let session = session.bytes.withUnsafeBytes(BrokerShard.clusterHashing.hash)
        return { holders[$0].map { $0.session != session } ?? false }
    }

    /// - Parameter session: its Client Identifier.
    mutating func note(_ step: FlowStep, of session: UnsafeRawBufferPointer) {
        guard let name = step.name, name.isDealt, step.place.number >= holders[name]?.number ?? 0 else { return }
        holders[name] = Holder(number: step.place.number, session: BrokerShard.clusterHashing.hash(session))
    }

    /// It was passed on to another node.
    mutating func recordPassedOn(_ name: MessageName) { holders[name] = Holder(number: .max, session: 0) }
}
