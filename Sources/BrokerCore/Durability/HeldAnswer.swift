import BrokerModel
import MQTTCodec

/// An answer that is held and is no small packet.
enum HeldAnswer {
    /// SUBACK, and the retained messages that follow it.
    case suback(SubackPacket, [RetainedQuery])
    case unsuback(UnsubackPacket)
    /// PUBACK or PUBREC of a message that was not taken, with the reason in words.
    case refusal(AcknowledgementPacket)
    case endMark(EndMark)
    /// What share groups have chosen for a QoS 2 message is durable: now the members' shards may have it.
    case deal(HeldDeal)
    /// All other shards know that the session with this key is in no share group any more.
    case departure(UInt64)
}

/// A QoS 2 message that share groups have given to members on other shards.
struct HeldDeal {
    let message: Message
    /// Names it.
    let receipt: UInt64
    let choices: [GroupChoice]
    /// What the rest of the message has caused on other shards, which its PUBREC promises too.
    let reliance: Reliance
}
