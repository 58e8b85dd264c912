public import MQTTCodec
import Testing

/// One client's network connection to a `SimulatedBroker`, as the client sees it.
///
/// What is sent waits in the network until the broker's next `settle()`. The broker hands the connection from shard to shard without the
/// client's noticing.
public final class SimulatedConnection {
    /// The version that `takePackets` decodes with: that of the last CONNECT sent, 5.0 before.
    public var version = ProtocolVersion.v5
    /// What the broker has sent and nobody has taken yet.
    public private(set) var receivedBytes: [UInt8] = []
    /// How many bytes the broker has sent in all.
    public private(set) var receivedByteCount = 0
    /// Whether the broker has closed the connection.
    public internal(set) var isClosed = false
    /// How what is sent reaches the broker.
    public var delivery = ByteDelivery.joined
    /// How many bytes one flush takes; nil for all. A flush that took less is followed by another when the broker settles.
    public var flushBytesMax: Int?
    /// Whether the client reads. While it does not, the broker's flushes take nothing.
    public var isReading = true {
        didSet { if isReading, isBlocked { broker.becameWritable(self) } }
    }
    /// Called after each turn of the broker that brought bytes.
    public var onReceive: ((SimulatedConnection) -> Void)?

    let broker: SimulatedBroker
    /// Whether the client has gone away.
    private(set) var isLost = false
    var place: SimulatedPlace
    private var unsent: [[UInt8]] = []
    private var isBlocked = false

    init(broker: SimulatedBroker, place: SimulatedPlace) {
        self.broker = broker
        self.place = place
    }

    /// Sends bytes, right or wrong.
    public func send(_ bytes: [UInt8]) {
        guard !bytes.isEmpty, !isLost else { return }
        unsent.append(bytes)
        broker.hasInput(self)
    }

    /// Sends a packet in the connection's version; a CONNECT sets that.
    public func send(_ packet: ControlPacket) {
        if case .connect(let connect) = packet { version = connect.version }
        send(packet.encoded(version: version))
    }

    /// Sends a packet, lets the broker settle, and takes what came back.
    @discardableResult
    public func exchange(_ packet: ControlPacket) -> [ControlPacket] {
        send(packet)
        broker.settle()
        return takePackets()
    }

    /// Sends bytes, lets the broker settle, and takes the bytes that came back.
    @discardableResult
    public func exchange(_ bytes: [UInt8]) -> [UInt8] {
        send(bytes)
        broker.settle()
        return takeBytes()
    }

    /// The network fails: the broker gets what was sent before, then sees the connection end.
    ///
    /// - Parameter dropsUnsent: whether what the broker has not read yet is lost.
    public func close(dropsUnsent: Bool = false) {
        guard !isLost else { return }
        isLost = true
        if dropsUnsent { unsent = [] }
        broker.hasInput(self)
    }

    /// Takes the bytes received.
    public func takeBytes() -> [UInt8] {
        defer { receivedBytes = [] }
        return receivedBytes
    }

    /// Takes the packets received, as far as they are complete. What is not a packet of this version fails the test.
    public func takePackets() -> [ControlPacket] {
        var packets: [ControlPacket] = []
        var offset = 0
        receivedBytes.withUnsafeBytes { bytes in
            while offset < bytes.count {
                let rest = UnsafeRawBufferPointer(rebasing: bytes[offset...])
                guard case .packet(let firstByte, let header, let length) = FrameScan.scan(rest), header + length <= rest.count
                else {
                    break
                }
                let body = UnsafeRawBufferPointer(rebasing: rest[header..<header + length])
                do {
                    packets.append(try ControlPacket.decode(firstByte: firstByte, body: body, version: version, from: .server))
                } catch {
                    Issue.record("the broker sent what is no packet (\(error)): \(Array(rest.prefix(header + length)))")
                }
                offset += header + length
            }
        }
        receivedBytes.removeFirst(offset)
        return packets
    }

    // What the broker's turns do.

    var hasInput: Bool { !unsent.isEmpty }

    /// The next piece that the network brings.
    func takePiece() -> [UInt8] {
        switch delivery {
        case .joined:
            var piece = unsent[0]
            for more in unsent.dropFirst() { piece += more }
            unsent = []
            return piece
        case .separate:
            return unsent.removeFirst()
        case .byteByByte:
            let byte = unsent[0].removeFirst()
            if unsent[0].isEmpty { unsent.removeFirst() }
            return [byte]
        }
    }

    /// How many bytes one flush takes now. The network swallows what a client that has gone does not read.
    var roomInFlush: Int {
        if isLost { return .max }
        return isReading ? flushBytesMax ?? .max : 0
    }

    func take(_ bytes: UnsafeRawBufferPointer) {
        guard !isLost else { return }
        receivedBytes.append(contentsOf: bytes)
        receivedByteCount += bytes.count
    }

    func becameBlocked() {
        isBlocked = true
        if isReading { broker.becameWritable(self) }
    }

    func becameUnblocked() { isBlocked = false }
}
