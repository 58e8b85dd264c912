import BrokerCore
import BrokerModel
import Bytes

/// The transports of one shard: takes the output of its connections and knows them by their number.
final class SimulatedSink: OutputSink {
    private var connections: [ConnectionID: SimulatedConnection] = [:]
    /// The connections that got bytes in this turn, in order.
    var delivered: [SimulatedConnection] = []
    /// Those that the broker closed in this turn.
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
            target.take(UnsafeRawBufferPointer(start: slice.base, count: count))
            taken += count
            room -= count
        }
        let offered = slices.reduce(0) { $0 + $1.count }
        if taken < offered { target.becameBlocked() }
        if taken > 0 { delivered.append(target) }
        return taken
    }
}
