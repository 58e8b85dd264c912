import MQTTCodec
import Testing

/// One packet and its bytes, to be checked both ways.
struct GoldenCase: CustomTestStringConvertible, Sendable {
    let version: ProtocolVersion
    let peer: Peer
    let frame: Frame
    let packet: ControlPacket

    init(_ version: ProtocolVersion, _ peer: Peer, _ frame: Frame, _ packet: ControlPacket) {
        self.version = version
        self.peer = peer
        self.frame = frame
        self.packet = packet
    }

    var testDescription: String { "\(version) \(packet.type): \(frame)" }

    /// Expects that the bytes are the packet and the packet is the bytes.
    func check(sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(frame.decoded(version, from: peer) == .success(packet), sourceLocation: sourceLocation)
        #expect(Frame(packet.encoded(version: version)) == frame, sourceLocation: sourceLocation)
    }

    /// Every golden case there is.
    static var all: [GoldenCase] {
        ConnectTests.golden + ConnackTests.golden + PublishTests.golden + AcknowledgementTests.golden + SubscribeTests.golden
            + UnsubscribeTests.golden + PingTests.golden + DisconnectTests.golden + AuthTests.golden
    }
}
