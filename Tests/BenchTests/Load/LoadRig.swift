import Bytes
import MQTTCodec

@testable import Bench

/// Connections of a load without a network: output is taken whole, and stamps are noted.
final class LoadRig: DeliveryObserver {
    let tally = LoadTally()
    private(set) var runs: [(count: Int, stamp: UInt64)] = []

    func delivered(_ count: Int, stampedAt nanoseconds: UInt64) { runs.append((count, nanoseconds)) }

    func connection(
        _ version: ProtocolVersion, subscribesTo filter: TopicFilter? = nil, inFlightMax: Int = 10, publishers: Int = 4
    ) -> LoadConnection {
        LoadConnection(
            connect: ConnectPacket(version: version, clientIdentifier: "load"),
            subscription: filter.map { Subscription(filter: $0, options: SubscriptionOptions(maximumQoS: .exactlyOnce)) },
            inFlightMax: inFlightMax, publisherCount: publishers, tally: tally)
    }

    /// A connection that is ready.
    func ready(
        _ version: ProtocolVersion, subscribesTo filter: TopicFilter? = nil, inFlightMax: Int = 10,
        connack: ConnackPacket = ConnackPacket()
    ) -> LoadConnection {
        let connection = connection(version, subscribesTo: filter, inFlightMax: inFlightMax)
        connection.begin()
        send(.connack(connack), version, to: connection)
        if filter != nil { send(.suback(SubackPacket(packetIdentifier: 1, reasonCodes: [.grantedQoS2])), version, to: connection) }
        _ = output(of: connection)
        return connection
    }

    func send(_ packet: ControlPacket, _ version: ProtocolVersion, to connection: LoadConnection) {
        send(packet.encoded(version: version), to: connection)
    }

    /// As a shell does it: carried bytes first, what was read behind them.
    func send(_ bytes: [UInt8], to connection: LoadConnection) {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: connection.carriedByteCount + bytes.count, alignment: 1)
        defer { memory.deallocate() }
        let carried = connection.copyCarriedBytes(to: memory)
        UnsafeMutableRawBufferPointer(rebasing: memory[carried...]).copyBytes(from: bytes)
        connection.received(UnsafeRawBufferPointer(memory), observer: self)
    }

    /// Everything that waits, taken in bites of at most that size.
    func output(of connection: LoadConnection, biteMax: Int = .max) -> [UInt8] {
        let slices = UnsafeMutableBufferPointer<ByteSlice>.allocate(capacity: 5)
        defer { slices.deallocate() }
        var bytes: [UInt8] = []
        while connection.outputByteCount > 0 {
            var room = biteMax
            for slice in slices[..<connection.gatherOutput(into: slices)] {
                let count = min(room, slice.count)
                bytes.append(contentsOf: UnsafeRawBufferPointer(start: slice.base, count: count))
                room -= count
            }
            connection.consumeOutput(biteMax - room)
        }
        return bytes
    }

    /// The packets in bytes that a client sent.
    func packets(_ bytes: [UInt8], _ version: ProtocolVersion) -> [ControlPacket] {
        var packets: [ControlPacket] = []
        bytes.withUnsafeBytes { bytes in
            var rest = UnsafeRawBufferPointer(rebasing: bytes[...])
            while case .packet(let firstByte, let header, let length) = FrameScan.scan(rest) {
                let body = UnsafeRawBufferPointer(rebasing: rest[header..<(header + length)])
                if let packet = try? ControlPacket.decode(firstByte: firstByte, body: body, version: version, from: .client) {
                    packets.append(packet)
                }
                rest = UnsafeRawBufferPointer(rebasing: rest[(header + length)...])
            }
        }
        return packets
    }

    /// An acknowledgement, as both sides write it.
    static func acknowledgement(
        _ type: PacketType, _ identifier: UInt16, _ reason: ReasonCode = .success
    ) -> ControlPacket {
        .acknowledgement(AcknowledgementPacket(type: type, packetIdentifier: identifier, reasonCode: reason))
    }
}
