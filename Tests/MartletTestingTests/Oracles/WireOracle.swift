import Glibc
import MQTTCodec
import MartletTesting

/// Reads what goes over the network, and notes what a client must not do: acknowledge out of order, send more than the server's Receive Maximum,
/// use a packet identifier twice.
final class WireOracle: @unchecked Sendable {
    // Unchecked: a simulation's tasks run on one thread.
    private(set) var problems: [String] = []
    private(set) var packetCount = 0
    private var connections: [Int: Conversation] = [:]

    /// One connection.
    private struct Conversation {
        var sent: [UInt8] = []
        var received: [UInt8] = []
        /// The server's messages that the client has not answered, by QoS.
        var unanswered: [QoS: [UInt16]] = [:]
        /// PUBRECs that came and have no PUBREL yet; PUBRELs that came and have no PUBCOMP yet.
        var unreleased: [UInt16] = []
        var uncompleted: [UInt16] = []
        /// The client's messages whose flow has not ended.
        var outgoing: Set<UInt16> = []
        /// Those whose flow began on an earlier connection and ends with PUBREL on this one.
        var resumed: Set<UInt16> = []
        var receiveMaximum = 65_535
    }

    private unowned let world: Simulation
    /// `MARTLET_TRACE=1` prints every packet.
    private let isTraced = getenv("MARTLET_TRACE") != nil

    init(_ world: Simulation) {
        self.world = world
        world.tap = { [unowned self] in observe($0) }
    }

    private func observe(_ bytes: ObservedBytes) {
        var conversation = connections[bytes.connection] ?? Conversation()
        if bytes.isFromClient { conversation.sent += bytes.bytes } else { conversation.received += bytes.bytes }
        while let packet = bytes.isFromClient
            ? Self.packet(from: &conversation.sent, true) : Self.packet(from: &conversation.received, false)
        {
            packetCount += 1
            if isTraced { print(world.now, bytes.client, bytes.connection, bytes.isFromClient ? "->" : "<-", Self.line(packet)) }
            let problem = bytes.isFromClient ? Self.sent(packet, &conversation) : Self.received(packet, &conversation)
            if let problem { problems.append("\(bytes.client), connection \(bytes.connection): \(problem)") }
        }
        connections[bytes.connection] = conversation
    }

    private static func packet(from bytes: inout [UInt8], _ isFromClient: Bool) -> ControlPacket? {
        let found: (ControlPacket?, Int)? = bytes.withUnsafeBytes { buffer in
            guard case .packet(let firstByte, let header, let length) = FrameScan.scan(buffer), header + length <= buffer.count
            else {
                return nil
            }
            let body = UnsafeRawBufferPointer(rebasing: buffer[header..<header + length])
            let packet = try? ControlPacket.decode(
                firstByte: firstByte, body: body, version: .v5, from: isFromClient ? .client : .server)
            return (packet, header + length)
        }
        guard let found else { return nil }
        bytes.removeFirst(found.1)
        return found.0
    }

    private static func line(_ packet: ControlPacket) -> String {
        switch packet {
        case .publish(let publish):
            "PUBLISH \(publish.packetIdentifier ?? 0) q\(publish.qos.rawValue)\(publish.duplicate ? " dup" : "") \(publish.topic) "
                + String(decoding: publish.payload, as: UTF8.self)
        case .acknowledgement(let answer): "\(answer.type) \(answer.packetIdentifier) \(answer.reasonCode)"
        case .connack(let connack): "CONNACK \(connack.sessionPresent) \(connack.reasonCode)"
        default: "\(packet.type)"
        }
    }

    /// What the client sends.
    private static func sent(_ packet: ControlPacket, _ conversation: inout Conversation) -> String? {
        switch packet {
        case .publish(let publish):
            guard let identifier = publish.packetIdentifier else { return nil }
            guard !conversation.resumed.contains(identifier), conversation.outgoing.insert(identifier).inserted else {
                return "packet identifier \(identifier) is in use"
            }
            // [MQTT-3.3.4-7 v5]
            return conversation.outgoing.count > conversation.receiveMaximum
                ? "\(conversation.outgoing.count) messages in flight, \(conversation.receiveMaximum) allowed" : nil
        case .acknowledgement(let answer):
            let identifier = answer.packetIdentifier
            switch answer.type {
            // [MQTT-4.6.0-2 v5] [MQTT-4.6.0-3 v5] [MQTT-4.6.0-4 v5]
            case .puback: return answered(identifier, &conversation.unanswered[.atLeastOnce, default: []], "PUBACK")
            case .pubrec: return answered(identifier, &conversation.unanswered[.exactlyOnce, default: []], "PUBREC")
            case .pubrel:
                // One of an earlier connection's messages goes without PUBREC on this one, and counts against nothing: [MQTT-4.9.0-2 v5] counts
                // PUBLISH.
                if !conversation.outgoing.contains(identifier) { conversation.resumed.insert(identifier) }
                return conversation.unreleased.contains(identifier)
                    ? answered(identifier, &conversation.unreleased, "PUBREL") : nil
            case .pubcomp: return answered(identifier, &conversation.uncompleted, "PUBCOMP")
            default: return nil
            }
        default: return nil
        }
    }

    private static func answered(_ identifier: UInt16, _ due: inout [UInt16], _ name: String) -> String? {
        guard let place = due.firstIndex(of: identifier) else { return "\(name) \(identifier) answers nothing" }
        due.remove(at: place)
        return place == 0 ? nil : "\(name) \(identifier) comes before \(due[0])'s"
    }

    /// What comes to the client.
    private static func received(_ packet: ControlPacket, _ conversation: inout Conversation) -> String? {
        switch packet {
        case .connack(let connack):
            conversation.receiveMaximum = Int(connack.properties.receiveMaximum ?? 65_535)
        case .publish(let publish):
            if let identifier = publish.packetIdentifier { conversation.unanswered[publish.qos, default: []].append(identifier) }
        case .acknowledgement(let answer):
            switch answer.type {
            case .puback, .pubcomp:
                conversation.outgoing.remove(answer.packetIdentifier)
                conversation.resumed.remove(answer.packetIdentifier)
            case .pubrec:
                if answer.reasonCode.isError {
                    conversation.outgoing.remove(answer.packetIdentifier)
                } else {
                    conversation.unreleased.append(answer.packetIdentifier)
                }
            case .pubrel: conversation.uncompleted.append(answer.packetIdentifier)
            default: break
            }
        default: break
        }
        return nil
    }
}
