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
        Array(topic.utf8).withUnsafeBytes { topic in
            Array(payload.utf8).withUnsafeBytes { payload in
                var message = ClusterMessage(
                    topic: topic, properties: UnsafeRawBufferPointer(start: nil, count: 0), payload: payload, qos: .atLeastOnce,
                    retain: true, expiresAt: nil)
                message.change = RetainedChange(node: 77, number: UInt64(payload.count + 1) << 8)
                for node in nodes {
                    let isTaken = node.cores[0].settleRetained(message)
                    #expect(isTaken)
                }
            }
        }
        for node in nodes { node.settle() }
    }

    /// A client that is connected to a node and lasts.
    func lasting(
        _ name: EncodedString, on node: Int, _ filter: TopicFilter? = nil, receiveMaximum: UInt16? = nil
    ) -> TestClient {
        let client = nodes[node].client(name)
        connect(client, to: node, receiveMaximum: receiveMaximum)
        if let filter {
            client.subscribe(filter, qos: .exactlyOnce)
            run()
        }
        return client
    }

    func connect(
        _ client: TestClient, to node: Int, clean: Bool = false, expiry: UInt32 = 1000, will: Will? = nil,
        receiveMaximum: UInt16? = nil
    ) {
        client.broker = nodes[node]
        var properties = Properties()
        properties.receiveMaximum = receiveMaximum
        client.connect(clean: clean, expiry: expiry, will: will, properties: properties)
        run()
    }
}
