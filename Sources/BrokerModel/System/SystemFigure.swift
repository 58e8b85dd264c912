/// A figure that a broker tells of itself below `$SYS/broker/`, by mosquitto's name.
///
/// What it is called and how it is reckoned stands here once: for the topics, for mosquitto's HTTP API, for boards that
/// read the names of `$SYS`, and for the fields and metrics of the administration that show the same.
public struct SystemFigure: Sendable {
    /// Below `$SYS/broker/`.
    public let topic: String
    private let reckon: @Sendable (ShardStatistics, SystemMaxima) -> UInt64?

    private init(_ topic: String, _ reckon: @escaping @Sendable (ShardStatistics, SystemMaxima) -> UInt64?) {
        (self.topic, self.reckon) = (topic, reckon)
    }

    /// - Parameter value: what there is, which is below 0 only while the shards' counts are of different times.
    private init<Value: BinaryInteger & SendableMetatype>(
        _ topic: String, _ value: @escaping @Sendable (ShardStatistics) -> Value
    ) {
        self.init(topic) { sum, _ in UInt64(max(0, value(sum))) }
    }

    /// Its value; nil where there is none, as of a store that is not there.
    ///
    /// - Parameters:
    ///   - sum: what all shards have counted.
    ///   - maxima: the most that there was before.
    public func value(of sum: ShardStatistics, _ maxima: SystemMaxima = SystemMaxima()) -> UInt64? { reckon(sum, maxima) }
}

extension SystemFigure {
    public static let clientsTotal = SystemFigure("clients/total", \.clientsTotal)
    public static let clientsMaximum = SystemFigure("clients/maximum") { UInt64(max($1.clients, $0.clientsTotal)) }
    public static let clientsConnected = SystemFigure("clients/connected", \.clientsConnected)
    public static let clientsDisconnected = SystemFigure("clients/disconnected") { $0.clientsTotal - $0.clientsConnected }
    public static let clientsExpired = SystemFigure("clients/expired", \.clientsExpired)
    public static let packetsReceived = SystemFigure("messages/received", \.messagesReceived)
    public static let packetsSent = SystemFigure("messages/sent", \.messagesSent)
    public static let messagesStored = SystemFigure("messages/stored", \.storedMessages)
    public static let bytesStored = SystemFigure("store/messages/bytes", \.storedBytes)
    public static let publishReceived = SystemFigure("publish/messages/received", \.publishReceived)
    public static let publishSent = SystemFigure("publish/messages/sent", \.publishSent)
    public static let publishDropped = SystemFigure("publish/messages/dropped", \.publishDropped)
    public static let publishBytesReceived = SystemFigure("publish/bytes/received", \.publishBytesReceived)
    public static let publishBytesSent = SystemFigure("publish/bytes/sent", \.publishBytesSent)
    public static let bytesReceived = SystemFigure("bytes/received", \.bytesReceived)
    public static let bytesSent = SystemFigure("bytes/sent", \.bytesSent)
    public static let subscriptions = SystemFigure("subscriptions/count", \.subscriptions)
    public static let sharedSubscriptions = SystemFigure("shared_subscriptions/count", \.sharedSubscriptions)
    public static let retainedMessages = SystemFigure("retained messages/count", \.retainedMessages)
    public static let connections = SystemFigure("connections/socket/count", \.connections)
    public static let connectionsRefused = SystemFigure("connections/refused/count", \.connectionsRefused)
    public static let packetsWaiting = SystemFigure("packet/out/count", \.packetsWaiting)
    public static let outputBytes = SystemFigure("packet/out/bytes", \.outputBytes)
    public static let heapBytes = SystemFigure("heap/current", \.heapBytes)
    public static let heapMaximum = SystemFigure("heap/maximum") { UInt64(max(0, $1.heapBytes, $0.heapBytes)) }
    public static let storeBytes = SystemFigure("store/bytes") { sum, _ in sum.store?.bytes }
    public static let storeRows = SystemFigure("store/rows") { sum, _ in sum.store?.rows }
    public static let storeCommits = SystemFigure("store/commits") { sum, _ in sum.store?.commits }

    /// Those that are told as topics, in that order, with the names that mosquitto once had for some beside them.
    public static let topics: [SystemFigure] = [
        clientsTotal, clientsMaximum, clientsConnected, clientsConnected.also("clients/active"), clientsDisconnected,
        clientsDisconnected.also("clients/inactive"), clientsExpired, packetsReceived, packetsSent, messagesStored,
        messagesStored.also("store/messages/count"), bytesStored, publishReceived, publishSent, publishDropped,
        publishBytesReceived, publishBytesSent, bytesReceived, bytesSent, subscriptions, sharedSubscriptions, retainedMessages,
        connections, connectionsRefused, packetsWaiting, outputBytes, heapBytes, heapMaximum, storeBytes, storeRows,
        storeCommits,
    ]

    /// Those that mosquitto's HTTP API answers with, in mosquitto's order.
    public static let mosquittoAPI: [SystemFigure] = [
        clientsTotal, clientsMaximum, clientsDisconnected, clientsConnected, clientsExpired, messagesStored, bytesStored,
        subscriptions, sharedSubscriptions, retainedMessages, heapBytes, heapMaximum, packetsReceived, packetsSent, bytesReceived,
        bytesSent, publishBytesReceived, publishBytesSent, packetsWaiting, outputBytes, connections, publishDropped,
        publishReceived, publishSent,
    ]

    private func also(_ topic: String) -> SystemFigure { SystemFigure(topic, reckon) }
}

/// The most that there was since the start, as far as somebody looked.
public struct SystemMaxima: Sendable {
    private(set) var clients = 0
    private(set) var heapBytes = 0

    /// Nobody has looked yet.
    public init() {}

    /// Takes in what is there now.
    public mutating func record(_ statistics: ShardStatistics) {
        clients = max(clients, statistics.clientsTotal)
        heapBytes = max(heapBytes, statistics.heapBytes)
    }

    /// What mosquitto's HTTP API tells, by its names below `$SYS/broker/`.
    public func topics(of sum: ShardStatistics) -> [(String, UInt64)] {
        SystemFigure.mosquittoAPI.compactMap { figure in figure.value(of: sum, self).map { (figure.topic, $0) } }
    }
}
