import BrokerModel
import MQTTCodec

/// A message that a share group had given to a session, taken back from it.
struct SharedEntry {
    let message: Message
    /// The group's serial number.
    let group: UInt32
    let qos: QoS
    /// The key of its row in the store, 0 for none: to be ended when another member has the message.
    let storeNumber: UInt64
    let hasFlow: Bool
    let mark: DealtMark?
    /// What a cluster's log calls the message.
    let name: MessageName

    /// Whether it must not be on two shards at a time.
    var staysOnShard: Bool { storeNumber != 0 && qos == .exactlyOnce }
}
