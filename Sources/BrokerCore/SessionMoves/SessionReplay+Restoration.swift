import BrokerModel
import MQTTCodec

/// Taking a session up without the node that had it: see `SessionRestoration`.
extension SessionReplay {
    /// All that the cluster has stored of the session is here.
    ///
    /// - Parameters:
    ///   - session: whose messages are lost.
    ///   - places: before which it has nothing left to do.
    ///   - saved: the rest of what was stored of it.
    ///   - moves: the shard's.
    func beginRestoration(
        of session: Session, from places: LogPositions, _ saved: SessionRestoration.Saved, _ moves: SessionMoves
    ) {
        guard let read = shard.clusterLog?.places else { return }
        session.logFloor = places.fitted(to: read)
        let replay = LogReplay(session, through: read)
        replay.restoration = SessionRestoration(
            saved,
            partition: session.clientIdentifier.bytes.withUnsafeBytes {
                BrokerShard.logPartition(of: $0, among: read.places.count)
            })
        // What comes meanwhile is read again.
        replay.isOverflowing = true
        moves.change(phaseOf: session, to: .replaying(replay))
    }

    /// This node has read all that the lost one can have written.
    func markIsRead(_ replay: LogReplay, _ moves: SessionMoves) {
        guard replay.restoration?.phase == .awaitingMark, let places = shard.clusterLog?.places else { return }
        replay.through = places
        // What was stored of it may be of records that the servers have lost since.
        for (partition, place) in places.places.enumerated() {
            if let place { replay.session.logFloor?.cut(partition, at: place.sequence) }
        }
        replay.restoration?.phase = .steps
        // Else it is asked for when the session's row is durable.
        if moves[replay.session.clientIdentifier].sessionImport == nil { ask(for: replay) }
    }

    /// Whether a session is given a message of the log now.
    func takes(_ publication: inout Publication, _ dispatch: GroupDispatch?, _ replay: LogReplay) -> Bool {
        guard let restoration = replay.restoration else { return true }
        switch restoration.phase {
        case .awaitingMark: return false
        case .steps:
            if let before = dispatch?.before, before != .none { shard.cluster?.moves?.holders.recordPassedOn(before) }
            return false
        case .sent:
            find(&publication, dispatch, replay) { !$0.isDispatched }
            return false
        case .rest: return !restoration.flows.known.contains(publication.name)
        }
    }

    /// Notes a message that the session's client was sent.
    private func find(
        _ publication: inout Publication, _ dispatch: GroupDispatch?, _ replay: LogReplay, where isWanted: (MessageName) -> Bool
    ) {
        guard let unfinished = replay.restoration?.flows.unfinished else { return }
        let name = publication.name
        for flow in unfinished where flow.name.asPublished == name && isWanted(flow.name) {
            publication.name = flow.name
            replay.restoration?.found[flow.name] = found(&publication, dispatch, for: replay.session)
        }
        publication.name = name
    }

    /// Gives a session what share groups have dispatched to it, which may stand before what it lacks; or notes that, if
    /// its client was sent it.
    func giveDispatched(_ publication: inout Publication, _ dispatch: GroupDispatch?, _ replay: LogReplay) {
        if replay.restoration?.phase == .sent { return find(&publication, dispatch, replay) { $0.isDispatched } }
        guard replay.restoration?.phase == .rest, let dispatched = replay.restoration?.flows.takeDispatched(publication.name) else {
            return
        }
        let (path, name, mustArrive) = (publication.path, publication.name, publication.mustArrive)
        for dispatched in dispatched {
            guard let member = member(of: replay.session, named: dispatched, dispatch) else { continue }
            (publication.path, publication.name, publication.mustArrive) = (.passing, dispatched, true)
            shard.shareGroups.sendToMember(&publication, member)
        }
        (publication.path, publication.name, publication.mustArrive) = (path, name, mustArrive)
    }

