import BrokerModel
import Configuration
import Federation
import MQTTCodec
import Platform
import ServerLoops
import Transports

extension BridgePlan {
    /// Reads certificates and keys. Throws what is wrong with the bridge. Asks no name server: a name that is not known
    /// is the connection's failure.
    init(_ bridge: BridgeConfiguration, in configuration: BrokerConfiguration) throws(ServerError) {
        func complain(_ reason: String) -> ServerError { .bridge(name: bridge.name, reason: reason) }
        let settings = try Self.settings(bridge, configuration)
        let identifiers = [settings.localClientIdentifier, settings.remote.clientIdentifier]
        if identifiers.contains(where: { BridgeSettings.clientIdentifier($0, ofConnection: bridge.connectionCount) == nil }) {
            throw complain("its client identifiers are too long for so many connections")
        }
        var endpoints: [Endpoint] = []
        for address in bridge.addresses { endpoints.append(try Self.endpoint(address, bridge)) }
        guard !endpoints.isEmpty else { throw complain("it has no address") }
        self.init(
            name: bridge.name, settings: settings, connectionCount: bridge.connectionCount, endpoints: endpoints,
            bindAddress: bridge.tcp.bindAddress, tcpKeepAlive: bridge.tcp.keepAlive,
            tcpUserTimeoutMilliseconds: bridge.tcp.userTimeoutMilliseconds,
            localUserName: bridge.local.userName.flatMap { EncodedString($0) }, saysBrokers: bridge.saysBrokers,
            reloadsAtOnce: bridge.reload == .immediate, way: Way(bridge), queueBound: QueueBound(of: bridge, in: configuration),
            logsConnections: configuration.logging.logsConnections)
    }

    private static func settings(
        _ bridge: BridgeConfiguration, _ configuration: BrokerConfiguration
    ) throws(ServerError) -> BridgeSettings {
        let remoteText = bridge.remote.clientIdentifier ?? "\(HostName.text()).\(bridge.name)"
        let localText = bridge.local.clientIdentifier ?? "local.\(remoteText)"
        guard let remoteIdentifier = EncodedString(remoteText), let localIdentifier = EncodedString(localText) else {
            throw .bridge(name: bridge.name, reason: "its client identifier is longer than 65,535 bytes, or holds a null character")
        }
        var remote = BridgeSettings.Login(clientIdentifier: remoteIdentifier)
        remote.userName = bridge.remote.userName.flatMap { EncodedString($0) }
        remote.password = bridge.remote.password.map { Array($0.utf8) }
        var settings = BridgeSettings(name: bridge.name, remote: remote, localClientIdentifier: localIdentifier)
        settings.addressCount = bridge.addresses.count
        settings.topics = bridge.topics.map { topic in
            let direction: BridgedTopic.Direction =
                switch topic.direction {
                case .out: .out
                case .in: .in
                case .both: .both
                }
            return BridgedTopic(
                topic.pattern, direction, qos: topic.qos, localPrefix: topic.localPrefix, remotePrefix: topic.remotePrefix)
        }
        settings.version = ProtocolVersion(rawValue: bridge.protocolVersion) ?? .v311
        settings.startsClean = bridge.session.startsClean
        settings.startsCleanLocally = bridge.session.startsCleanLocally ?? bridge.session.startsClean
        settings.keepAliveSeconds = UInt16(clamping: bridge.keepAliveSeconds)
        settings.start =
            switch bridge.schedule.start {
            case .automatic: .automatic
            case .lazy:
                .lazy(
                    messages: bridge.schedule.lazyThresholdMessages,
                    idleMilliseconds: UInt64(bridge.schedule.idleTimeoutSeconds) * 1000)
            case .once: .once
            }
        settings.restart = BridgeSettings.Restart(
            base: UInt64(bridge.schedule.restart.baseSeconds) * 1000,
            cap: bridge.schedule.restart.capSeconds.map { UInt64($0) * 1000 },
            stable: UInt64(bridge.schedule.restart.stableSeconds ?? 0) * 1000)
        settings.isRoundRobin = bridge.schedule.isRoundRobin
        settings.announcesBridge = bridge.announcesBridge
        settings.notifies = bridge.notifications.isEnabled
        settings.notifiesLocallyOnly = bridge.notifications.isLocalOnly
        if let topic = bridge.notifications.topic {
            guard let name = TopicName(topic) else {
                throw .bridge(name: bridge.name, reason: "notification_topic \(topic) is not a topic name")
            }
            settings.notificationTopic = name
        }
        settings.attemptsUnsubscribe = bridge.attemptsUnsubscribe
        settings.sendsRetain = bridge.sendsRetain
        settings.packetBytesMax = bridge.packetBytesMax
        settings.topicAliasMaximum = bridge.topicAliasMax
        settings.receiveMaximum =
            bridge.receiveMaximum ?? configuration.limits.queue.inflightMessagesMax.map { UInt16(clamping: $0) } ?? .max
        settings.sessionExpiryInterval = bridge.session.expiryIntervalSeconds
        return settings
    }

