internal import BrokerModel

/// The names that mosquitto has for what is counted.
extension Administration {
    /// What mosquitto counts, by its names below `$SYS/broker/`.
    func systemCounts(_ sum: ShardStatistics) -> [(String, UInt64)] {
        let absent = sum.clientsTotal - min(sum.clientsTotal, sum.clientsConnected)
        return [
            ("clients/total", UInt64(sum.clientsTotal)), ("clients/maximum", UInt64(max(systemMaxima.clients, sum.clientsTotal))),
            ("clients/disconnected", UInt64(absent)), ("clients/connected", UInt64(sum.clientsConnected)),
            ("clients/expired", sum.clientsExpired), ("messages/stored", UInt64(sum.storedMessages)),
            ("store/messages/bytes", UInt64(sum.storedBytes)), ("subscriptions/count", UInt64(sum.subscriptions)),
            ("shared_subscriptions/count", UInt64(sum.sharedSubscriptions)),
            ("retained messages/count", UInt64(sum.retainedMessages)), ("messages/received", sum.messagesReceived),
            ("messages/sent", sum.messagesSent), ("bytes/received", sum.bytesReceived), ("bytes/sent", sum.bytesSent),
            ("publish/bytes/received", sum.publishBytesReceived), ("publish/bytes/sent", sum.publishBytesSent),
            ("publish/messages/dropped", sum.publishDropped), ("publish/messages/received", sum.publishReceived),
            ("publish/messages/sent", sum.publishSent), ("packet/out/count", Self.packetsWaiting(sum)),
            ("packet/out/bytes", UInt64(sum.outputBytes)), ("connections/socket/count", UInt64(sum.connections)),
            ("heap/current", UInt64(sum.heapBytes)), ("heap/maximum", UInt64(max(systemMaxima.heapBytes, sum.heapBytes))),
        ]
    }

    /// Packets that wait for sockets with room, reckoned from their bytes and the mean size of all packets.
    private static func packetsWaiting(_ sum: ShardStatistics) -> UInt64 {
        let waiting = Double(sum.outputBytes)
        guard waiting > 0, sum.messagesSent > 0 else { return 0 }
        let meanBytes = (Double(sum.bytesSent) + waiting) / Double(sum.messagesSent)
        return UInt64((waiting / meanBytes).rounded(.up))
    }
}

/// The most that there was since the start, as far as somebody looked.
struct SystemMaxima {
    private(set) var clients = 0
    private(set) var heapBytes = 0

    mutating func note(_ statistics: ShardStatistics) {
        clients = max(clients, statistics.clientsTotal)
        heapBytes = max(heapBytes, statistics.heapBytes)
    }
}
