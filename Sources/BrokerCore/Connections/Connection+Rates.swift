import BrokerModel

/// Where a connection's counts stood when somebody asked for its rates, and what those were. Made when somebody does.
final class TrafficMark {
    fileprivate var at: UInt64
    fileprivate var (received, sent): (UInt64, UInt64) = (0, 0)
    fileprivate var rates: (received: UInt64, sent: UInt64) = (0, 0)

    fileprivate init(connectedAt: UInt64) { at = connectedAt }

    /// Milliseconds within which a rate that is asked for again is answered the same: a shorter time says nothing of a
    /// rate.
    fileprivate static let millisecondsMin: UInt64 = 1000
}

extension Connection {
    /// Messages a second, since the last time that this was asked at least a second ago, else since the connection is there.
    func rates(at now: UInt64) -> (received: UInt64, sent: UInt64) {
        let mark = trafficMark ?? TrafficMark(connectedAt: connectedAt)
        trafficMark = mark
        let elapsed = now &- min(now, mark.at)
        guard elapsed >= TrafficMark.millisecondsMin else { return mark.rates }
        mark.rates = (
            (traffic.receivedMessages &- mark.received) &* 1000 / elapsed, (traffic.sentMessages &- mark.sent) &* 1000 / elapsed
        )
        (mark.at, mark.received, mark.sent) = (now, traffic.receivedMessages, traffic.sentMessages)
        return mark.rates
    }
}
