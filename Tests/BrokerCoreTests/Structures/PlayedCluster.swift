import BrokerCore
import BrokerModel
import BrokerSimulation
import MQTTCodec
import MartletTestKit

/// A test that plays the cluster of a broker.
extension SimulatedBroker {
    /// All shards join the cluster, and find it.
    func joinCluster(logPartitions: Int = 0, claimsSessions: Bool = false, node: UInt64 = 0) {
        for core in cores {
            core.joinCluster(logPartitions: logPartitions, claimsSessions: claimsSessions, node: node)
            core.received(.isAway(false))
        }
    }

    /// The log has nothing.
    func beginLog(partitions: Int = 1) {
        for (core, partition) in cores.flatMap({ core in (0..<partitions).map { (core, $0) } }) {
            core.received(.logBegins(partition, after: LogPositions.Place(sequence: 0, stream: 5)))
        }
        settle()
    }

    /// Lets every fence pass that was asked for.
    func passFences() {
        for (shard, note) in clusterNotes {
            if case .fence(let token) = note { cores[0].passedFence(token, of: shard) }
        }
        settle()
    }
}

extension ClusterMessage {
    /// Calls `body` with a message of another node, or of a stream.
    static func with<Result>(
        _ topic: String, _ payload: String, qos: QoS = .atLeastOnce, retain: Bool = false, _ body: (inout ClusterMessage) -> Result
    ) -> Result {
        Array(topic.utf8).withUnsafeBytes { topic in
            Array(payload.utf8).withUnsafeBytes { payload in
                var message = ClusterMessage(
                    topic: topic, properties: UnsafeRawBufferPointer(start: nil, count: 0), payload: payload, qos: qos,
                    retain: retain, expiresAt: nil)
                return body(&message)
            }
        }
    }
}
