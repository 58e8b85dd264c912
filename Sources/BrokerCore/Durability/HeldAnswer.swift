import MQTTCodec

/// What is held besides the small packets.
enum HeldAnswer {
    /// SUBACK, and the retained messages that follow it.
    case suback(SubackPacket, [RetainedQuery])
    case unsuback(UnsubackPacket)
    /// A QoS 2 message went to a share group's member on another shard, which has it: now its receipt may be kept, and PUBREC go.
    case receipt(sessionIndex: UInt32, sessionKey: UInt64, packetIdentifier: UInt16, ReasonCode)
    /// A message went to a share group's member on another shard: the row here may go when that shard has it.
    case endEntry(UInt64, hasFlow: Bool)
}
