package import BrokerCore
package import BrokerModel

/// Who has a client inside the broker.
package protocol LocalEventReceiver: AnyObject {
    func received(_ event: LocalEvent)
}

/// One shard of a `SimulatedBroker`, and all that waits for its next turns.
package final class SimulatedShard {
    /// A connection that the shard is about to take in: fresh, or from another shard.
    struct Arrival {
        let connection: SimulatedConnection
        let info: ConnectionInfo
        let handOver: HandOver?
    }

    package let index: Int
    package let core: BrokerShard
    let sink = SimulatedSink()
    /// What the core has answered, oldest first.
    var replies: [ShardReply] = []
    /// What has become of orders, oldest first.
    var outcomes: [ShardOrderOutcome] = []
    /// What clients have asked the broker for, oldest first.
    var requests: [ControlMessage] = []
    /// Who has a client inside the broker.
    package var parties: [ConnectionID: any LocalEventReceiver] = [:]
    /// The batches from each shard that have not arrived yet, oldest first.
    var shardMessages: [[ShardMessageBatch]]
    var arrivals: [Arrival] = []
    /// The connections with something to read, in the order in which it came.
    var readable: [SimulatedConnection] = []
    var writable: [SimulatedConnection] = []
    /// What the store has to tell, oldest first.
    var reports: [StoreReport] = []
    var answers: [(connection: SimulatedConnection, outcome: AuthenticationOutcome)] = []

    init(index: Int, core: BrokerShard, shardCount: Int) {
        self.index = index
        self.core = core
        shardMessages = Array(repeating: [], count: shardCount)
    }

    /// Lets go of all connections, and of what waits for them.
    func powerOff() {
        (arrivals, readable, writable, answers, parties) = ([], [], [], [], [:])
        sink.powerOff()
    }

    /// Whether a turn at `now` would do anything.
    func hasWork(at now: UInt64) -> Bool {
        if !arrivals.isEmpty || !readable.isEmpty || !writable.isEmpty || !answers.isEmpty || !reports.isEmpty {
            return true
        }
        if shardMessages.contains(where: { !$0.isEmpty }) { return true }
        return core.nextDeadline.map { $0 <= now } ?? false
    }
}
