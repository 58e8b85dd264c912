public import BrokerCore
public import BrokerModel
import Bytes
public import MQTTCodec

/// The owner of a client inside the broker, which gets the client's events.
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
    /// What has become of commands, oldest first.
    var outcomes: [ShardCommandOutcome] = []
    /// What clients have asked the broker for, oldest first.
    var requests: [ControlMessage] = []
    /// The owners of clients inside the broker, by connection.
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
    let decisions = SimulatedDecisions()

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
        if !arrivals.isEmpty || !readable.isEmpty || !writable.isEmpty || !answers.isEmpty || !reports.isEmpty
            || !decisions.all.isEmpty
        {
            return true
        }
        if shardMessages.contains(where: { !$0.isEmpty }) { return true }
        return core.nextDeadline.map { $0 <= now } ?? false
    }
}

/// What authorities have decided about topics. All on one thread: hence unchecked.
final class SimulatedDecisions: @unchecked Sendable {
    var all: [(id: ConnectionID, question: TopicQuestion, decision: TopicDecision)] = []
}

/// The sessions of a broker all of whose shards are on one thread: hence unchecked.
public final class SimulatedSessionCount: SessionCount, @unchecked Sendable {
    public private(set) var value = 0

    public init() {}

    public func enter(max: Int?) -> Bool {
        guard value < max ?? .max else { return false }
        value += 1
        return true
    }

    public func leave() { value -= 1 }

    public private(set) var users = UserPlaces()

    public func enter(_ bound: UserBound, of user: EncodedString, max: Int?) -> Bool { users.enter(bound, of: user, max: max) }

    public func leave(_ bound: UserBound, of user: EncodedString, count: Int) { users.leave(bound, of: user, count: count) }
}

/// The transports of one shard: takes the output of its connections and knows them by their number.
final class SimulatedSink: OutputSink {
    private var connections: [ConnectionID: SimulatedConnection] = [:]
    /// The connections that got bytes in this turn, in order.
    var delivered: [SimulatedConnection] = []
    /// The connections that the broker closed in this turn.
    var closed: [SimulatedConnection] = []

    func find(_ id: ConnectionID) -> SimulatedConnection? { connections[id] }

    func add(_ connection: SimulatedConnection, as id: ConnectionID) { connections[id] = connection }

    /// The broker closes a connection, for good.
    func close(_ id: ConnectionID) {
        guard let connection = connections.removeValue(forKey: id) else { return }
        connection.isClosed = true
        closed.append(connection)
    }

    /// Lets go of all connections, and these of who listens to them.
    func powerOff() {
        for connection in connections.values { connection.onReceive = nil }
        (connections, delivered, closed) = ([:], [], [])
    }

    func remove(_ id: ConnectionID) { connections[id] = nil }

    func send(_ slices: UnsafeBufferPointer<ByteSlice>, to connection: ConnectionID) -> Int {
        guard let target = connections[connection] else { return slices.reduce(0) { $0 + $1.count } }
        var room = target.roomInFlush
        var taken = 0
        for slice in slices where room > 0 {
            let count = min(room, slice.count)
            target.received(UnsafeRawBufferPointer(start: slice.base, count: count))
            taken += count
            room -= count
        }
        let offered = slices.reduce(0) { $0 + $1.count }
        if taken < offered { target.becameBlocked() }
        if taken > 0 { delivered.append(target) }
        return taken
    }
}
