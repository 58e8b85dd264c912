import MQTTCodec
import MartletTestKit
import Testing

/// Every property on every packet, both where it may stand and where it may not.
@Suite struct PropertyTests {
    @Test func `there are 27 properties`() {
        #expect(
            Set(PropertyCase.all.map { $0.bytes.bytes[$0.bytes.bytes[0] == 0x15 && $0.bytes.bytes.count > 4 ? 3 : 0] }).count == 27)
    }

    @Test(arguments: PropertyCase.all) func `a property stands where it may, both ways`(_ property: PropertyCase) throws {
        for carrier in PropertyCarrier.allCases where property.carriers.contains(carrier) {
            let frame = carrier.frame(property.bytes.bytes)
            let packet = try frame.decoded(.v5, from: carrier.peer).get()
            #expect(carrier.properties(of: packet) == property.value)
            #expect(Frame(packet.encoded(version: .v5)) == frame)
        }
    }

    @Test(arguments: PropertyCase.all) func `a property is refused everywhere else`(_ property: PropertyCase) {
        for carrier in PropertyCarrier.allCases where !property.carriers.contains(carrier) {
            let expected: WireError =
                switch (property.bytes.bytes[0], carrier) {
                case (0x0B, .publishFromClient): .subscriptionIdentifierFromClient
                case (0x11, .disconnectFromServer): .sessionExpiryIntervalFromServer
                default: .propertyNotAllowed
                }
            #expect(carrier.frame(property.bytes.bytes).decoded(.v5, from: carrier.peer) == .failure(expected))
        }
    }

    @Test(arguments: PropertyCase.all) func `a property stands once unless it may repeat`(_ property: PropertyCase) {
        for carrier in PropertyCarrier.allCases where property.carriers.contains(carrier) {
            let result = carrier.frame(property.bytes.bytes + property.bytes.bytes).decoded(.v5, from: carrier.peer)
            if property.mayRepeat.contains(carrier) {
                #expect((try? result.get()) != nil)
            } else {
                #expect(result == .failure(.duplicateProperty))
            }
        }
    }

    @Test func `an identifier that does not exist is refused on every packet`() {
        let known = Set(PropertyCase.all.map { $0.bytes.bytes[0] }).union([0x16])
        for identifier in UInt8(0)...255 where !known.contains(identifier) {
            for carrier in PropertyCarrier.allCases {
                #expect(carrier.frame([identifier, 0]).decoded(.v5, from: carrier.peer) == .failure(.unknownProperty))
            }
        }
    }

    @Test(arguments: PropertyCarrier.allCases) func `a packet holds all that it may hold at once`(_ carrier: PropertyCarrier) throws
    {
        // 0x15 stands in two cases: take the one that has data with it.
        let block = PropertyCase.all.filter { $0.carriers.contains(carrier) && $0.bytes != "15 00 01 'm" }.flatMap(\.bytes.bytes)
        let packet = try carrier.frame(block).decoded(.v5, from: carrier.peer).get()
        #expect(Frame(packet.encoded(version: .v5)).decoded(.v5, from: carrier.peer) == .success(packet))
        #expect(packet.encoded(version: .v5).count == carrier.frame(block).bytes.count)
    }

    @Test(.statement("MQTT-3.3.2-18", .v5)) func `user properties keep their order and their repetitions`() throws {
        let block: Frame = "26 00 01 'b 00 01 '1 26 00 01 'a 00 01 '2 26 00 01 'b 00 01 '1"
        for carrier in PropertyCarrier.allCases {
            let packet = try carrier.frame(block.bytes).decoded(.v5, from: carrier.peer).get()
            #expect(carrier.properties(of: packet)?.userProperties.map(\.name) == ["b", "a", "b"])
            #expect(Frame(packet.encoded(version: .v5)) == carrier.frame(block.bytes))
        }
    }

    @Test(.statement("MQTT-2.2.2-1", .v5)) func `without properties there is a length of zero`() throws {
        #expect(ControlPacket.connack(ConnackPacket()).encoded(version: .v5).last == 0)
        #expect(Properties().isEmpty)
        #expect(!properties { $0.retainAvailable = false }.isEmpty)
    }
}
