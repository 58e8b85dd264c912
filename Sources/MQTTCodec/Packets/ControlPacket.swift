/// Any control packet with its own copy of everything.
public enum ControlPacket: Hashable, Sendable {
    case connect(ConnectPacket)
    case connack(ConnackPacket)
    case publish(PublishPacket)
    /// PUBACK, PUBREC, PUBREL or PUBCOMP, by the packet's type.
    case acknowledgement(AcknowledgementPacket)
    case subscribe(SubscribePacket)
    case suback(SubackPacket)
    case unsubscribe(UnsubscribePacket)
    case unsuback(UnsubackPacket)
    case pingreq
    case pingresp
    case disconnect(DisconnectPacket)
    case auth(AuthPacket)

    /// The packet's type.
    public var type: PacketType {
        switch self {
        case .connect: .connect
        case .connack: .connack
        case .publish: .publish
        case .acknowledgement(let packet): packet.type
        case .subscribe: .subscribe
        case .suback: .suback
        case .unsubscribe: .unsubscribe
        case .unsuback: .unsuback
        case .pingreq: .pingreq
        case .pingresp: .pingresp
        case .disconnect: .disconnect
        case .auth: .auth
        }
    }
}
