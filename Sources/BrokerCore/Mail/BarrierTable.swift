import BrokerModel
import MQTTCodec

/// The SUBACKs that wait until every other shard routes to the new subscriptions, and the end marks that wait for what those have sent.
struct BarrierTable {
    struct Waiting {
        let connection: ConnectionID
        let answer: HeldAnswer
        /// How many shards have not answered yet.
        var missing: Int
    }

    private var waiting: [UInt64: Waiting] = [:]
    private var lastToken: UInt64 = 0

    var isWaiting: Bool { !waiting.isEmpty }

    /// Takes an answer in; returns the token that the other shards are to send back.
    mutating func hold(_ entry: Waiting) -> UInt64 {
        lastToken += 1
        waiting[lastToken] = entry
        return lastToken
    }

    /// A shard has passed the barrier; returns what waited for it if it was the last.
    mutating func passed(_ token: UInt64) -> Waiting? {
        guard var entry = waiting[token] else { return nil }
        entry.missing -= 1
        if entry.missing == 0 {
            waiting[token] = nil
            return entry
        }
        waiting[token] = entry
        return nil
    }
}
