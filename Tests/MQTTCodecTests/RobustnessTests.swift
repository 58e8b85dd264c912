import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// Nothing that a peer can send may trap: every packet cut short at every place, and with every byte changed to every
/// value.
@Suite struct RobustnessTests {
    @Test(arguments: GoldenCase.all) func `a packet cut short is refused or a legal shorter form`(_ golden: GoldenCase) throws {
        let body = try #require(golden.body)
        for count in 0..<body.count {
            check(golden.frame.bytes[0], Array(body.prefix(count)), golden)
        }
    }

    @Test(arguments: GoldenCase.all) func `a packet with one byte changed never traps`(_ golden: GoldenCase) throws {
        let body = try #require(golden.body)
        for firstByte in UInt8(0)...255 { check(firstByte, body, golden) }
        for index in body.indices {
            for value in UInt8(0)...255 {
                var changed = body
                changed[index] = value
                check(golden.frame.bytes[0], changed, golden)
            }
        }
    }

    @Test func `garbage of any kind never traps`() {
        var generator = SeededGenerator(seed: 5)
        for _ in 0..<20_000 {
            let body = (0..<Int.random(in: 0..<40, using: &generator)).map { _ in
                // Small values make lengths that fit and identifiers that exist.
                UInt8.random(in: 0...(Bool.random(using: &generator) ? 0x2A : 0xFF), using: &generator)
            }
            let golden = GoldenCase([.v31, .v311, .v5][Int.random(in: 0..<3, using: &generator)], .client, "C0 00", .pingreq)
            check(UInt8.random(in: 0...255, using: &generator), body, golden)
        }
    }

    /// Decodes; what is taken must come back unchanged when it is encoded and decoded again, and the views must agree.
    private func check(_ firstByte: UInt8, _ body: [UInt8], _ golden: GoldenCase) {
        for peer in [Peer.client, .server] {
            let result = body.withUnsafeBytes { decode(firstByte, $0, golden.version, peer) }
            expectViewsAgree(result, firstByte, body, golden.version, peer)
            guard case .success(let packet) = result else { continue }
            let again = Frame(packet.encoded(version: golden.version)).decoded(golden.version, from: peer)
            if again != result { Issue.record("\(Frame(first: firstByte, body: body)) is \(packet), encoded and decoded \(again)") }
        }
    }

    private func expectViewsAgree(
        _ result: Result<ControlPacket, WireError>, _ firstByte: UInt8, _ body: [UInt8], _ version: ProtocolVersion, _ peer: Peer
    ) {
        guard let type = PacketType(rawValue: firstByte >> 4) else { return }
        switch type {
        case .publish:
            let view = body.withUnsafeBytes { body in
                Result { () throws(WireError) in
                    let view = try PublishView.decode(firstByte: firstByte, body: body, version: version, from: peer)
                    return view.packet(version: version, from: peer)
                }
            }
            if view != result { Issue.record("\(Frame(first: firstByte, body: body)) is seen as \(view), decoded as \(result)") }
        case .puback, .pubrec, .pubrel, .pubcomp:
            let view = body.withUnsafeBytes { body in
                Result { () throws(WireError) in
                    try AcknowledgementView.decode(type: type, firstByte: firstByte, body: body, version: version, from: peer)
                }
            }
            let decoded = result.map { packet in
                guard case .acknowledgement(let packet) = packet else { return AcknowledgementView?.none }
                return AcknowledgementView(packetIdentifier: packet.packetIdentifier, reasonCode: packet.reasonCode)
            }
            if view.map(Optional.some) != decoded {
                Issue.record("\(Frame(first: firstByte, body: body)) is seen as \(view), decoded as \(result)")
            }
        default: break
        }
    }
}

extension GoldenCase {
    /// The bytes behind the fixed header.
    var body: [UInt8]? {
        frame.bytes.withUnsafeBytes { bytes in
            guard case .packet(_, let headerLength, _) = FrameScan.scan(bytes) else { return nil }
            return Array(bytes[headerLength...])
        }
    }
}
