public import BrokerModel
import MQTTCodec

/// Carrying out what an administrator wants.
struct ShardCommands {
    let shard: BrokerShard

    /// Goes on with the commands, in a bounded number of steps for all of them together.
    func stepCommands() {
        shard.inspection.commands.stepsLeft = Limits.commandStepsPerTurn
        while shard.inspection.commands.stepsLeft > 0, !shard.inspection.commands.open.isEmpty {
            if !goOn(shard.inspection.commands.takeFirst()) { return }
        }
    }

    /// Looks whether waiting commands can go on, with the steps that the turn has left.
    func stepWaitingCommands() {
        shard.inspection.commands.hasNews = false
        for command in shard.inspection.commands.takeWaiting() { _ = goOn(command) }
    }

    /// How far a command has come.
    enum CommandProgress {
        case ended(ShardCommandOutcome.Result)
        /// It needs another turn.
        case open
        /// It needs a turn after the store has done something.
        case waiting

        /// - Parameter result: nil if it needs another turn.
        init(_ result: ShardCommandOutcome.Result?) { self = result.map { .ended($0) } ?? .open }
    }

    /// - Returns: false if the command needs another turn.
    private func goOn(_ command: CommandScheduler.OpenCommand) -> Bool {
        var command = command
        var steps = shard.inspection.commands.stepsLeft
        let progress = carryOut(&command, &steps)
        shard.inspection.commands.stepCount += shard.inspection.commands.stepsLeft - steps
        shard.inspection.commands.stepsLeft = steps
        switch progress {
        case .ended(let result): shard.effects.append(.outcome(ShardCommandOutcome(token: command.command.token, result: result)))
        case .waiting: shard.inspection.commands.setAside(command)
        case .open:
            shard.inspection.commands.putBack(command)
            return false
        }
        return true
    }

    private func carryOut(_ command: inout CommandScheduler.OpenCommand, _ steps: inout Int) -> CommandProgress {
        steps -= 1
        switch command.command.action {
        case .kick(let client, let publishesWill):
            return .ended(kick(client, publishesWill: publishesWill) ? .done : .notFound)
        case .endSession(let client, let publishesWill):
            return .ended(endSession(client, publishesWill: publishesWill) ? .done : .notFound)
        case .purgeQueue(let client, let filter): return shard.purging.purge(client, filter, &command, &steps)
        case .deleteRetained(let filter, let isRehearsal):
            return CommandProgress(deleteRetained(filter, isRehearsal, &command, &steps))
        case .publish(let packet): return .ended(publishOwn(packet))
        case .meterTopic(let filter): return .ended(shard.topicMetrics.changeObserved { $0.addMeter(filter) } ? .done : .tooMany)
        case .unmeterTopic(let filter):
            return .ended(shard.topicMetrics.changeObserved { $0.removeMeter(filter) } ? .done : .notFound)
        case .beginTrace(let wish):
            if command.count == 0 { shard.tracing.beginTrace(wish) }
            command.count = 1
            guard case .address = wish.subject else { return .ended(.done) }
            return shard.tracing.markConnections(from: &command.position, &steps) ? .ended(.done) : .open
        case .endTrace(let number): return .ended(shard.tracing.endTrace(number) ? .done : .notFound)
        }
    }

    private func kick(_ client: EncodedString, publishesWill: Bool) -> Bool {
        guard let session = shard.sessions.find(client), let connection = session.connection?.object else { return false }
        if !publishesWill { session.will = nil }
        shard.disconnecting.refuse(connection, .administrativeAction, because: "the operator has ended the connection.")
        return true
    }

    func endSession(_ client: EncodedString, publishesWill: Bool) -> Bool {
        guard let session = shard.sessions.find(client) else { return false }
        if session.connection == nil {
            shard.lifecycle.endSession(session, publishesWill: publishesWill)
            return true
        }
        // It ends with its connection.
        session.expiryIntervalSeconds = 0
        return kick(client, publishesWill: publishesWill)
    }

