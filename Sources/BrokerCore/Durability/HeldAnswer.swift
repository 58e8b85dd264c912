import MQTTCodec

/// What is held besides the small packets.
enum HeldAnswer {
    /// SUBACK, and the retained messages that follow it.
    case suback(SubackPacket, [RetainedQuery])
    case unsuback(UnsubackPacket)
    /// What share groups have chosen for a QoS 2 message is durable: now the members' shards may have it.
    case deal(Message, receipt: UInt64, [GroupChoice])
    /// A message went to a share group's member on another shard: the row here may go when that shard has it.
    case endEntry(UInt64, hasFlow: Bool)
}
