import MQTTCodec

/// A well-formed packet of a client, the quarry of generated inputs.
struct PacketShape: Sendable {
    let version: ProtocolVersion
    let type: PacketType
    let frame: [UInt8]
    /// The lengths to which the body may be cut and be a legal packet still.
    let legalCuts: Set<Int>
    /// The lengths to which the body may be cut to be well-formed, and a protocol error.
    let errorCuts: Set<Int>

    private init(
        _ version: ProtocolVersion, _ type: PacketType, _ text: String, legalCuts: Set<Int> = [], errorCuts: Set<Int> = []
    ) {
        self.version = version
        self.type = type
        frame = Frame(text, version).bytes
        self.legalCuts = legalCuts
        self.errorCuts = errorCuts
    }

    /// What stands behind the fixed header, which is shorter than 128 bytes.
    var body: [UInt8] { Array(frame[2...]) }

    var stage: InputCase.Stage { type == .connect ? .fresh : .connected }

    /// How the broker ends a connection that brings a packet of this type that is wrong in this way.
    func refusal(_ code: UInt8) -> InputCase.Answer {
        guard type == .connect else { return .disconnect(code) }
        return version == .v5 ? .connack(code) : .close
    }

    static let all: [PacketShape] = [
        PacketShape(.v311, .connect, "10 { 'MQTT' 04 F6 003C 'id' 'w' 'm' 'u' 'p' }"),
        PacketShape(.v311, .publish, "30 { 't/1' }"),
        PacketShape(.v311, .publish, "32 { 't/1' 0001 }"),
        PacketShape(.v311, .publish, "35 { 't/1' 0001 }"),
        PacketShape(.v311, .puback, "40 { 0001 }"),
        PacketShape(.v311, .pubrec, "50 { 0001 }"),
        PacketShape(.v311, .pubrel, "62 { 0001 }"),
        PacketShape(.v311, .pubcomp, "70 { 0001 }"),
        PacketShape(.v311, .subscribe, "82 { 0001 't/1' 01 'u/+' 02 }", legalCuts: [8], errorCuts: [2]),
        PacketShape(.v311, .unsubscribe, "A2 { 0001 't/1' 'u/+' }", legalCuts: [7], errorCuts: [2]),
        PacketShape(.v311, .pingreq, "C0 {}"),
        PacketShape(.v311, .disconnect, "E0 {}"),
        PacketShape(.v5, .connect, "10 { 'MQTT' 05 F6 003C { 1100000001 26 'k' 'v' } 'id' { 1800000001 } 'w' 'm' 'u' 'p' }"),
        PacketShape(.v5, .publish, "30 { 't/1' { 0101 26 'k' 'v' } }"),
        PacketShape(.v5, .publish, "32 { 't/1' 0001 { 03 'c' 0200000001 } }"),
        PacketShape(.v5, .publish, "35 { 't/1' 0001 { 08 'r' 09 'd' 230001 } }"),
        PacketShape(.v5, .puback, "40 { 0001 00 { 1F 'r' 26 'k' 'v' } }", legalCuts: [2, 3]),
        PacketShape(.v5, .pubrec, "50 { 0001 00 { 1F 'r' 26 'k' 'v' } }", legalCuts: [2, 3]),
        PacketShape(.v5, .pubrel, "62 { 0001 00 { 1F 'r' 26 'k' 'v' } }", legalCuts: [2, 3]),
        PacketShape(.v5, .pubcomp, "70 { 0001 00 { 1F 'r' 26 'k' 'v' } }", legalCuts: [2, 3]),
        PacketShape(.v5, .subscribe, "82 { 0001 { 0B01 26 'k' 'v' } 't/1' 01 'u/+' 02 }", legalCuts: [18], errorCuts: [12]),
        PacketShape(.v5, .unsubscribe, "A2 { 0001 { 26 'k' 'v' } 't/1' 'u/+' }", legalCuts: [15], errorCuts: [10]),
        PacketShape(.v5, .pingreq, "C0 {}"),
        PacketShape(.v5, .disconnect, "E0 { 04 { 1F 'r' 26 'k' 'v' } }", legalCuts: [0, 1]),
        PacketShape(.v5, .auth, "F0 { 19 { 15 'm' 16 'd' } }", errorCuts: [0]),
    ]
}
