import MQTTCodec
import Transports

/// One question to a broker: it connects, logs in and sends PINGREQ. Blocks until the answers are there or the deadline has passed.
struct HealthProbe {
    enum Finding {
        case isWell
        /// It answers, and does not let this login in: the return code of its CONNACK.
        case refuses(ConnectReturnCode)
    }

    typealias Failure = BlockingChannel.Failure

    private var channel: BlockingChannel
    private let deadline: UInt64
    private var received: [UInt8] = []

    /// Begins to connect.
    ///
    /// - Parameters:
    ///   - address: where the broker listens.
    ///   - layers: what the listener has on top of its socket.
    ///   - deadline: in milliseconds of the monotonic clock.
    init(_ address: SocketAddress, _ layers: ClientLayers, deadline: UInt64) throws(Failure) {
        channel = try BlockingChannel(to: address, layers)
        self.deadline = deadline
    }

    /// Asks, and lets the connection go.
    mutating func ask(_ connect: ConnectPacket) throws(Failure) -> Finding {
        defer { channel.close() }
        guard case .connack(let answer) = try answer(to: ControlPacket.connect(connect).encoded(version: .v311)) else {
            throw Self.stranger
        }
        guard answer.isAccepted else { return .refuses(answer.returnCode) }
        guard case .pingresp = try self.answer(to: ControlPacket.pingreq.encoded(version: .v311)) else {
            throw Failure("it accepts connections and does not answer")
        }
        send(DisconnectPacket())
        return .isWell
    }

    /// Asks without a login, whose answer a broker may hold back: whether it says that it does not speak a version that nobody does.
    mutating func askWithoutLogin() throws(Failure) {
        defer { channel.close() }
        // CONNECT of MQTT's level 127. [MQTT-3.1.2-2 v3.1.1]
        let connect: [UInt8] = [0x10, 12, 0, 4, 0x4D, 0x51, 0x54, 0x54, 127, 2, 0, 0, 0, 0]
        guard case .connack = try answer(to: connect) else { throw Self.stranger }
    }

    private mutating func answer(to packet: [UInt8]) throws(Failure) -> ControlPacket {
        var output = packet[...]
        while true {
            if output.isEmpty, let packet = try nextPacket() { return packet }
            guard let chunk = try channel.exchange(&output, deadline: deadline) else {
                throw received.isEmpty ? Failure("it closes the connection without an answer") : Self.stranger
            }
            received += chunk
        }
    }

    /// The packet at the front of what was received, once it is whole.
    private mutating func nextPacket() throws(Failure) -> ControlPacket? {
        let found: (packet: ControlPacket, count: Int)?
        do {
            found = try received.withUnsafeBytes { bytes in
                switch FrameScan.scan(bytes) {
                case .incomplete: return nil
                case .malformed(let error): throw error
                case .packet(let firstByte, let headerLength, let bodyLength):
                    guard bytes.count >= headerLength + bodyLength else { return nil }
                    let body = UnsafeRawBufferPointer(rebasing: bytes[headerLength..<(headerLength + bodyLength)])
                    let packet = try ControlPacket.decode(firstByte: firstByte, body: body, version: .v311, from: .server)
                    return (packet, headerLength + bodyLength)
                }
            }
        } catch {
            throw Self.stranger
        }
        guard let found else { return nil }
        received.removeFirst(found.count)
        return found.packet
    }

    /// Whether the goodbye arrives changes nothing.
    private func send(_ goodbye: DisconnectPacket) {
        var output = ControlPacket.disconnect(goodbye).encoded(version: .v311)[...]
        try? channel.write(&output)
        channel.shutdownSending()
    }

    private static let stranger = Failure("what listens there does not answer as an MQTT broker")
}