    private func deleteRetained(
        _ filter: TopicFilter, _ isRehearsal: Bool, _ command: inout CommandScheduler.OpenCommand, _ steps: inout Int
    ) -> ShardCommandOutcome.Result? {
        guard let pattern = shard.retained.pattern(of: filter.matchingBytes) else { return .removed(command.count) }
        let end = shard.retained.nodes.end
        while command.position < end, steps > 0 {
            steps -= 1
            let index = UInt32(command.position)
            command.position += 1
            guard let message = shard.retained.message(of: index), !message.hasExpired(at: shard.now),
                shard.retained.matches(index, pattern)
            else {
                continue
            }
            command.count += 1
            guard !isRehearsal else { continue }
            shard.sessionRows.forgetRetained(shard.retained.storeNumber(message.topic))
            _ = shard.retained.remove(message.topic)
            if let cluster = shard.cluster { shard.clusterMessaging.recordDeletion(of: message, cluster) }
        }
        return command.position < end ? nil : .removed(command.count)
    }

    private func publishOwn(_ packet: PublishPacket) -> ShardCommandOutcome.Result {
        let properties = ForwardedProperties.encode(packet.properties)
        return packet.topic.bytes.withUnsafeBytes { topic in
            guard !topic.isEmpty, TopicName(packet.topic.bytes) != nil, !shard.publishing.isTooLong(topic),
                !shard.publishing.isTooDeep(topic)
            else {
                return .published(.topicNameInvalid, receivers: nil)
            }
            guard !packet.retain || shard.settings.retainAvailable else { return .published(.retainNotSupported, receivers: nil) }
            guard shard.settings.payloadBytesMax == 0 || packet.payload.count <= shard.settings.payloadBytesMax,
                topic.count + properties.count + packet.payload.count <= shard.settings.packetBytesMax - Limits.packetHeadBytesMax
            else { return .published(.packetTooLarge, receivers: nil) }
            guard !shard.memoryBound.isMemoryFull else { return .published(.quotaExceeded, receivers: nil) }
            let expiresAt = packet.properties.messageExpiryInterval.map { shard.now + UInt64($0) * 1000 } ?? Message.neverExpires
            let (receivers, isHereOnly) = shard.dispatcher.matches(of: topic).with { matches in
                (matches.routeCount + matches.groups.count, matches.shards & ~(1 << UInt64(shard.index)) == 0)
            }
            properties.withUnsafeBytes { properties in
                packet.payload.withUnsafeBytes { payload in
                    var publication = Publication(
                        topic: topic, properties: properties, payload: payload, qos: packet.qos, retain: packet.retain,
                        expiresAt: expiresAt, publisher: 0)
                    shard.publishing.publish(&publication)
                }
            }
            let hasReceivers = receivers > 0 || !isHereOnly
            return .published(hasReceivers ? .success : .noMatchingSubscribers, receivers: isHereOnly ? receivers : nil)
        }
    }
}

/// The commands that a shard has been given and has not carried out, oldest first.
///
///     add ─► open ─► done
///             ▲│
///             │▼ the store has to do something first
///            waiting ─► done
///
/// Commands in `open` are carried out one after the other, a part in each turn; commands in `waiting` are looked at in
/// each turn, and others go on meanwhile.
///
/// Invariant: of administrators' commands, at most `Limits.commandsMax` wait. Owned by a shard, used on its thread
/// only.
struct CommandScheduler {
    /// A command, and how far it is carried out.
    struct OpenCommand {
        let command: ShardCommand
        /// A message with a higher number has come after it.
        let lastNumber: UInt64
        /// Where it goes on, in the table or queue of what it is about.
        var position = 0
        /// How many are given up.
        var count = 0
        /// The queue that is purged; nil for another command, and before it has begun.
        var purge: QueuePurge?

        init(_ command: ShardCommand, after lastNumber: UInt64) { (self.command, self.lastNumber) = (command, lastNumber) }
    }

