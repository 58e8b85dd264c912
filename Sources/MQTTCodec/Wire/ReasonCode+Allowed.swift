extension ReasonCode {
    /// Whether that side may send this code in that packet (section 2.4 and the tables of each packet).
    public func isAllowed(in type: PacketType, from peer: Peer) -> Bool {
        switch type {
        case .connack:  // [MQTT-3.2.2-8 v5]
            return peer == .server && isAllowedInConnack
        case .puback, .pubrec:  // [MQTT-3.4.2-1 v5] [MQTT-3.5.2-1 v5]
            return isAllowedInPublishResponse
        case .pubrel, .pubcomp:  // [MQTT-3.6.2-1 v5] [MQTT-3.7.2-1 v5]
            return self == .success || self == .packetIdentifierNotFound
        case .suback:  // [MQTT-3.9.3-2 v5]
            return peer == .server && isAllowedInSuback
        case .unsuback:  // [MQTT-3.11.3-2 v5]
            return peer == .server && isAllowedInUnsuback
        case .disconnect:  // [MQTT-3.14.2-1 v5]
            return isAllowedInDisconnect(from: peer)
        case .auth:  // [MQTT-3.15.2-1 v5]
            return isAllowedInAuth(from: peer)
        case .connect, .publish, .subscribe, .unsubscribe, .pingreq, .pingresp:
            return false
        }
    }

    private var isAllowedInConnack: Bool {
        switch rawValue {
        case 0x00, 0x80...0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99...0x9D, 0x9F: true
        default: false
        }
    }

    /// 0x10 is the server's to say, yet a client may stand for a server: mosquitto's bridges hand on what nobody subscribes to at their end.
    private var isAllowedInPublishResponse: Bool {
        switch rawValue {
        case 0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99: true
        default: false
        }
    }

    private var isAllowedInSuback: Bool {
        switch rawValue {
        case 0x00...0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2: true
        default: false
        }
    }

    private var isAllowedInUnsuback: Bool {
        switch rawValue {
        case 0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91: true
        default: false
        }
    }

    private func isAllowedInDisconnect(from peer: Peer) -> Bool {
        switch rawValue {
        // ![MQTT-3.14.2-1 v5] The table gives 0x00 to the client alone, yet a DISCONNECT without a code means 0x00 and servers send it.
        case 0x00, 0x80...0x83, 0x90, 0x93...0x99: true
        case 0x04: peer == .client
        case 0x87, 0x89, 0x8B, 0x8D...0x8F, 0x9A...0xA2: peer == .server
        default: false
        }
    }

    private func isAllowedInAuth(from peer: Peer) -> Bool {
        switch rawValue {
        case 0x00: peer == .server
        case 0x18: true
        case 0x19: peer == .client
        default: false
        }
    }
}
