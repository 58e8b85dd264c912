internal import BrokerCore
import BrokerModel
internal import BrokerSimulation

/// What a broker knows, in the words of the client library. To be asked where the broker's turns are made.
extension SimulatedBroker {
    /// The filters of a client's subscriptions, sorted; shared ones with `$share` and the group's name.
    func filters(of clientIdentifier: String) -> [TopicFilter] {
        guard let identifier = EncodedString(clientIdentifier) else { return [] }
        var found: [TopicFilter] = []
        for page in pages(.subscriptions(of: identifier, matching: nil)) {
            guard case .subscriptions(let rows) = page else { continue }
            found += rows.compactMap { row in
                TopicFilter((row.shareName.map { Array("$share/".utf8) + $0.bytes + [UInt8(ascii: "/")] } ?? []) + row.filter)
            }
        }
        return found.sorted { $0.description < $1.description }
    }

    /// The retained messages, sorted by topic.
    func retainedMessages() -> [Publication] {
        var found: [Publication] = []
        for filter in ["#", "$SYS/#"] as [TopicFilter] {
            for page in pages(.retained(filter)) {
                guard case .retained(let rows) = page else { continue }
                for topic in rows.compactMap({ TopicName($0.topic) }) {
                    guard let packet = cores.lazy.compactMap({ $0.retainedMessage(of: topic) }).first else { continue }
                    found.append(
                        Publication(topic, Payload(packet.payload), qos: packet.qos, retain: true, properties: packet.properties))
                }
            }
        }
        return found.sorted { $0.topic.description < $1.topic.description }
    }

    /// The identifiers of the clients that are connected, sorted.
    func connectedClients() -> [String] {
        var found: [String] = []
        for page in pages(.clients()) {
            guard case .clients(let rows) = page else { continue }
            found += rows.filter { $0.connection != nil }.map(\.clientIdentifier.description)
        }
        return found.sorted()
    }
}