    /// The session as a member of the group that has dispatched a message to it; nil if it has left that.
    private func member(of session: Session, named name: MessageName, _ dispatch: GroupDispatch?) -> GroupMember? {
        guard let share = name.share, let logged = dispatch?.logged, logged.indices.contains(share),
            let group = shard.groups.find(clusterHash: logged[share].group)
        else { return nil }
        return shard.groups[group]?.member(session.key)
    }

    private func found(_ publication: inout Publication, _ dispatch: GroupDispatch?, for session: Session)
        -> SessionRestoration.Found
    {
        let message = publication.makeMessage(shard.ledger)
        guard !publication.name.isDispatched else {
            let member = member(of: session, named: publication.name, dispatch)
            let identifier = member?.terms.identifier ?? 0
            return SessionRestoration.Found(
                message: message, retain: publication.retain && member?.terms.retainAsPublished == true,
                identifiers: identifier == 0 ? nil : SubscriptionIdentifiers([identifier]), group: member?.serial ?? 0)
        }
        let reference = Reference(session)
        var (retain, identifiers): (Bool, SubscriptionIdentifiers?) = (false, nil)
        let (wasRetained, isOwn) = (publication.retain, publication.publisher == session.publisherKey)
        shard.dispatcher.matches(of: publication.topic).with { matches in
            for position in 0..<matches.routeCount where matches.routes[position].session == reference {
                let route = matches.routes[position]
                let terms = route.detail.flatMap { $0.with { isOwn ? $0.own : $0.all } }
                retain = wasRetained && (terms?.retainAsPublished ?? route.retainAsPublished)
                identifiers = terms?.encodedIdentifiers
            }
        }
        return SessionRestoration.Found(message: message, retain: retain, identifiers: identifiers, group: 0)
    }

    /// Goes on with a restoration when the records that it has asked the log for are read.
    func readForRestoration(_ replay: LogReplay) {
        replay.isAsked = false
        switch replay.restoration?.phase {
        case .steps:
            settleFlows(replay)
            if replay.restoration?.flows.unfinished.isEmpty == false { return ask(for: replay) }
        case .sent: break
        case .awaitingMark, .rest, nil: return
        }
        restoreFlows(replay)
        replay.restoration?.phase = .rest
        ask(for: replay)
    }

    private func settleFlows(_ replay: LogReplay) {
        guard let moves = shard.cluster?.moves else { return }
        replay.restoration?.flows.settle(moves.holders.isOthers(than: replay.session.clientIdentifier))
        replay.restoration?.phase = .sent
        for subscription in replay.restoration?.takeSubscriptions() ?? [] { restore(subscription, of: replay.session) }
        shard.memoryBound.recount(replay.session)
        if var done = replay.restoration?.progress?.positions(in: replay.through) {
            // What it says may be of records that the servers have lost since.
            for (partition, place) in replay.through.places.enumerated() {
                if let place { done.cut(partition, at: place.sequence) }
            }
            replay.session.logFloor = replay.session.logFloor?.later(done)
        }
        if let floor = replay.session.logFloor { shard.saves.recordDone(floor, of: replay.session, moves) }
        let isNeeded = moves.underWay.values.contains { $0.replay?.restoration?.lacksSteps ?? false }
        if !isNeeded { moves.holders = DispatchHolders() }
    }

    /// The client has subscribed, or ended a subscription, and the record of its session does not say so yet.
    private func restore(_ unsaved: SessionRestoration.Unsaved, of session: Session) {
        guard let filter = TopicFilter(unsaved.filter), filter.shareName == nil else { return }
        // Who subscribes again is owed still what it was before.
        let isOwed = !unsaved.isNew && session.owed?.stage(of: unsaved.filter) != nil
        _ = shard.subscribing.unsubscribe(session, filter)
        guard let subscription = unsaved.subscription, let terms = SubscriptionTerms(exactly: subscription.terms) else { return }
        // First, for the subscription's row has it.
        if isOwed || subscription.wantsRetained { shard.retainedMessages.restoreOwed(unsaved.filter, .asked, of: session) }
        shard.subscribing.resubscribe(session, filter, terms, number: 0)
    }

