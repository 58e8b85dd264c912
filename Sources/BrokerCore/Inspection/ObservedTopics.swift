import BrokerModel
import MQTTCodec

/// The topic filters whose messages are counted or traced, of all clients together.
///
/// The match cache asks once for each line, so that a topic that nobody wants to know of costs its messages one bit of
/// their matches. What happens to a message later, in a queue or on its way out of one, asks by topic: the last answer
/// is kept, since one message has many receivers. Invariant: at most `Limits.topicMetersMax` meters, with
/// `Limits.topicMeterBytesMax`, and `SharedLimits.tracesMax` traces. Belongs to a shard.
final class ObservedTopics {
    /// The meters and traces that want to know of a topic.
    struct Observers {
        /// Places of meters.
        fileprivate(set) var meters: [UInt32] = []
        /// The numbers of traces, a bit each.
        fileprivate(set) var traces: UInt8 = 0

        var isEmpty: Bool { meters.isEmpty && traces == 0 }
    }

    private var tree: SubscriptionTree
    private(set) var meters: [TopicMeterRow] = []
    private var traceCount = 0
    private var lastTopic: [UInt8]?
    private var lastObservers = Observers()
    /// Whether what is sent is being counted as part of what a route or a batch sends.
    var isCounting = false

    init(hashing: TopicHash) { tree = SubscriptionTree(hashing: hashing) }

    var isEmpty: Bool { meters.isEmpty && traceCount == 0 }

    /// Finds the observers of a topic. O(1) if it is the one that was asked for last, else a walk of a small tree.
    func observers(of topic: UnsafeRawBufferPointer) -> Observers {
        if let lastTopic, lastTopic.withUnsafeBytes({ MemoryComparison.equal($0, topic) }) { return lastObservers }
        var found = Observers()
        var records: [UInt32] = []
        tree.match(topic) { records.append($0) }
        for record in records {
            let number = tree.records[record].subscriber.index
            if number >= Self.firstTrace {
                found.traces |= 1 << UInt8(number - Self.firstTrace)
            } else {
                found.meters.append(number)
            }
        }
        lastTopic = topic.count > Limits.cachedTopicBytesMax ? nil : Array(topic)
        lastObservers = found
        return found
    }

    // MARK: Meters

    /// Counts the messages of a filter from now on; one that is counted goes on.
    ///
    /// - Returns: false if there are too many.
    func addMeter(_ filter: TopicFilter) -> Bool {
        guard !meters.contains(where: { $0.filter == filter }) else { return true }
        let bytes = meters.reduce(filter.bytes.count) { $0 + $1.filter.bytes.count }
        guard meters.count < Limits.topicMetersMax, bytes <= Limits.topicMeterBytesMax else { return false }
        insert(filter, UInt32(meters.count))
        meters.append(TopicMeterRow(filter))
        return true
    }

    /// - Returns: false if it was not counted.
    func removeMeter(_ filter: TopicFilter) -> Bool {
        guard let place = meters.firstIndex(where: { $0.filter == filter }) else { return false }
        remove(filter, UInt32(place))
        let last = meters.count - 1
        if place != last {
            // The last one takes its place.
            remove(meters[last].filter, UInt32(last))
            insert(meters[last].filter, UInt32(place))
        }
        meters.swapAt(place, last)
        meters.removeLast()
        return true
    }

    func count(_ places: [UInt32], _ change: (inout TopicMeterRow) -> Void) {
        for place in places { change(&meters[Int(place)]) }
    }

    // MARK: Traces

    func addTrace(_ number: Int, _ filter: TopicFilter) {
        insert(filter, Self.firstTrace + UInt32(number))
        traceCount += 1
    }

    func removeTrace(_ number: Int, _ filter: TopicFilter) {
        remove(filter, Self.firstTrace + UInt32(number))
        traceCount -= 1
    }

    private func insert(_ filter: TopicFilter, _ number: UInt32) {
        lastTopic = nil
        filter.matchingBytes.withUnsafeBytes {
            _ = tree.insert($0, subscriber: .session(number), terms: SubscriptionTerms(maximumQoS: .atMostOnce))
        }
    }

    private func remove(_ filter: TopicFilter, _ number: UInt32) {
        lastTopic = nil
        let record = filter.matchingBytes.withUnsafeBytes { tree.find($0, subscriber: .session(number)) }
        if record != SubscriptionRecord.none { tree.remove(record) }
    }

    /// Meters are below it.
    private static let firstTrace: UInt32 = 1 << 16
}

