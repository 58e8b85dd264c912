/// A feature that does something at the end of turns: a type that owns what the feature knows, and says here when it
/// wants a turn.
///
/// The shard has no list of its own of what its features wait for: whoever adds one writes its conformance beside it,
/// and puts it where it belongs in `visitBeforeFlush` or `visitBehindFlush`.
protocol TurnFeature {
    /// Whether the end of this turn has something to do for it. Asked in every turn: O(1).
    static func hasWork(_ shard: BrokerShard) -> Bool

    /// Does what there is to do, in a bounded number of steps. Called when `hasWork` says so.
    static func step(_ shard: BrokerShard)

    /// When it needs a turn, if nothing else causes one: milliseconds on the shard's clock, `shard.now` for at once,
    /// nil for never. Without another answer at once as long as something is left to do.
    static func deadline(_ shard: BrokerShard) -> UInt64?
}

extension TurnFeature {
    @inline(__always)
    static func deadline(_ shard: BrokerShard) -> UInt64? { hasWork(shard) ? shard.now : nil }
}

/// Gets the features of a list, one after the other.
protocol TurnFeatureVisitor {
    mutating func visit<Feature: TurnFeature>(_ feature: Feature.Type)
}

extension BrokerShard {
    /// The features that have their turn before connections' output is written, in this order. What they send goes out
    /// with it, and what they change is in the batch that `Durability` gives to the store.
    @inline(__always)
    func visitBeforeFlush(_ visitor: inout some TurnFeatureVisitor) {
        visitor.visit(OpenPackets.self)
        visitor.visit(ClusterArrivals.self)
        visitor.visit(EndedSessions.self)
        visitor.visit(TurnAllowances.self)
        visitor.visit(PresenceEvents.self)
        visitor.visit(AwaitedRoom.self)
        visitor.visit(UnclaimedParts.self)
        visitor.visit(RetainedScans.self)
        visitor.visit(UnsettledRows.self)
        visitor.visit(CommandScheduler.self)
        visitor.visit(Banning.self)
        visitor.visit(RightsUpdates.self)
        visitor.visit(ShardLog.self)
        visitor.visit(SessionMoves.self)
        visitor.visit(NewlyLastingGroups.self)
        visitor.visit(Durability.self)
        // They wait for what the store has just done.
        visitor.visit(WaitingCommands.self)
    }

    /// The features that have their turn when connections' output is written: no message waits for them.
    @inline(__always)
    func visitBehindFlush(_ visitor: inout some TurnFeatureVisitor) {
        visitor.visit(QueryScheduler.self)
        visitor.visit(LocalReplies.self)
        visitor.visit(LeavingConnections.self)
        visitor.visit(ReadyScans.self)
        visitor.visit(Tracer.self)
        // Last: what is told to the other nodes is what all of them have published.
        visitor.visit(ClusterPort.self)
    }

    @inline(__always)
    func stepBeforeFlush() {
        var steps = TurnSteps(shard: self)
        visitBeforeFlush(&steps)
    }

    @inline(__always)
    func stepBehindFlush() {
        var steps = TurnSteps(shard: self)
        visitBehindFlush(&steps)
    }

    /// When the first of the features needs a turn, not before `now`; nil if none does.
    var featureDeadline: UInt64? {
        var deadlines = TurnDeadlines(shard: self)
        visitBeforeFlush(&deadlines)
        visitBehindFlush(&deadlines)
        return deadlines.first
    }
}

/// Lets each feature do what it has to do.
private struct TurnSteps: TurnFeatureVisitor {
    let shard: BrokerShard

    @inline(__always)
    mutating func visit<Feature: TurnFeature>(_ feature: Feature.Type) {
        if Feature.hasWork(shard) { Feature.step(shard) }
    }
}

/// Finds the first deadline.
private struct TurnDeadlines: TurnFeatureVisitor {
    let shard: BrokerShard
    var first: UInt64?

    @inline(__always)
    mutating func visit<Feature: TurnFeature>(_ feature: Feature.Type) {
        guard first != shard.now, let deadline = Feature.deadline(shard) else { return }
        first = min(first ?? deadline, deadline)
    }
}

/// The steps that a turn has for long packets and for the ends of sessions: those that come in the next turn have all
/// of them.
enum TurnAllowances: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { true }

    static func step(_ shard: BrokerShard) {
        shard.connections.openPackets.stepsLeft = Limits.packetStepsPerTurn
        shard.sessions.ended.stepsLeft = Limits.endedStepsPerTurn
    }

    static func deadline(_ shard: BrokerShard) -> UInt64? { nil }
}
