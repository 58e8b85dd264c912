package import BrokerModel
package import Configuration
package import Federation
package import MQTTCodec
import Platform
package import Transports

/// A bridge as its configuration wants it: what it is to do, and how its connections are made.
package struct BridgePlan: Sendable {
    /// One of the addresses, with what lies between its socket and MQTT.
    package struct Endpoint: Sendable {
        package enum Target: Sendable {
            case host(String, port: UInt16)
            case path(String)
        }

        package let target: Target
        package let layers: ClientLayers
        /// As logs call it.
        package let text: String

        package init(
            target: Target, layers: ClientLayers, text: String
        ) {
            self.target = target
            self.layers = layers
            self.text = text
        }
    }

    /// What of the configuration, and of the files that it names, a connection is made by.
    package struct Way: Equatable, Sendable {
        private let addresses: [BridgeAddress]
        private let bindAddress: String?
        private let tcpKeepAlive: TCPKeepAlive?
        private let tcpUserTimeoutMilliseconds: Int?
        private let tls: BridgeTLSConfiguration
        private let localUserName: String?
        private let files: [FileFingerprint?]

        package init(_ bridge: BridgeConfiguration) {
            (addresses, bindAddress, localUserName) = (bridge.addresses, bridge.tcp.bindAddress, bridge.local.userName)
            (tcpKeepAlive, tcpUserTimeoutMilliseconds) = (bridge.tcp.keepAlive, bridge.tcp.userTimeoutMilliseconds)
            tls = bridge.tls
            let paths = [tls.authoritiesFile, tls.authoritiesDirectory, tls.certificateFile, tls.keyFile].compactMap { $0 }
            files = paths.map { FileFingerprint(path: $0) }
        }
    }

    package let name: String
    /// Of the connection that this is the plan of.
    package private(set) var settings: BridgeSettings
    /// How many connections it has, each with a session of its own.
    package var connectionCount: Int
    /// Which of them it is the plan of, from 1 on: the first unless it is one of `connections`.
    package private(set) var connection = 1
    package let endpoints: [Endpoint]
    /// The name or address of this machine that it connects from; nil for any. Looked up for each connection.
    package let bindAddress: String?
    package let tcpKeepAlive: TCPKeepAlive?
    package let tcpUserTimeoutMilliseconds: Int?
    /// The user whose access rules hold here; nil for the broker's own.
    package let localUserName: EncodedString?
    /// Whether its messages say which brokers they were in.
    package let saysBrokers: Bool
    /// Whether a change reaches a connection that stands.
    package let reloadsAtOnce: Bool
    /// Tells whether two plans connect in the same way.
    package let way: Way
    /// How much may wait for the other broker; nil for as much as for any client.
    package let queueBound: QueueBound?
    /// Whether connections that come and go are logged.
    package let logsConnections: Bool

    /// Names the connection among all of the broker's: no section's name has a null character.
    package var key: String { connection == 1 ? name : "\(name)\0\(connection)" }

    /// A plan for each connection.
    package var connections: [BridgePlan] {
        (1...connectionCount).map { number in
            var plan = self
            (plan.connection, plan.settings) = (number, settings.connection(number, of: connectionCount))
            return plan
        }
    }

    /// The client identifiers here, of all connections.
    package var localClientIdentifiers: [EncodedString] {
        (1...connectionCount).compactMap {
            BridgeSettings.clientIdentifier(settings.localClientIdentifier, ofConnection: $0)
        }
    }

    /// A client identifier here that another bridge has too, or nil.
    package func sharedIdentifier(with other: BridgePlan) -> EncodedString? {
        let others = Set(other.localClientIdentifiers)
        return localClientIdentifiers.first { others.contains($0) }
    }

    /// How much may wait for each connection, so that as much waits for all as is to.
    package var connectionQueueBound: QueueBound? {
        queueBound.map { bound in
            func share(_ all: Int) -> Int { (all + connectionCount - 1) / connectionCount }
            return QueueBound(
                messagesMax: share(bound.messagesMax), bytesMax: share(bound.bytesMax), overflow: bound.overflow)
        }
    }

    /// Which topics are each connection's, by its client identifier here; empty for a single one, which has all.
    package var topicParts: [(EncodedString, TopicPart)] {
        guard connectionCount > 1 else { return [] }
        return localClientIdentifiers.enumerated().map { index, identifier in
            (identifier, TopicPart(index: index, count: connectionCount, publisher: settings.localClientIdentifier))
        }
    }

    package init(
        name: String, settings: BridgeSettings, connectionCount: Int, endpoints: [Endpoint], bindAddress: String?,
        tcpKeepAlive: TCPKeepAlive?, tcpUserTimeoutMilliseconds: Int?, localUserName: EncodedString?, saysBrokers: Bool,
        reloadsAtOnce: Bool, way: Way, queueBound: QueueBound?, logsConnections: Bool
    ) {
        self.name = name
        self.settings = settings
        self.connectionCount = connectionCount
        self.endpoints = endpoints
        self.bindAddress = bindAddress
        self.tcpKeepAlive = tcpKeepAlive
        self.tcpUserTimeoutMilliseconds = tcpUserTimeoutMilliseconds
        self.localUserName = localUserName
        self.saysBrokers = saysBrokers
        self.reloadsAtOnce = reloadsAtOnce
        self.way = way
        self.queueBound = queueBound
        self.logsConnections = logsConnections
    }
}