    private(set) var open: [OpenCommand] = []
    private(set) var waiting: [OpenCommand] = []
    /// How many slots may be looked at in this turn still.
    var stepsLeft = 0
    /// How many were looked at so far: tests see by it how much a turn does.
    var stepCount = 0
    /// Whether one of those may wait for what has happened since it was looked at.
    var hasNews = false

    var isEmpty: Bool { open.isEmpty && waiting.isEmpty }
    /// Whether a turn would do anything.
    var hasWork: Bool { !open.isEmpty || hasNews && !waiting.isEmpty }
    private var administratorsCount: Int { (open + waiting).count { $0.command.token != 0 } }

    /// Takes a command; false if too many wait.
    ///
    /// - Parameter lastNumber: the highest one that a message has by now.
    mutating func add(_ command: ShardCommand, after lastNumber: UInt64) -> Bool {
        guard administratorsCount < Limits.commandsMax else { return false }
        open.append(OpenCommand(command, after: lastNumber))
        return true
    }

    /// Takes one of the loop's own: there are a few for each bridge, and none may be lost. Nobody waits for its
    /// outcome, so it has no token.
    mutating func addOwn(_ action: ShardCommand.Action, after lastNumber: UInt64) {
        open.append(OpenCommand(ShardCommand(action), after: lastNumber))
    }

    /// Takes out the one whose turn it is.
    mutating func takeFirst() -> OpenCommand { open.removeFirst() }

    /// Puts back the one that needs another turn, before the others.
    mutating func putBack(_ command: OpenCommand) { open.insert(command, at: 0) }

    /// Puts one aside that waits for the store.
    mutating func setAside(_ command: OpenCommand) { waiting.append(command) }

    /// Takes out all that were put aside.
    mutating func takeWaiting() -> [OpenCommand] {
        defer { waiting = [] }
        return waiting
    }

    /// The purge of a session's queue that waits for rows, to be changed in place; nil if there is none.
    func indexOfReader(_ sessionKey: UInt64) -> Int? {
        waiting.firstIndex { $0.purge.map { $0.sessionKey == sessionKey && $0.isReading } ?? false }
    }

    /// The waiting command at an index has come further.
    mutating func change(waiting index: Int, to command: OpenCommand) { waiting[index] = command }

    /// Traps where the invariant does not hold.
    func checkInvariants() { precondition(administratorsCount <= Limits.commandsMax, "too many commands wait") }
}

extension CommandScheduler: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.inspection.commands.isEmpty }
    static func step(_ shard: BrokerShard) { shard.commands.stepCommands() }
    static func deadline(_ shard: BrokerShard) -> UInt64? { shard.inspection.commands.hasWork ? shard.now : nil }
}

/// The commands that the store has to do something for first.
enum WaitingCommands: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.inspection.commands.waiting.isEmpty }
    static func step(_ shard: BrokerShard) { shard.commands.stepWaitingCommands() }
    /// The scheduler's own says it.
    static func deadline(_ shard: BrokerShard) -> UInt64? { nil }
}

extension Limits {
    /// Commands that wait for their turn; beyond it, more are not taken. Bytes: 65,535 each at most, those of a name.
    static let commandsMax = 64

    /// Messages that all commands together look at in a turn; the rest is looked at in the next.
    static let commandStepsPerTurn = 4096

    /// Bytes of a PUBLISH packet besides topic, properties and content, at most.
    static let packetHeadBytesMax = 16
}

extension BrokerShard {
    /// Gives a command; `Effect.outcome` follows. From the thread of the shard's loop.
    ///
    /// - Returns: false if too many commands wait already.
    public func perform(_ command: ShardCommand) -> Bool { inspection.commands.add(command, after: journal?.lastNumber ?? .max) }

    /// Gives an order of the loop's own, which is taken however many others wait.
    public func performOwn(_ action: ShardCommand.Action) { inspection.commands.addOwn(action, after: journal?.lastNumber ?? .max) }
}
