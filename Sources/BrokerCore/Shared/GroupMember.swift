import BrokerModel

/// A session in a share group, as every shard knows it; or one of another node of which nothing is known but that it is there.
struct GroupMember: Sendable {
    let shard: Int
    let sessionIndex: UInt32
    let sessionKey: UInt64
    /// The group's serial number on the member's own shard.
    let serial: UInt32
    var terms: SubscriptionTerms
    var isConnected: Bool
    /// What its client may read, as its own shard last told; nil for everything.
    var access: AccessPolicy?
    /// Whether its queue takes no more just now: `Session.isFull`.
    var isFull = false
    /// The largest packet that its client takes, as its own shard last told: what is larger goes to another member.
    var packetBytesMax = UInt32.max
    /// Whether its session, of this node, outlives a crash with its messages.
    var isLasting = false
    /// Whether its client may read anything that the group's filter matches; the group finds out.
    var hasRight = true
    /// The node that has it, whose number of the group stands in place of the serial; 0 for this one.
    var node: UInt64 = 0
    /// Of another node: stands for the group's name there, and whether the node reads the cluster's log.
    var groupHash: UInt64 = 0
    var readsLog = false
    /// Whether that node is gone. Its session may come again, on any node: until then the message waits, if there is no other member.
    var isGone = false

    var isElsewhere: Bool { node != 0 }
    /// Whether there are messages that are too large for its client.
    var isBounded: Bool { packetBytesMax < BrokerSettings.packetBytesLargest }

    func takes(_ size: SharedPacketSize) -> Bool { !isBounded || size.byteCount(terms) <= packetBytesMax }

    /// Whether messages of a topic may reach it.
    @inline(__always)
    func mayReceive(_ topic: UnsafeRawBufferPointer?) -> Bool {
        guard let topic else { return true }
        if topic.first == UInt8(ascii: "$"), PresenceMessage.isTopic(topic) {
            return access?.mayReceivePresence(topic: topic) ?? false
        }
        return access?.mayReceive(topic: topic) ?? true
    }
}

/// What has happened to a member of a share group.
enum GroupChange: Sendable {
    case joined(GroupMember)
    case left(sessionKey: UInt64)
    /// Its client has come or gone.
    case presence(sessionKey: UInt64, isConnected: Bool, packetBytesMax: UInt32)
    /// Its queue has become full, or has room again.
    case fullness(sessionKey: UInt64, isFull: Bool)
}