    private static func endpoint(_ address: BridgeAddress, _ bridge: BridgeConfiguration) throws(ServerError) -> Endpoint {
        let text = address.description
        if case .unix(let path) = address.transport {
            guard SocketAddress.unix(path: path) != nil else {
                throw .bridge(name: bridge.name, reason: "the socket's path \(path) must have 1 to 107 bytes")
            }
            return Endpoint(target: .path(path), layers: ClientLayers(), text: text)
        }
        var layers = ClientLayers()
        if address.usesTLS || bridge.tls.isEnabled {
            do throws(TLSFailure) {
                layers.tls = try TLSClientContext(TLSClientSettings(bridge.tls, serverName: address.host))
            } catch {
                throw .bridgeSecurity(name: bridge.name, error)
            }
        }
        if case .webSocket(let path) = address.transport {
            let host = address.host.contains(":") ? "[\(address.host)]" : address.host
            let usualPort: UInt16 = layers.tls == nil ? 80 : 443
            layers.webSocket = WebSocketClientSettings(
                host: address.port == usualPort ? host : "\(host):\(address.port)", path: path)
        }
        return Endpoint(target: .host(address.host, port: address.port), layers: layers, text: text)
    }
}

extension QueueBound {
    /// Nil if the section says nothing of it.
    fileprivate init?(of bridge: BridgeConfiguration, in configuration: BrokerConfiguration) {
        guard bridge.queue.messagesMax != nil || bridge.queue.bytesMax != nil || bridge.queue.dropPolicy != nil else { return nil }
        self.init(
            messagesMax: bridge.queue.messagesMax ?? configuration.limits.queue.messagesMax ?? 0,
            bytesMax: bridge.queue.bytesMax ?? configuration.limits.queue.bytesMax ?? 0,
            overflow: QueueOverflow(bridge.queue.dropPolicy ?? configuration.messaging.queueDropPolicy))
    }
}

extension TLSClientSettings {
    fileprivate init(_ tls: BridgeTLSConfiguration, serverName: String) {
        self.init(serverName: serverName)
        authoritiesFile = tls.authoritiesFile
        authoritiesDirectory = tls.authoritiesDirectory
        usesSystemAuthorities = tls.usesSystemAuthorities
        checksServerName = !tls.ignoresHostName
        certificateFile = tls.certificateFile
        keyFile = tls.keyFile
        requiresVersion13 = tls.versionMin == .tls1_3
        ciphers = tls.ciphers
        cipherSuites = tls.cipherSuites
        applicationProtocol = tls.applicationProtocol
        requiresOCSP = tls.requiresOCSP
        if let identity = tls.preSharedKeyIdentity, let key = tls.preSharedKey {
            preSharedKey = PreSharedKey(identity: identity, key: Self.bytes(ofHexadecimal: key))
        }
    }

    /// The reader of the configuration has let nothing else through.
    private static func bytes(ofHexadecimal text: String) -> [UInt8] {
        let digits = text.compactMap(\.hexDigitValue)
        let even = digits.count % 2 == 0 ? digits : [0] + digits
        return stride(from: 0, to: even.count, by: 2).map { UInt8(even[$0] << 4 | even[$0 + 1]) }
    }
}

/// A `connection` section of a file: what it asks for, or why it cannot be run.
struct PlannedBridge: Sendable {
    let name: String
    /// Nil if its certificates, keys or ciphers cannot be used.
    let plan: BridgePlan?
    /// Why not, as sentences without the last full stop.
    let failure: String?

    init(name: String, plan: BridgePlan) { (self.name, self.plan, failure) = (name, plan, nil) }

    init(name: String, failure: TLSFailure) {
        (self.name, plan) = (name, nil)
        self.failure = "\(failure.bridgeOption.map { "\($0): " } ?? "")\(failure.explanation)"
    }
}
