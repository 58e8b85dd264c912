import BrokerModel
import Bytes

/// The connections whose output is written when the turn ends.
///
/// Connections that get more to write by their flush wait for the next turn, so that a fast reader does not hold this
/// one up. The table of connections, or its graveyard, keeps each of them alive until the end of the turn. Owned by a
/// shard, used on its thread only.
struct FlushQueue: ~Copyable {
    private var dirty: [Reference<Connection>] = []
    private var flushing: [Reference<Connection>] = []
    /// The pieces of what is written to a connection at once.
    let slices = UnsafeMutableBufferPointer<ByteSlice>.allocate(capacity: 256)

    deinit { slices.deallocate() }

    /// Whether nothing waits for the end of a turn.
    var isEmpty: Bool { dirty.isEmpty }

    /// Adds a connection that is not there yet.
    @inline(__always)
    mutating func append(_ connection: Connection) { dirty.append(Reference(connection)) }

    /// Begins with those that are there.
    ///
    /// - Returns: how many they are.
    mutating func begin() -> Int {
        swap(&dirty, &flushing)
        return flushing.count
    }

    /// One of those, by its place.
    func connection(at position: Int) -> Reference<Connection> { flushing[position] }

    /// All of those were written to.
    mutating func end() { flushing.removeAll(keepingCapacity: true) }
}

/// Writing what connections are sent: once in a turn, and when a transport takes bytes again.
extension BrokerShard {
    /// Has a connection's output written when the turn ends.
    func markDirty(_ connection: Connection) {
        guard !connection.isDirty else { return }
        connection.isDirty = true
        output.append(connection)
    }

    /// Gives each connection's output to its transport.
    func flush(into sink: any OutputSink) {
        for position in 0..<output.begin() {
            let reference = output.connection(at: position)
            reference.with { connection in
                connection.isDirty = false
                flush(connection, into: sink)
            }
        }
        output.end()
    }

    func flush(_ connection: Connection, into sink: any OutputSink) {
        if connection.client.isLocal { return localClients.flushLocal(connection) }
        guard !connection.pace.isBlocked, !connection.holding.isAwaitingStore, !connection.output.isEmpty else {
            if !connection.output.isEmpty {
                connection.output.settle(arena: &arena, pool: &pool)
                if connection.pace.isBlocked { connecting.recordLag(of: connection) }
            } else if connection.state == .closing {
                disconnecting.end(connection)
            }
            return
        }
        repeat {
            let count = connection.output.gather(into: output.slices)
            var offered = 0
            for position in 0..<count { offered &+= output.slices[position].count }
            let taken = sink.send(UnsafeBufferPointer(start: output.slices.baseAddress, count: count), to: connection.id)
            statistics.bytesSent &+= UInt64(taken)
            connection.traffic.sentBytes &+= UInt64(taken)
            if connection.isTraced { tracing.traceSent(taken, connection) }
            connection.output.consume(taken, arena: &arena, pool: &pool)
            if taken < offered { connection.pace.isBlocked = true }
        } while !connection.pace.isBlocked && !connection.output.isEmpty
        guard connection.output.isEmpty else {
            connection.output.settle(arena: &arena, pool: &pool)
            connecting.recordLag(of: connection)
            return
        }
        if connection.pace.isLagging { connecting.endLag(of: connection) }
        if connection.state == .closing {
            disconnecting.end(connection)
        } else if let session = connection.session, session.queue.waiting > 0 {
            dispatcher.pump(session, on: connection)
        }
    }
}
