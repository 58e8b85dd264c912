import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// Clients, and what is retained.
extension MovingCluster {
    /// All nodes have this one from the stream.
    func retain(_ topic: String, _ payload: String) {
        ClusterMessage.with(topic, payload, retain: true) { message in
            message.change = RetainedChange(node: 77, number: UInt64(payload.utf8.count + 1) << 8)
            for node in nodes {
                let isTaken = node.cores[0].settleRetained(message)
                #expect(isTaken)
            }
        }
        for node in nodes { node.settle() }
    }

    /// A client that is connected to a node.
    @discardableResult
    func connected(
        _ name: EncodedString, on node: Int, clean: Bool = false, expiry: UInt32 = 1000, will: Will? = nil,
        receiveMaximum: UInt16? = nil
    ) -> TestClient {
        let client = nodes[node].client(name)
        connect(client, to: node, clean: clean, expiry: expiry, will: will, receiveMaximum: receiveMaximum)
        return client
    }

    /// One that lasts, and subscribes.
    @discardableResult
    func lasting(
        _ name: EncodedString, on node: Int, _ filter: TopicFilter? = nil, qos: QoS = .exactlyOnce, receiveMaximum: UInt16? = nil
    ) -> TestClient {
        let client = connected(name, on: node, receiveMaximum: receiveMaximum)
        if let filter {
            client.subscribe(filter, qos: qos)
            run()
        }
        return client
    }

    func connect(
        _ client: TestClient, to node: Int, clean: Bool = false, expiry: UInt32 = 1000, will: Will? = nil,
        receiveMaximum: UInt16? = nil
    ) {
        client.broker = nodes[node]
        if !clients.contains(where: { $0 === client }) { clients.append(client) }
        var properties = Properties()
        properties.receiveMaximum = receiveMaximum
        client.connect(clean: clean, expiry: expiry, will: will, properties: properties)
        run()
    }

    /// A client's network fails.
    func lose(_ client: TestClient) {
        client.lose()
        run()
    }

    /// Publishes numbers, one after the other.
    func publish(_ publisher: TestClient, _ numbers: Range<Int>, topic: EncodedString = "a", qos: QoS = .atLeastOnce) {
        for number in numbers {
            publisher.publish(topic, "\(number)", qos: qos)
            run()
        }
    }
}

/// Numbers as payloads.
func texts(_ range: Range<Int>) -> [String] { range.map { "\($0)" } }

extension TestClient {
    /// What came last with each packet identifier, which may have been used before: the answer to it, and its place
    /// among the packets of the connection.
    var lastOfIdentifiers: [(identifier: UInt16, answer: PacketType, place: Int)] {
        var last: [UInt16: (answer: PacketType, place: Int)] = [:]
        for (place, packet) in packetsOfConnection.enumerated() {
            switch packet {
            case .publish(let publish):
                guard let identifier = publish.packetIdentifier else { continue }
                last[identifier] = (publish.qos == .atLeastOnce ? .puback : .pubrec, place)
            case .acknowledgement(let answer) where answer.type == .pubrel: last[answer.packetIdentifier] = (.pubcomp, place)
            default: continue
            }
        }
        return last.sorted { $0.key < $1.key }.map { ($0.key, $0.value.answer, $0.value.place) }
    }

    /// How many SUBACK and UNSUBACK have come.
    var subscriptionAnswers: [Int] {
        var counts = [0, 0]
        for packet in packets {
            switch packet {
            case .suback: counts[0] += 1
            case .unsuback: counts[1] += 1
            default: continue
            }
        }
        return counts
    }
}