    /// Puts what the client was sent in front of its queue.
    private func restoreFlows(_ replay: LogReplay) {
        guard var restoration = replay.restoration else { return }
        let session = replay.session
        shard.storing.beginPacket()
        // What its share groups have dispatched to it meanwhile stands behind that.
        let late = session.queue.takeShared()
        for flow in restoration.flows.unfinished where restoration.found[flow.name] == nil { restoration.flows.forget(flow) }
        for packetIdentifier in restoration.flows.released {
            Publication.withReleased { restoreFlow(&$0, packetIdentifier, of: session) }
        }
        for flow in restoration.flows.unfinished {
            guard let found = restoration.found[flow.name] else { continue }
            var publication = Publication(found.message)
            publication.name = flow.name
            restoreFlow(&publication, flow.packetIdentifier, found, of: session)
        }
        restoration.found = [:]
        replay.restoration = restoration
        for entry in late { shard.shareGroups.redeliver(entry, to: session) }
        shard.memoryBound.recountQueue(of: session)
    }

    /// Adds a message that the client was sent; without `found` only PUBREL and PUBCOMP of it are left.
    private func restoreFlow(
        _ publication: inout Publication, _ packetIdentifier: UInt16, _ found: SessionRestoration.Found? = nil, of session: Session
    ) {
        let entry = shard.sessionRows.makeEntry(
            &publication, for: session, qos: .exactlyOnce, retain: found?.retain ?? false, identifiers: found?.identifiers,
            group: found?.group ?? 0)
        shard.dispatcher.finish(&publication)
        shard.arrivals.restore(entry, packetIdentifier, isReleased: found == nil, of: session)
    }
}

/// How far a session has come that is restored from what the cluster has stored of it, because the node that kept it is
/// lost: what its client was sent stands in the log, which is read once for that before it is read for what the session
/// lacks.
///
///     awaitingMark ──► steps ──► sent ──► rest
///
/// What share groups have dispatched to it comes among the rest, as the log has it, which may be before what the
/// session lacks of its own subscriptions. Until the end its row says that it is not whole: after a crash it is taken
/// up anew.
struct SessionRestoration {
    enum Phase {
        /// The lost node may have written more than this one has read.
        case awaitingMark
        /// What the client was sent, and has acknowledged.
        case steps
        /// The messages that it was sent and has not acknowledged: they come first, as they did.
        case sent
        /// All others.
        case rest
    }

    /// A message that is sent again, as the session's subscriptions want it now.
    struct Found {
        let message: Message
        let retain: Bool
        let identifiers: SubscriptionIdentifiers?
        /// The serial number of the share group that has dispatched to it; 0 for none.
        let group: UInt32
    }

    /// What was stored of the session beside what it is.
    struct Saved {
        /// By which claim that was.
        var epoch: UInt64
        /// Up to which step its subscriptions are in it.
        var subscriptionsAt = FlowStep.Place.start
        /// In the partition of its steps: behind which record others may stand; nil for none before what it lacks.
        var subscriptionsAfter: UInt64?
    }

    /// What has become of the subscription of a filter last.
    struct Unsaved {
        let filter: [UInt8]
        let place: FlowStep.Place
        /// Nil if it has ended.
        var subscription: SessionSubscription?
        /// Whether one has ended in between: what was owed by that one is owed no more.
        var isNew = false
    }

    private let saved: Saved
    /// In which its steps stand.
    private let partition: Int
    /// What its client has subscribed to since, and what it has ended, by filter.
    private var subscriptions: [[UInt8]: Unsaved] = [:]
    /// The newest that the log says of how far it has come by the same claim. What earlier ones say may be of another
    /// session of the client.
    private(set) var progress: SessionProgress?
    var phase = Phase.awaitingMark
    /// Whether it is not known yet what its client was sent.
    var lacksSteps: Bool { phase == .awaitingMark || phase == .steps }
    var flows = SentFlows()
    var found: [MessageName: Found] = [:]

