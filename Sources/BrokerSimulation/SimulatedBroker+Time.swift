import BrokerCore

/// The simulated clock.
extension SimulatedBroker {
    /// Lets time pass, stopping at every deadline of a shard and settling there, so that timers fire in their exact order.
    public func advance(milliseconds: UInt64) {
        let end = now + milliseconds
        settle()
        while let next = shards.compactMap({ $0.core.nextDeadline }).min(), next <= end {
            now = max(now, next)
            for shard in shards where shard.core.nextDeadline.map({ $0 <= now }) ?? false { turn(shard) }
            settle()
        }
        now = end
        for shard in shards { turn(shard) }
        settle()
    }

    /// The clock goes on while no shard has a turn, as that of a process that is stopped: what was due comes late.
    package func stall(until time: UInt64) { now = max(now, time) }

    public func advance(seconds: UInt64) { advance(milliseconds: seconds * 1000) }
}
