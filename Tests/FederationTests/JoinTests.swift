import MQTTCodec
import SeededRandom
import Testing

@testable import Federation

/// A bridge by itself, while both sides let it in.
@Suite struct JoinTests {
    private var bridge: Bridge = {
        let settings = BridgeSettings.test(.v5, [BridgedTopic("a", .out, qos: 1)]) { $0.notifies = false }
        return Bridge(settings, random: SeededGenerator(seed: 1))
    }()

    private func here(_ packets: ControlPacket...) {
        let bytes = packets.flatMap { $0.encoded(version: .v5) }
        bytes.withUnsafeBytes { bridge.receivedLocally($0, now: 0) }
    }

    private func message(_ identifier: UInt16) -> ControlPacket {
        .publish(PublishPacket(topic: "a", packetIdentifier: identifier, qos: .atLeastOnce, payload: [UInt8(identifier)]))
    }

    /// [MQTT-4.6.0-6 v5]
    @Test func `what came before SUBACK goes out before what comes with it`() throws {
        let granted = ControlPacket.suback(SubackPacket(packetIdentifier: .max, reasonCodes: [.grantedQoS1]))
        bridge.start(now: 0)
        bridge.attached(unreleased: [], filters: [], now: 0)
        here(.connack(ConnackPacket()), granted)
        bridge.advance(now: 0)
        bridge.connected(now: 0)
        ControlPacket.connack(ConnackPacket()).encoded(version: .v5).withUnsafeBytes { bridge.received($0, now: 0) }
        bridge.attached(unreleased: [], filters: [], now: 0)
        bridge.farOutput = []
        here(.connack(ConnackPacket(sessionPresent: true)))
        here(message(1))
        here(granted, message(2), message(3))
        bridge.resume(now: 0)
        let bytes = bridge.farOutput
        #expect(bytes == [message(1), message(2), message(3)].flatMap { $0.encoded(version: .v5) })
    }
}
