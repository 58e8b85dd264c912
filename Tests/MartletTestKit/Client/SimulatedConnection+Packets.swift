public import BrokerSimulation
public import MQTTCodec
import Testing

/// A connection as a client that speaks in packets sees it.
extension SimulatedConnection {
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
}

/// Clients of a simulated broker.
extension SimulatedBroker {
    /// Makes a client that is not connected yet.
    public func client(_ identifier: EncodedString, version: ProtocolVersion = .v5) -> TestClient {
        TestClient(broker: self, identifier: identifier, version: version)
    }

    /// Makes a client and connects it, with a clean session unless it is to have one that was there.
    @discardableResult
    public func connected(
        _ identifier: EncodedString, version: ProtocolVersion = .v5, clean: Bool = true, expiry: UInt32? = nil
    ) -> TestClient {
        let client = client(identifier, version: version)
        client.connect(clean: clean, expiry: expiry)
        return client
    }
}
