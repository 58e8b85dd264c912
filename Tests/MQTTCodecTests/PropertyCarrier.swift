import MQTTCodec

/// A packet, or the will in one, that can carry properties, and who sends it.
enum PropertyCarrier: CaseIterable {
    case connect, will, connack, publishFromClient, publishFromServer, puback, pubrec, pubrel, pubcomp, subscribe, suback
    case unsubscribe, unsuback, disconnectFromClient, disconnectFromServer, auth

    var peer: Peer {
        switch self {
        case .connect, .will, .publishFromClient, .puback, .pubrel, .subscribe, .unsubscribe, .disconnectFromClient: .client
        case .connack, .publishFromServer, .pubrec, .pubcomp, .suback, .unsuback, .disconnectFromServer, .auth: .server
        }
    }

    /// A packet whose property bytes are `block`, which has fewer than 128 bytes.
    func frame(_ block: [UInt8]) -> Frame {
        let block = [UInt8(block.count)] + block
        let connect = Frame("00 04 'MQTT 05 02 00 00").bytes
        return switch self {
        case .connect: Frame(first: 0x10, body: connect + block + [0, 1, 0x61])
        case .will: Frame(first: 0x10, body: Frame("00 04 'MQTT 05 06 00 00 00 00 01 'a").bytes + block + [0, 1, 0x74, 0, 0])
        case .connack: Frame(first: 0x20, body: [0, 0] + block)
        case .publishFromClient, .publishFromServer: Frame(first: 0x30, body: [0, 1, 0x61] + block + [0x78])
        case .puback: Frame(first: 0x40, body: [0, 1, 0] + block)
        case .pubrec: Frame(first: 0x50, body: [0, 1, 0] + block)
        case .pubrel: Frame(first: 0x62, body: [0, 1, 0] + block)
        case .pubcomp: Frame(first: 0x70, body: [0, 1, 0] + block)
        case .subscribe: Frame(first: 0x82, body: [0, 1] + block + [0, 1, 0x61, 0])
        case .suback: Frame(first: 0x90, body: [0, 1] + block + [0])
        case .unsubscribe: Frame(first: 0xA2, body: [0, 1] + block + [0, 1, 0x61])
        case .unsuback: Frame(first: 0xB0, body: [0, 1] + block + [0])
        case .disconnectFromClient, .disconnectFromServer: Frame(first: 0xE0, body: [0] + block)
        case .auth: Frame(first: 0xF0, body: [0] + block)
        }
    }

    /// The properties that the frame carried.
    func properties(of packet: ControlPacket) -> Properties? {
        switch packet {
        case .connect(let packet): self == .will ? packet.will?.properties : packet.properties
        case .connack(let packet): packet.properties
        case .publish(let packet): packet.properties
        case .acknowledgement(let packet): packet.properties
        case .subscribe(let packet): packet.properties
        case .suback(let packet): packet.properties
        case .unsubscribe(let packet): packet.properties
        case .unsuback(let packet): packet.properties
        case .disconnect(let packet): packet.properties
        case .auth(let packet): packet.properties
        case .pingreq, .pingresp: nil
        }
    }
}
