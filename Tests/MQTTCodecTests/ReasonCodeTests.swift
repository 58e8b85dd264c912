import MQTTCodec
import MartletTestKit
import Testing

@Suite struct ReasonCodeTests {
    /// The codes of each packet as the standard's tables list them: those of either side, then the client's, then the
    /// server's.
    static let tables: [(type: PacketType, both: [UInt8], client: [UInt8], server: [UInt8])] = [
        (
            .connack, [], [],
            [
                0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B,
                0x9C,
            ]
                + [0x9D, 0x9F]
        ),
        (.puback, [0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99], [], []),
        (.pubrec, [0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99], [], []),
        (.pubrel, [0x00, 0x92], [], []),
        (.pubcomp, [0x00, 0x92], [], []),
        (.suback, [], [], [0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2]),
        (.unsuback, [], [], [0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91]),
        (
            .disconnect, [0x00, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99], [0x04],
            [0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2]
        ),
        (.auth, [0x18], [0x19], [0x00]),
    ]

    @Test func `a code stands in the packets that the standard lists it for, and from that side`() {
        for type in PacketType.allCases {
            let table = Self.tables.first { $0.type == type }
            for value in UInt8(0)...255 {
                let code = ReasonCode(rawValue: value)
                let isBoth = table?.both.contains(value) ?? false
                #expect(code.isAllowed(in: type, from: .client) == (isBoth || table?.client.contains(value) ?? false))
                #expect(code.isAllowed(in: type, from: .server) == (isBoth || table?.server.contains(value) ?? false))
            }
        }
    }

    @Test func `a code from 0x80 on is an error and has words`() {
        for value in UInt8(0)...255 {
            let code = ReasonCode(rawValue: value)
            #expect(code.isError == (value >= 0x80))
            #expect(!code.description.isEmpty)
        }
        #expect(ReasonCode.malformedPacket.description == "malformed packet")
        #expect(ReasonCode.topicFilterInvalid.description == "topic filter invalid")
        #expect(ReasonCode.wildcardSubscriptionsNotSupported.description == "wildcard subscriptions not supported")
        #expect(ReasonCode(rawValue: 0xA3).description == "unknown reason code 163")
    }
}
