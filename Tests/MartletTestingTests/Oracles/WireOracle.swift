import Glibc
import MQTTCodec
import MartletTesting

/// Reads what goes over the network, and notes what a client must not do: acknowledge out of order, or before it may,
/// send more than the server's Receive Maximum or its own bound, use a packet identifier twice; and whether the server
/// sends more than the client's Receive Maximum.
final class WireOracle: @unchecked Sendable {
    // Unchecked: a simulation's tasks run on one thread.
    private(set) var problems: [String] = []
    private(set) var packetCount = 0
    /// Of all bytes, their times and connections: the same for the same run.
    private(set) var fingerprint: UInt64 = 14_695_981_039_346_656_037
    /// Whether a client may let the server forget a message now, whose topic is there also where the packet has an
    /// alias.
    var mayAnswer: (_ client: String, PublishPacket) -> Bool = { _, _ in true }
    /// Whether a client may send a message of QoS 1 or 2 now.
    var mayPublish: (_ client: String, PublishPacket) -> Bool = { _, _ in true }
    /// How many messages of QoS 1 and 2 a client may have in flight by its own settings; nil for any number.
    var inFlightMax: (_ client: String) -> Int? = { _ in nil }
    private var connections: [Int: Conversation] = [:]

    /// One connection.
    private struct Conversation {
        let client: String
        var sent: [UInt8] = []
        var received: [UInt8] = []
        /// The server's messages that the client has not answered, by QoS.
        var unanswered: [QoS: [UInt16]] = [:]
        /// The server's messages whose flow has not ended.
        var incoming: [UInt16: PublishPacket] = [:]
        /// PUBRECs that came and have no PUBREL yet; PUBRELs that came and have no PUBCOMP yet.
        var unreleased: [UInt16] = []
        var uncompleted: [UInt16] = []
        /// The client's messages whose flow has not ended.
        var outgoing: Set<UInt16> = []
        /// Those whose flow began on an earlier connection and ends with PUBREL on this one.
        var resumed: Set<UInt16> = []
        /// What the server's Topic Aliases stand for.
        var topics: [UInt16: EncodedString] = [:]
        var receiveMaximum = 65_535
        var ownReceiveMaximum = 65_535
        /// Of the client.
        var inFlightMax = 65_535
        var mayAnswer: (PublishPacket) -> Bool = { _ in true }
        var mayPublish: (PublishPacket) -> Bool = { _ in true }
    }

    private unowned let world: Simulation
    /// `MARTLET_TRACE=1` prints every packet.
    private let isTraced = getenv("MARTLET_TRACE") != nil

    init(_ world: Simulation) {
        self.world = world
        world.tap = { [unowned self] in observe($0) }
    }

    /// Of the last connection of each client the messages whose flow has not ended, for who knows that all must be at
    /// rest.
    var unanswered: [String] {
        if packetCount == 0 { return ["the oracle has seen no packet"] }
        return atRest
    }

    private var atRest: [String] {
        Dictionary(grouping: connections, by: \.value.client).sorted { $0.key < $1.key }.compactMap { client, connections in
            guard let (number, last) = connections.max(by: { $0.key < $1.key }) else { return nil }
            if last.incoming.isEmpty, last.outgoing.isEmpty { return nil }
            return "\(client), connection \(number): never ended are the server's \(last.incoming.keys.sorted()) "
                + "and the client's \(last.outgoing.sorted())"
        }
    }

    private func observe(_ bytes: ObservedBytes) {
        var conversation = connections[bytes.connection] ?? Conversation(client: bytes.client)
        note(bytes)
        if bytes.isFromClient { conversation.sent += bytes.bytes } else { conversation.received += bytes.bytes }
        conversation.inFlightMax = inFlightMax(bytes.client) ?? 65_535
        conversation.mayAnswer = { [mayAnswer] in mayAnswer(bytes.client, $0) }
        conversation.mayPublish = { [mayPublish] in mayPublish(bytes.client, $0) }
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

    private func note(_ observed: ObservedBytes) {
        for value in [UInt64(observed.connection), observed.isFromClient ? 1 : 0, UInt64(world.now / .milliseconds(1))] {
            mix(value)
        }
        for byte in observed.bytes { mix(UInt64(byte)) }
    }

    /// FNV-1a, a word at a time.
    private func mix(_ value: UInt64) { fingerprint = (fingerprint ^ value) &* 1_099_511_628_211 }

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
        case .connect(let connect):
            conversation.ownReceiveMaximum = Int(connect.properties.receiveMaximum ?? 65_535)
            return nil
        case .publish(let publish):
            guard let identifier = publish.packetIdentifier else { return nil }
            guard !conversation.resumed.contains(identifier), conversation.outgoing.insert(identifier).inserted else {
                return "packet identifier \(identifier) is in use"
            }
            guard conversation.mayPublish(publish) else { return "PUBLISH \(identifier) comes before the disk has it" }
            // [MQTT-3.3.4-7 v5]
            let most = min(conversation.receiveMaximum, conversation.inFlightMax)
            return conversation.outgoing.count > most ? "\(conversation.outgoing.count) messages in flight, \(most) allowed" : nil
        case .acknowledgement(let answer):
            let identifier = answer.packetIdentifier
            let message = conversation.incoming[identifier]
            if answer.type == .pubcomp || answer.type == .puback || (answer.type == .pubrec && answer.reasonCode.isError) {
                conversation.incoming[identifier] = nil
            }
            if let message, answer.type == .puback || answer.type == .pubrec, !conversation.mayAnswer(message) {
                return "\(answer.type) \(identifier) comes before anybody has \(message.topic)"
            }
            switch answer.type {
            // [MQTT-4.6.0-2 v5] [MQTT-4.6.0-3 v5] [MQTT-4.6.0-4 v5]
            case .puback: return answered(identifier, &conversation.unanswered[.atLeastOnce, default: []], "PUBACK")
            case .pubrec: return answered(identifier, &conversation.unanswered[.exactlyOnce, default: []], "PUBREC")
            case .pubrel:
                // One of an earlier connection's messages goes without PUBREC on this one, and counts against nothing:
                // [MQTT-4.9.0-2 v5] counts PUBLISH.
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
            var publish = publish
            if let alias = publish.properties.topicAlias {
                if publish.topic.bytes.isEmpty, let topic = conversation.topics[alias] { publish.topic = topic }
                conversation.topics[alias] = publish.topic
            }
            guard let identifier = publish.packetIdentifier else { return nil }
            conversation.unanswered[publish.qos, default: []].append(identifier)
            conversation.incoming[identifier] = publish
            // [MQTT-3.3.4-9 v5]
            return conversation.incoming.count > conversation.ownReceiveMaximum
                ? "the server has \(conversation.incoming.count) in flight, \(conversation.ownReceiveMaximum) allowed" : nil
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