/// Counting and tracing the messages of chosen topics.
///
/// Messages that are sent at once are counted by how much the shard's own count of sent messages grows meanwhile;
/// messages that leave a queue later, or go another way, are counted as they are sent.
struct TopicMetrics {
    let shard: BrokerShard

    /// The topics that somebody wants to know of; nil for none.
    var observed: ObservedTopics? { shard.matchCache.observed }

    /// Changes which topics are observed: the matches that are known are old then.
    func changeObserved<Result>(_ change: (ObservedTopics) -> Result) -> Result {
        let topics = shard.matchCache.observed ?? ObservedTopics(hashing: shard.placement.hashing)
        defer {
            shard.matchCache.observed = topics.isEmpty ? nil : topics
            shard.tree.forgetMatches()
        }
        return change(topics)
    }

    /// Routes a message whose topic is observed.
    @inline(never)
    func routeObserved(_ publication: inout Publication, to matches: Matches, _ reach: Dispatcher.Reach, isRepeated: Bool) {
        countRouted(&publication, to: matches, reach) { publication, isTraced in
            if isTraced {
                publication.receiverCount = matches.routeCount
                // The long way tells of each receiver.
                shard.dispatcher.deliverToEach(&publication, of: matches)
            } else {
                shard.dispatcher.dispatch(&publication, to: matches, isRepeated: isRepeated)
            }
            shard.dispatcher.routeElsewhere(&publication, to: matches, reach)
        }
    }

    /// Tells of a message whose topic is observed, and counts what of it is sent while `route` routes it, which is told
    /// whether it is traced.
    func countRouted(
        _ publication: inout Publication, to matches: Matches, _ reach: Dispatcher.Reach,
        _ route: (inout Publication, _ isTraced: Bool) -> Void
    ) {
        guard let observed else { return }
        let observers = observed.observers(of: publication.topic)
        let isTraced = observers.traces != 0
        if isTraced, reach != .shard {
            shard.tracing.tracePublished(publication, to: observers.traces, isUnmatched: matches.isEmpty)
        }
        let (before, bytesBefore) = (shard.statistics.publishSent, shard.statistics.publishBytesSent)
        observed.isCounting = true
        route(&publication, isTraced)
        observed.isCounting = false
        let byteCount = UInt64(publication.payload.count)
        observed.count(observers.meters) {
            if reach != .shard {
                $0.received &+= 1
                $0.receivedBytes &+= byteCount
            }
            $0.sent &+= shard.statistics.publishSent &- before
            $0.sentBytes &+= shard.statistics.publishBytesSent &- bytesBefore
        }
    }

    /// Delivers the messages that have gathered, if their topic is observed.
    @inline(never)
    func sendObservedBatch(to matches: Matches) {
        guard let observed, !observed.isCounting else { return shard.dispatcher.sendBatch(to: matches) }
        let (before, bytesBefore) = (shard.statistics.publishSent, shard.statistics.publishBytesSent)
        observed.isCounting = true
        shard.dispatcher.sendBatch(to: matches)
        observed.isCounting = false
        observed.count(observed.observers(of: shard.dispatchState.batch[0].pointee.topic).meters) {
            $0.sent &+= shard.statistics.publishSent &- before
            $0.sentBytes &+= shard.statistics.publishBytesSent &- bytesBefore
        }
    }

    /// A message has been sent by the long way.
    @inline(never)
    func countObservedSent(
        _ frame: PublishFrame, _ publication: borrowing some PublishParts & ~Copyable, _ connection: Connection
    ) {
        guard let observed else { return }
        if shard.inspection.tracer != nil {
            shard.tracing.traceFate(
                .sent, publication, qos: frame.qos, retain: frame.retain, packetIdentifier: frame.packetIdentifier,
                for: connection.session)
        }
        guard !observed.isCounting else { return }
        let byteCount = UInt64(publication.payload.count)
        observed.count(observed.observers(of: publication.topic).meters) {
            $0.sent &+= 1
            $0.sentBytes &+= byteCount
        }
    }

    /// A message is being dropped.
    func countObservedDrop(_ reason: DropReason, _ message: DroppedMessage, _ client: EncodedString?) {
        if shard.inspection.tracer != nil { shard.tracing.traceDrop(reason, message, client) }
        guard let observed else { return }
        observed.count(observed.observers(of: message.topic).meters) { $0.dropped &+= 1 }
    }
}

extension Limits {
    /// Topic filters whose messages are counted: no more are taken. Bytes: `topicMeterBytesMax`.
    static let topicMetersMax = 512

    /// Bytes of these filters: no more are taken.
    static let topicMeterBytesMax = 1 << 20
}