    init(_ saved: Saved, partition: Int) { (self.saved, self.partition) = (saved, partition) }

    /// The log says something of the session as a whole. Its steps stand in one partition, in their order.
    mutating func record(_ step: FlowStep) {
        guard phase == .steps else { return }
        switch step.kind {
        case .progress(let said): if step.place.epoch == saved.epoch { progress = said }
        case .subscribed(let subscription): record(subscription, subscription.filter, at: step.place)
        case .unsubscribed(let filter): record(nil, filter, at: step.place)
        case .received, .released, .sent, .acknowledged, .dispatched, .mark: return
        }
    }

    private mutating func record(_ subscription: SessionSubscription?, _ filter: [UInt8], at place: FlowStep.Place) {
        let before = subscriptions[filter]
        guard place > max(saved.subscriptionsAt, before?.place ?? .start) else { return }
        var unsaved = Unsaved(filter: filter, place: place, subscription: subscription)
        unsaved.isNew = before.map { $0.isNew || $0.subscription == nil } ?? false
        if before?.subscription?.wantsRetained == true { unsaved.subscription?.wantsRetained = true }
        subscriptions[filter] = unsaved
    }

    /// What has become of its subscriptions since they were stored, in order.
    mutating func takeSubscriptions() -> [Unsaved] {
        defer { subscriptions = [:] }
        return subscriptions.values.sorted { $0.place < $1.place }
    }

    /// The spans of the log that are to be read now.
    func spans(after floor: LogPositions, through: LogPositions) -> [LogSpan] {
        switch phase {
        case .awaitingMark: []
        case .steps: stepSpans(after: floor, through: through)
        case .rest: through.places.indices.compactMap { rest(of: $0, after: floor, through: through) }
        case .sent: through.places.indices.compactMap { sent(of: $0, after: floor, through: through) }
        }
    }

    private func stepSpans(after floor: LogPositions, through: LogPositions) -> [LogSpan] {
        var floor = floor
        if let after = saved.subscriptionsAfter { floor.cut(partition, at: after) }
        return floor.spans(through: through)
    }

    /// The span that is lacking of a partition, from the first message on that was dispatched; nil for nothing.
    private func rest(of partition: Int, after floor: LogPositions, through: LogPositions) -> LogSpan? {
        guard let last = through.places[partition]?.sequence else { return nil }
        let lacking = floor.spans(through: through).first { $0.partition == partition }
        let dispatched = flows.dispatched.keys.filter { $0.partition == partition }.map { max(1, $0.sequence(near: last)) - 1 }
        let after = min(lacking?.after ?? last, dispatched.min() ?? last)
        return after < last ? LogSpan(partition: partition, after: after, through: last) : nil
    }

    /// The part of a partition in which messages stand that were sent; nil for none. What share groups have dispatched
    /// stands anywhere in it, of all else what stands before what is lacking was done.
    private func sent(of partition: Int, after floor: LogPositions, through: LogPositions) -> LogSpan? {
        guard let end = through.places[partition]?.sequence else { return nil }
        let names = flows.unfinished.map(\.name).filter { $0.partition == partition }
        var numbers = names.filter(\.isDispatched).map { max(1, $0.sequence(near: end)) }
        if let lacking = floor.spans(through: through).first(where: { $0.partition == partition }) {
            numbers += names.filter { !$0.isDispatched }.map { $0.sequence(near: end) }.filter { $0 > lacking.after }
        }
        guard let first = numbers.min(), let last = numbers.max(), first <= end else { return nil }
        return LogSpan(partition: partition, after: first - 1, through: min(last, end))
    }
}
