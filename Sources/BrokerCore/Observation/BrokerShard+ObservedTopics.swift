import BrokerModel
import MQTTCodec

/// Counting and tracing the messages of chosen topics.
///
/// What is sent at once, by the short ways and the long one, is what the shard's own count of sent messages grows by meanwhile; what leaves a
/// queue later, or goes another way, is counted as it is sent.
extension BrokerShard {
    /// The topics that somebody wants to know of; nil for none.
    var observed: ObservedTopics? { matchCache.observed }

    /// Changes which topics are observed: the matches that are known are old then.
    func changeObserved<Result>(_ change: (ObservedTopics) -> Result) -> Result {
        let topics = matchCache.observed ?? ObservedTopics(hashing: placement.hashing)
        defer {
            matchCache.observed = topics.isEmpty ? nil : topics
            tree.forgetMatches()
        }
        return change(topics)
    }

    /// Routes a message whose topic is observed.
    @inline(never)
    func routeObserved(_ publication: inout Publication, to matches: Matches, _ reach: Reach, isRepeated: Bool) {
        guard let observed else { return }
        let observers = observed.observers(of: publication.topic)
        if observers.traces != 0 {
            endFrameBatch()
            if reach == .everywhere { tracePublished(publication, to: observers.traces, isUnmatched: matches.isEmpty) }
        }
        let (before, bytesBefore) = (statistics.publishSent, statistics.publishBytesSent)
        observed.isCounting = true
        if observers.traces != 0 {
            publication.receiverCount = matches.routeCount
            // The long way tells of each receiver.
            deliverSpecially(&publication, to: matches)
        } else {
            deliverHere(&publication, to: matches, isRepeated: isRepeated)
        }
        deliverElsewhere(&publication, to: matches, reach)
        observed.isCounting = false
        let byteCount = UInt64(publication.payload.count)
        observed.count(observers.meters) {
            if reach == .everywhere {
                $0.received &+= 1
                $0.receivedBytes &+= byteCount
            }
            $0.sent &+= statistics.publishSent &- before
            $0.sentBytes &+= statistics.publishBytesSent &- bytesBefore
        }
    }

    /// Delivers the messages that have gathered, if their topic is observed.
    @inline(never)
    func deliverObservedFrameBatch(to matches: Matches) {
        guard let observed, !observed.isCounting else { return deliverGathered(to: matches) }
        let (before, bytesBefore) = (statistics.publishSent, statistics.publishBytesSent)
        observed.isCounting = true
        deliverGathered(to: matches)
        observed.isCounting = false
        observed.count(observed.observers(of: frameBatch[0].pointee.topic).meters) {
            $0.sent &+= statistics.publishSent &- before
            $0.sentBytes &+= statistics.publishBytesSent &- bytesBefore
        }
    }

    /// A message has been sent by the long way.
    @inline(never)
    func countObservedSent(
        _ frame: PublishFrame, _ publication: borrowing some PublishParts & ~Copyable, _ connection: Connection
    ) {
        guard let observed else { return }
        if tracer != nil {
            traceFate(
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
        if tracer != nil { traceDrop(reason, message, client) }
        guard let observed else { return }
        observed.count(observed.observers(of: message.topic).meters) { $0.dropped &+= 1 }
    }
}
