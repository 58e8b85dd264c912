import BrokerModel
import MQTTCodec

/// What a shard holds for its clients and counts as it comes and goes, in bytes. What its structures know of themselves
/// is not in it.
struct MemoryTally {
    /// Packets that have come in part, CONNECT packets that are not answered, and the topics of clients' aliases.
    var inbound = 0
    /// Of these, what connections hold that are not logged in.
    var ofNewcomers = 0
    /// Sessions and their queues, without the messages in them.
    var sessions = 0
    /// What the other shards hold, all of it, as the shell has told last.
    var elsewhere = 0
    /// What the shell remembers for administrators, as it was last told.
    var remembered = 0
}

/// What the shard holds in memory for its clients, and what it refuses when that is too much: whatever adds to it. What
/// makes it less goes on: taking and acknowledging messages, unsubscribing, removing retained messages, coming back to
/// a session, ending it.
struct MemoryBound {
    let shard: BrokerShard

    /// The bytes of memory that it holds of clients that are gone or kept out, and of what the shell remembers of them.
    /// O(1).
    var rememberedBytes: Int {
        shard.inspection.closedConnections.heldBytes + (shard.index == 0 ? shard.bans.heldBytes : 0)
            + shard.policy.memory.remembered
    }

    /// Whether `memory_limit` is used up.
    @inline(__always)
    var isMemoryFull: Bool { shard.settings.keptBytesMax > 0 && isLimitUsedUp }

    @inline(never)
    private var isLimitUsedUp: Bool { shard.limitedBytes + shard.policy.memory.elsewhere > shard.settings.keptBytesMax }

    /// How many bytes may stand in a connection's output: little while memory is short.
    @inline(__always)
    var outputBytesMax: Int { shard.settings.keptBytesMax > 0 ? scarceOutputBytesMax : shard.settings.outputBytesMax }

    private var scarceOutputBytesMax: Int {
        isMemoryFull ? min(shard.settings.outputBytesMax, Limits.outputBytesForQueueMax) : shard.settings.outputBytesMax
    }

    /// Counts anew what a connection holds of packets that are not complete or not answered, and sees to it that it is
    /// not too much.
    func recount(_ connection: Connection) {
        let held = connection.inbound.capacity + (connection.extras?.heldBytes ?? 0)
        let ofNewcomer = connection.isNewcomer ? held : 0
        let isMore = held > connection.memory.bytes
        shard.policy.memory.inbound += held - connection.memory.bytes
        shard.policy.memory.ofNewcomers += ofNewcomer - connection.newcomerBytes
        (connection.memory.bytes, connection.isCountedAsNewcomer) = (held, connection.isNewcomer)
        connection.memory.capacity = UInt32(truncatingIfNeeded: connection.inbound.capacity)
        guard isMore else { return }
        if connection.state == .connected, connection.inbound.capacity > Limits.cutPacketBytesWhenFullMax, isMemoryFull {
            shard.disconnecting.refuse(
                connection, .quotaExceeded, because: "the broker's memory is almost full, and the packet is large.")
        } else if shard.settings.connectingBytesMax > 0,
            shard.policy.memory.ofNewcomers > shard.settings.connectingBytesMax / shard.shardCount
        {
            endLargestNewcomers()
        }
    }

    /// Ends the connections that hold the most and are not logged in, until half of what all may hold is left. A client
    /// that logs in holds little: beside any number of others that hold more it gets in.
    private func endLargestNewcomers() {
        var newcomers = shard.connections.all.filter { $0.newcomerBytes > 0 }
        newcomers.sort { ($0.newcomerBytes, $1.lastReceivedAt) > ($1.newcomerBytes, $0.lastReceivedAt) }
        for connection in newcomers where shard.policy.memory.ofNewcomers > shard.settings.connectingBytesMax / shard.shardCount / 2
        {
            shard.disconnecting.refuse(connection, .quotaExceeded, because: "connections that are not logged in hold too much.")
        }
    }

    /// Counts anew what a session takes, if its queue has grown or shrunk.
    @inline(__always)
    func recountQueue(of session: Session) {
        if session.queue.capacity != Int(session.memory.capacity) { recount(session) }
    }

    /// Counts anew what a session takes.
    func recount(_ session: Session) {
        let held = session.heldBytes
        shard.policy.memory.sessions += held - session.memory.bytes
        session.memory.bytes = held
        session.memory.capacity = UInt32(truncatingIfNeeded: session.queue.capacity)
    }

    /// A session has ended.
    func uncount(_ session: Session) {
        shard.policy.memory.sessions -= session.memory.bytes
        session.memory.bytes = 0
    }

    /// A connection's own memory, without buffers.
    fileprivate static let connectionBytes = 512
}

extension ConnectPacket {
    /// The bytes of memory that its parts of any length take.
    var heldBytes: Int {
        clientIdentifier.bytes.count + (userName?.bytes.count ?? 0) + (password?.count ?? 0)
            + (properties.authenticationData?.count ?? 0) + (will?.heldBytes ?? 0)
    }
}

extension Will {
    /// The bytes of memory that it takes.
    var heldBytes: Int {
        let content =
            (properties.contentType?.bytes.count ?? 0) + (properties.responseTopic?.bytes.count ?? 0)
            + (properties.correlationData?.count ?? 0)
        return properties.userProperties.reduce(topic.bytes.count + payload.count + content) {
            $0 + 112 + $1.name.bytes.count + $1.value.bytes.count
        }
    }
}

extension Session {
    /// The bytes of memory that it takes, without the messages of its queue and its subscriptions.
    var heldBytes: Int {
        Self.ownBytes + (extras == nil ? 0 : Self.extrasBytes + (will?.heldBytes ?? 0))
            + clientIdentifier.bytes.count + (owner.userName?.bytes.count ?? 0)
            + groups.count * Self.membershipBytes
            + queue.capacity * MemoryLayout<QueueEntry>.stride + receivedIdentifiers.capacity * PacketIdentifierSet.slotBytes
    }

    private static let ownBytes = 416
    private static let extrasBytes = 384
    private static let membershipBytes = 256
}

extension Limits {
    /// Bytes of a packet that has come in part while memory is short; beyond them the connection ends.
    static let cutPacketBytesWhenFullMax = 64 * 1024
}

extension BrokerShard {
    /// The bytes of memory that the shard holds for its clients, within some tens of percent; none of them without
    /// clients. O(1).
    public var heldBytes: Int {
        policy.memory.inbound + policy.memory.sessions + connections.count * MemoryBound.connectionBytes + ledger.heldBytes
            + tree.heldBytes
            + retained.heldBytes + arena.pinnedBytes + pool.takenBytes
    }

    /// The bytes that count for `memory_limit`. O(1).
    public var limitedBytes: Int { heldBytes + memoryBound.rememberedBytes }

    /// What the shell remembers for administrators, in bytes: told to one shard.
    public func recordRemembered(_ bytes: Int) { policy.memory.remembered = bytes }

    /// Tells what the other shards hold, before a turn: `memory_limit` is one bound for all. What they take in the same
    /// turn is known in the next one.
    public func recordHeld(elsewhere byteCount: Int) { policy.memory.elsewhere = byteCount }

    /// Whether `limitedBytes` is asked for after each turn, and `recordHeld` before it.
    public var boundsMemory: Bool { settings.keptBytesMax > 0 }
}
